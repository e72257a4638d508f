"""Tests that need Windows: run with `pytest -m wine` and STRATUM_WINE naming a prepared folder."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.windows.wine import Wine


@pytest.fixture(scope="session")
def wine() -> Wine:
    folder = os.environ.get("STRATUM_WINE")
    if not folder:
        pytest.skip("STRATUM_WINE names no folder (python -m tests.windows.wine FOLDER makes one)")
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("Wine's root is entered as root on Linux")
    found = Wine(Path(folder).absolute())
    if not found.has_wine:
        pytest.skip(f"{folder} is not prepared: python -m tests.windows.wine {folder}")
    return found


@pytest.fixture
def wine_folder(wine: Wine) -> Iterator[Path]:
    """A folder that Windows programs see, with a name that breaks careless programs."""
    outer = wine.work / secrets.token_hex(4)
    folder = outer / "My Games ünï 中文 (x86) & more!"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(outer, ignore_errors=True)
