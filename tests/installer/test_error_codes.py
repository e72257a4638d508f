"""Every code that a download can end with is listed, so that each language can have its sentence."""

from __future__ import annotations

import re
from pathlib import Path

from installer import errors
from installer.download.plan import NOTICE_CODES
from installer.errors import DOWNLOAD_ERROR_CODES, InstallError

ROOT = Path(errors.__file__).parent
SOURCES = [*(ROOT / "download").glob("*.py"), *(ROOT / "mtp_source").glob("*.py")]


def used_codes() -> set[str]:
    text = "\n".join(path.read_text("utf-8") for path in SOURCES)
    named = set(re.findall(r'code="(\w+)"', text))
    positional = set(re.findall(r'(?:final|network)\(\s*"(\w+)"', text))
    return named | positional


def test_every_code_that_is_raised_is_listed():
    assert used_codes() <= set(DOWNLOAD_ERROR_CODES)


def test_no_listed_code_is_dead():
    defaults = {
        cls.code
        for cls in vars(errors).values()
        if isinstance(cls, type) and issubclass(cls, InstallError)
    }
    assert set(DOWNLOAD_ERROR_CODES) <= used_codes() | defaults


def test_every_notice_is_listed_and_none_is_dead():
    text = (ROOT / "download" / "planner.py").read_text("utf-8")
    text += (ROOT / "download" / "hub_facts.py").read_text("utf-8")
    used = set(re.findall(r'(?:_note|Notice)\(\s*"(\w+)"', text))
    assert used == set(NOTICE_CODES)
