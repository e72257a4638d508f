"""The look at a PC, done by a Windows Python: registry, unbuffered reads, CPUID, memory's speed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.windows.wine import Wine

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
from pathlib import Path
from engine.core.note import as_plain
from engine.core.survey import survey
seen = survey(Path(sys.argv[1]), endpoints=["http://127.0.0.1:9"])
sys.stdout.reconfigure(encoding="utf-8")
print(json.dumps(as_plain(seen)))
"""


def windows_psutil(folder: Path) -> Path:
    """psutil's wheel for Windows, of the version and with a hash that the requirements name."""
    pins = (ROOT / "requirements" / "base.txt").read_text(encoding="utf-8")
    block = re.search(r"^psutil==(\S+)((?: \\\n\s+--hash=\S+)+)", pins, re.MULTILINE)
    assert block is not None
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    command += ["--only-binary", ":all:", "--platform", "win_amd64", f"psutil=={block[1]}"]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("psutil-*.whl")
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() in block[2]
    return wheel


@pytest.mark.wine
def test_a_windows_pc_is_seen(wine: Wine, wine_folder: Path, tmp_path: Path) -> None:
    core = wine_folder / "engine" / "core"
    shutil.copytree(ROOT / "engine" / "core", core, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "engine" / "__init__.py", wine_folder / "engine")
    prebuilt = wine_folder / "engine" / "kernels" / "prebuilt"
    prebuilt.mkdir(parents=True)
    shutil.copy2(ROOT / "engine" / "kernels" / "prebuilt" / "stratum_host.dll", prebuilt)
    with zipfile.ZipFile(windows_psutil(tmp_path)) as archive:
        archive.extractall(wine_folder)  # pinned by its hash
    script = wine_folder / "look.py"
    script.write_text(SCRIPT, encoding="utf-8")
    words = [wine.windows_path(wine.python / "python.exe"), script.name, "modelle größe"]
    done = wine.run(*words, cwd=wine_folder, PYTHONPATH=".", PYTHONUTF8="1")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["took_s"] < 10
    assert seen["environment"]["system"] == "Windows"
    assert (seen["cpu"]["source"], seen["cpu"]["avx2"]) == ("cpuid", True)
    assert seen["machine"]["ram_total_bytes"] > 1 << 30
    assert seen["memory_bytes_per_s"] > 1e9
    assert seen["fast_cores"] + seen["slow_cores"] >= 1
    drive = seen["data_drive"]
    assert re.fullmatch(r"[A-Z]:\\", drive["mount"])
    assert drive["speed"]["sequential_bytes_per_s"] > 1e6
    assert drive["speed"]["is_unbuffered"]
    assert seen["reach"][0]["state"] in {"refused", "timed_out"}
    failed = [note for note in seen["notes"] if note["code"] == "probe_failed"]
    assert failed == []
    assert not (wine_folder / "modelle größe").exists()
    assert not list(wine_folder.glob(".stratum-speed-*"))
