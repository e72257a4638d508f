"""Starting with the login: off, on, off again, and only what the person asked for."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from engine.core.login_start import AT_LOGIN, autostart_file, set_login_start

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Linux keeps it in a file")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


def test_on_makes_a_file_that_starts_this_program_and_off_takes_it_away(environment, tmp_path):
    root = tmp_path / 'My "Games" ünï 50%'
    set_login_start(root, is_on=True, environment=environment)
    text = autostart_file(environment).read_text("utf-8")
    command = next(line for line in text.splitlines() if line.startswith("Exec=")).removeprefix(
        "Exec="
    )
    words = shlex.split(command.replace("\\\\", "\\").replace("%%", "%"))
    assert words == [str(root / ".venv" / "bin" / "python"), "-m", "installer", AT_LOGIN]
    set_login_start(root, is_on=False, environment=environment)
    assert not autostart_file(environment).exists()


def test_off_twice_is_no_error(environment, tmp_path):
    set_login_start(tmp_path, is_on=False, environment=environment)
    set_login_start(tmp_path, is_on=False, environment=environment)
