"""A server that is started twice, and two servers that share a data folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPT = {"answers": [{"times": 0, "text": "</think>\n\nYes."}]}


def test_the_first_server_stays_the_one_of_the_data_folder(start_server):
    first = start_server(SCRIPT)
    home = {"STRATUM_HOME": str(first.home)}
    second = start_server(SCRIPT, environment=home)
    record = json.loads((first.home / "data" / "engine.json").read_text(encoding="utf-8"))
    assert record["pid"] == first.process.pid
    assert f"keeps naming the server on port {first.port}" in second.log()
    assert second.chat("hello").status_code == 200
    again = subprocess.run(
        [
            *(sys.executable, "-m", "engine", "serve", "--port", str(first.port)),
            *("--script", str(first.home.parent / "script.json"), "--parallel", "2"),
        ],
        cwd=REPOSITORY,
        env={**os.environ, **home},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert again.returncode == 2
    assert f"already running with other settings (process {first.process.pid})" in again.stderr
