"""`setup.sh` on a system without anything; asked for by STRATUM_FRESH_ROOT=FOLDER."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fresh_root.sh")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="setup.sh is for Linux")
def test_setup_works_as_root_and_as_a_plain_user_with_an_empty_home():
    folder = os.environ.get("STRATUM_FRESH_ROOT")
    if not folder:
        pytest.skip("STRATUM_FRESH_ROOT names no folder for a fresh system (1 GB)")
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        pytest.skip("a fresh system is made as root, by mmdebstrap")
    done = subprocess.run(
        [SCRIPT, folder], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "== all is well" in done.stdout
