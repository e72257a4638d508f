"""The app on a Windows Python: window, sign, supervisor without a model, second start, the end."""

from __future__ import annotations

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
SCRIPT = Path(__file__).with_name("app_check.py")
PACKAGES = (
    *("pyside6-essentials", "shiboken6", "psutil", "platformdirs", "requests", "urllib3", "idna"),
    *("certifi", "charset-normalizer", "pydantic", "pydantic-core", "annotated-types"),
    *("typing-extensions", "typing-inspection"),
)


def windows_packages(folder: Path) -> Path:
    """What the app needs, unpacked: of the versions and hashes that the requirements name."""
    wanted, wheels, site = folder / "wanted.txt", folder / "wheels", folder / "site"
    pins = (ROOT / "requirements" / "app.txt").read_text("utf-8")
    blocks = re.findall(r"^(\S+?)(==\S+(?: ;[^\\\n]+)?(?: \\\n\s+--hash=\S+)+)", pins, re.MULTILINE)
    wanted.write_text("\n".join(name + pin for name, pin in blocks if name in PACKAGES), "utf-8")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--platform", "win_amd64", "--python-version", "3.13"]
    subprocess.run([*command, "-r", str(wanted), "-d", str(wheels)], check=True)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)  # pinned by their hashes
    return site


def make_icu_stub(qt: Path, folder: Path) -> None:
    """Wine has no icuuc.dll; Qt only asks it for encodings that nobody uses here."""
    core = (qt / "Qt6Core.dll").read_bytes()
    names = sorted(set(re.findall(rb"\x00(ucnv_\w+|u_\w+|ucal_\w+)\x00", core)))
    source = folder / "icuuc.c"
    lines = [
        f"__declspec(dllexport) long long {name.decode()}(void) {{ return 0; }}" for name in names
    ]
    # Without a C library, which would be built first.
    lines.append("int DllMainCRTStartup(void *a, unsigned b, void *c) { return 1; }")
    source.write_text("\n".join(lines), "utf-8")
    command = [sys.executable, "-m", "ziglang", "cc", "-shared", "-nostdlib", "-w"]
    command += ["-target", "x86_64-windows-gnu"]
    subprocess.run([*command, "-o", str(qt / "icuuc.dll"), str(source)], check=True)


@pytest.mark.wine
@pytest.mark.timeout(600)
def test_the_app_starts_is_found_by_a_second_start_and_ends(
    wine: Wine, wine_folder: Path, tmp_path: Path
):
    site = wine_folder / "site"
    shutil.move(windows_packages(tmp_path), site)
    make_icu_stub(site / "PySide6", tmp_path)
    program = wine_folder / "program"
    leave_out = shutil.ignore_patterns("__pycache__")
    for name in ("app", "engine/core", "assets/icons"):
        shutil.copytree(ROOT / name, program / name, ignore=leave_out)
    for name in ("engine/__init__.py", "models.json", "LICENSE"):
        shutil.copy2(ROOT / name, program / name)
    shutil.copy2(SCRIPT, wine_folder)
    done = wine.run(
        *(wine.windows_path(wine.python / "python.exe"), "-X", "utf8", SCRIPT.name),
        *(wine.windows_path(program), wine.windows_path(wine_folder / "home")),
        wine.windows_path(site),
        cwd=wine_folder,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report.pop("banner")
    assert report == {
        "sign": "error",
        "reason": "no_model",
        "asked": "raise",
        "second_ends_with": 0,
        "ends_with": 0,
        "log_has_start": True,
    }
