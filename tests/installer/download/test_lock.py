"""One download per data folder, also after a crash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from installer.download.lock import LOCK_NAME, download_lock
from installer.errors import BusyError

ROOT = Path(__file__).parents[3]
HOLD = """
import sys, time
from pathlib import Path
from installer.download.lock import download_lock
with download_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_process_that_holds_the_lock_is_named_and_its_death_frees_it(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"held"
        with pytest.raises(BusyError) as caught, download_lock(tmp_path):
            pass
        assert str(child.pid) in caught.value.message
        child.kill()
        child.wait()
        with download_lock(tmp_path):
            assert (tmp_path / LOCK_NAME).read_text().strip() == str(os.getpid())


def test_the_lock_is_free_again_after_the_block(tmp_path):
    for _ in range(2):
        with download_lock(tmp_path):
            pass
    with pytest.raises(ValueError, match="mine"), download_lock(tmp_path):
        raise ValueError("mine")
    with download_lock(tmp_path):
        pass


def test_the_same_process_cannot_take_it_twice(tmp_path):
    with download_lock(tmp_path), pytest.raises(BusyError), download_lock(tmp_path):
        pass
