"""The release zip: whole, reproducible, with the right line ends and hashes."""

import hashlib
import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from tools.make_release import make_release, tracked_files, version_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout with the files that must be there."""
    root = tmp_path / "a checkout"
    for name, text in {
        "START-HERE.bat": "@echo off\n",
        "setup.sh": "#!/bin/sh\r\n",
        "requirements/base.txt": "",
        "requirements/dev.txt": "",
        "engine/__main__.py": "",
        "engine/__init__.py": '__version__ = "1.2.3"\n',
        "docs/用户.md": "text\n",
        "tests/test_x.py": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True, capture_output=True)
    return root


def test_the_same_sources_give_the_same_bytes(checkout: Path, tmp_path: Path):
    first = make_release(checkout, tmp_path / "one", None).read_bytes()
    for path in checkout.rglob("*.py"):
        path.touch()
    assert make_release(checkout, tmp_path / "two", None).read_bytes() == first
    sums = (tmp_path / "one" / "SHA256SUMS").read_text()
    assert sums == f"{hashlib.sha256(first).hexdigest()}  Stratum-1.2.3.zip\n"


def test_line_ends_modes_and_hashes_are_right(checkout: Path, tmp_path: Path):
    with zipfile.ZipFile(make_release(checkout, tmp_path, None)) as archive:
        names = {name.removeprefix("Stratum-1.2.3/") for name in archive.namelist()}
        read = {name: archive.read(f"Stratum-1.2.3/{name}") for name in names}
        mode = archive.getinfo("Stratum-1.2.3/setup.sh").external_attr >> 16
    assert "docs/用户.md" in names
    assert not {"tests/test_x.py", "requirements/dev.txt"} & names
    assert read["START-HERE.bat"] == b"@echo off\r\n"
    assert read["setup.sh"] == b"#!/bin/sh\n"
    assert mode & 0o111
    listed = json.loads(read["release.json"])["files"]
    assert listed.keys() == names - {"release.json"}
    assert all(hashlib.sha256(read[name]).hexdigest() == listed[name] for name in listed)


def test_another_uv_is_refused(checkout: Path, tmp_path: Path):
    wheel = tmp_path / "uv.whl"
    wheel.write_bytes(b"something else")
    with pytest.raises(ValueError, match="pinned"):
        make_release(checkout, tmp_path, wheel)


def test_a_release_of_this_checkout_has_what_a_person_needs():
    names = set(tracked_files(ROOT))
    assert {"START-HERE.bat", "setup.sh", "models.json", "LICENSE", "README.md"} <= names
    assert "engine/kernels/prebuilt/stratum_host.dll" in names
    assert version_of(ROOT)
