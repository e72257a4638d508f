"""Make the release zip: `python tools/make_release.py OUT_FOLDER [--uv uv.exe]`.

The zip holds one folder, `Stratum-VERSION/`, with what a person needs: the program, its documents and
`bin/uv.exe`, which brings a Python to a PC that has none. `release.json` in it lists every file's
SHA-256 (repair and uninstallation use it), `SHA256SUMS` beside the zip the zip's own. The same sources
give the same bytes: order, times and modes are fixed. Release from a clean checkout.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# The wheel of uv 0.13.9 for Windows, x86-64.
UV_WHEEL_SHA256 = "6a44b2ed8111d2f60d2b92627c5dccda3f7ed7570b18ce115e569cd68c28246b"
UV_NAME = "bin/uv.exe"
UV_SUM_LINE = 'set "UV_SHA256={sha256}"'  # of START-HERE.bat, which compares it

# What only maintainers need.
LEFT_OUT = (
    ".ci/",
    ".git",
    "bench/",
    "tests/",
    "tools/",
    "requirements/dev.",
    "requirements/train.",
)
CRLF = frozenset({".bat"})
TEXT = frozenset(
    {
        ".py",
        ".md",
        ".txt",
        ".in",
        ".json",
        ".toml",
        ".sh",
        ".cpp",
        ".h",
        ".yaml",
        ".css",
        ".js",
        ".html",
        ".svg",
    }
)
EXECUTABLE = frozenset({"setup.sh"})
TIME = (1980, 1, 1, 0, 0, 0)  # a zip's earliest


def main() -> int:
    """Make it; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the zip and SHA256SUMS")
    parser.add_argument("--uv", type=Path, help="uv's Windows wheel, pinned by its hash")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    arguments = parser.parse_args()
    try:
        path = make_release(arguments.root, arguments.out, arguments.uv)
    except ValueError as error:
        print(f"make_release: {error}", file=sys.stderr)
        return 2
    print(path)
    return 0


def make_release(root: Path, out: Path, uv_wheel: Path | None) -> Path:
    """Write the zip and SHA256SUMS; the zip's path.

    Raises:
        ValueError: a source is missing or is not what it should be.
    """
    version = version_of(root)
    contents = {name: content_of(root, name) for name in tracked_files(root)}
    for needed in ("START-HERE.bat", "setup.sh", "requirements/base.txt", "engine/__main__.py"):
        if needed not in contents:
            raise ValueError(f"{needed} is missing; is {root} a checkout?")
    if uv_wheel is not None:
        contents[UV_NAME] = uv_program(uv_wheel)
        wanted = UV_SUM_LINE.format(sha256=hashlib.sha256(contents[UV_NAME]).hexdigest())
        if wanted.encode() not in contents["START-HERE.bat"]:
            raise ValueError(f"START-HERE.bat knows another uv.exe; it needs the line {wanted}")
    listed = {
        name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())
    }
    release = {"format": 1, "version": version, "files": listed}
    contents["release.json"] = (json.dumps(release, indent=1) + "\n").encode()

    out.mkdir(parents=True, exist_ok=True)
    path = out / f"Stratum-{version}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(contents):
            info = zipfile.ZipInfo(f"Stratum-{version}/{name}", TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, wherever it is made: modes count
            info.external_attr = (0o100755 if name in EXECUTABLE else 0o100644) << 16
            archive.writestr(info, contents[name])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (out / "SHA256SUMS").write_text(f"{digest}  {path.name}\n", encoding="ascii", newline="\n")
    return path


def version_of(root: Path) -> str:
    """The program's version.

    Raises:
        ValueError: it says none.
    """
    for line in (root / "engine" / "__init__.py").read_text(encoding="utf-8").splitlines():
        if line.startswith("__version__"):
            return line.partition("=")[2].strip().strip('"')
    raise ValueError("engine/__init__.py names no version")


def tracked_files(root: Path) -> list[str]:
    """What belongs into a release, in order: files that git knows, without what maintainers need."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True
    ).stdout
    names = [name for name in listed.decode().split("\0") if name]
    return sorted(name for name in names if not name.startswith(LEFT_OUT))


def content_of(root: Path, name: str) -> bytes:
    """A file with the line ends that its kind has everywhere, however it was checked out.

    Raises:
        ValueError: it is not there.
    """
    try:
        content = (root / name).read_bytes()
    except OSError as error:
        raise ValueError(f"{name} cannot be read ({error.strerror or error})") from error
    suffix = Path(name).suffix
    if suffix in TEXT or suffix in CRLF:
        content = content.replace(b"\r\n", b"\n")
    return content.replace(b"\n", b"\r\n") if suffix in CRLF else content


def uv_program(wheel: Path) -> bytes:
    """uv.exe out of its wheel.

    Raises:
        ValueError: the wheel is another one.
    """
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != UV_WHEEL_SHA256:
        raise ValueError(f"{wheel} is not the uv that this release is pinned to")
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/uv.exe"))
        return archive.read(name)


if __name__ == "__main__":
    sys.exit(main())
