"""Building the host kernel library: `python -m engine.kernels.build [--target linux|windows|all]`.

The release libraries in `prebuilt/` are made by the compiler that comes as package `ziglang`, for both
operating systems from either; any `c++` on PATH serves for a library of this machine. Every source
of an instruction set's variant is compiled with that set's flags, the rest for any x86-64.
`prebuilt/libraries.json` names each library's own hash and the hash of the sources that it was made
from; line endings do not change the latter. `--check` says whether both still hold.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import ResourceError

HOST_DIR = Path(__file__).with_name("host")
PREBUILT_DIR = Path(__file__).with_name("prebuilt")
BUILD_DIR = Path(__file__).with_name("build")
RECORD = PREBUILT_DIR / "libraries.json"

LIBRARY_NAMES = {"linux": "libstratum_host.so", "windows": "stratum_host.dll"}
ZIG_TARGETS = {"linux": "x86_64-linux-gnu.2.28", "windows": "x86_64-windows-gnu"}

# -ffp-contract=off: a product and a sum are fused only where the source says so, else a value could
# depend on how a compiler vectorised a loop.
# -fno-tree-slp-vectorize: it joins the look-ups of codebooks into vectors that it then takes apart.
COMMON_FLAGS = [
    "-std=c++17",
    "-O2",
    "-g0",
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-stack-protector",
    "-fno-tree-slp-vectorize",
]
_AVX2 = ("avx2", "fma", "f16c", "bmi", "bmi2")
# source -> processor features beyond plain x86-64
FEATURES: dict[str, tuple[str, ...]] = {
    "variant_avx2.cpp": _AVX2,
    "variant_avxvnni.cpp": (*_AVX2, "avxvnni"),
    "variant_avx512.cpp": (
        *(*_AVX2, "avx512f", "avx512bw", "avx512dq"),
        *("avx512vl", "avx512vbmi", "avx512vnni"),
    ),
    "library.cpp": (),
    "draw.cpp": (),
    "lookup.cpp": (),
    "ngram.cpp": (),
    "row_reader.cpp": (),
    "steps.cpp": (),
    "page_io_linux.cpp": (),
    "page_io_windows.cpp": (),
    "replay.cpp": (),
    "threads.cpp": (),
    "cpu.cpp": (),
}


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler.

    Attributes:
        command: the words that start it.
        is_zig: it can build for another operating system, and takes zig's ways of naming targets.
    """

    command: tuple[str, ...]
    is_zig: bool


def this_system() -> str:
    """`linux` or `windows`: the key of `LIBRARY_NAMES` for this machine."""
    return "windows" if os.name == "nt" else "linux"


def source_hash() -> str:
    """SHA-256 over the sources and flags; the same for LF and CRLF checkouts."""
    digest = hashlib.sha256()
    flags = [*COMMON_FLAGS, *(f"{name}:{','.join(FEATURES[name])}" for name in sorted(FEATURES))]
    digest.update("\n".join(flags).encode())
    for path in sorted(HOST_DIR.iterdir()):
        if path.suffix in {".cpp", ".h"}:
            content = path.read_bytes().replace(b"\r\n", b"\n")
            digest.update(f"\n{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def zig_compiler() -> Compiler | None:
    """The compiler of package `ziglang`, when it is installed."""
    if importlib.util.find_spec("ziglang") is None:
        return None
    return Compiler((sys.executable, "-m", "ziglang", "c++"), is_zig=True)


def path_compiler() -> Compiler | None:
    """The first C++ compiler on PATH."""
    for name in ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found is not None:
            return Compiler((found,), is_zig=False)
    return None


def _target_flags(compiler: Compiler, system: str, features: tuple[str, ...]) -> list[str]:
    if compiler.is_zig:
        cpu = "+".join(("x86_64", *features))
        return ["-target", ZIG_TARGETS[system], f"-mcpu={cpu}"]
    return [f"-m{feature}" for feature in features]


def _run_all(commands: list[list[str]], environment: dict[str, str]) -> None:
    """Run commands, two at a time.

    Raises:
        ResourceError: one failed; the message holds the start of what it said.
    """
    for first in range(0, len(commands), 2):
        running = [
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            for command in commands[first : first + 2]
        ]
        outputs = [process.communicate()[0] for process in running]
        for process, output in zip(running, outputs, strict=True):
            if process.returncode != 0:
                said = output.decode(errors="replace").strip()[:2000]
                raise ResourceError(f"The C++ kernels could not be compiled: {said}")


def _put(content: bytes, target: Path) -> None:
    """Write a file that appears whole, under its name, in one step: others may build it too."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
            file.write(content)
        temporary = Path(file.name)
        temporary.chmod(0o755)
        try:
            temporary.replace(target)
        except PermissionError:  # Windows: the file is there already, and in use
            temporary.unlink()
            if not target.is_file() or target.read_bytes() != content:
                raise
    except OSError as error:
        raise ResourceError(
            f"The kernel library {target} cannot be written ({error}); "
            "make the folder writable or free the disk."
        ) from error


def compile_library(compiler: Compiler, system: str, target: Path) -> None:
    """Compile and link the library for `system` into the file `target`.

    Raises:
        ResourceError: the compiler failed or could not be started.
    """
    environment = dict(os.environ)
    if compiler.is_zig:
        BUILD_DIR.mkdir(parents=True, exist_ok=True)
        environment.setdefault("ZIG_GLOBAL_CACHE_DIR", str(BUILD_DIR / "zig"))
        environment.setdefault("ZIG_LOCAL_CACHE_DIR", str(BUILD_DIR / "zig"))
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        commands = []
        for name, features in FEATURES.items():
            target_object = Path(folder) / f"{name}.o"
            flags = [*COMMON_FLAGS, *_target_flags(compiler, system, features)]
            commands.append(
                [*compiler.command, *flags, "-c", str(HOST_DIR / name), "-o", str(target_object)]
            )
            objects.append(str(target_object))
        linked = Path(folder) / target.name
        link = [*compiler.command, *_target_flags(compiler, system, ()), "-shared", "-s"]
        link += [*objects, "-nostdlib++", "-o", str(linked)]
        if not compiler.is_zig:  # gcc has no -nostdlib++ before version 13; nothing of it is used
            link.remove("-nostdlib++")
        if system == "linux":
            link.append("-lpthread")
        try:
            _run_all(commands, environment)
            _run_all([link], environment)
        except OSError as error:
            raise ResourceError(f"The C++ compiler could not be started: {error}.") from error
        _put(linked.read_bytes(), target)


def read_record() -> dict[str, dict[str, str]]:
    """For each prebuilt library its `sources` hash and its own `sha256`; empty when unreadable."""
    try:
        record = json.loads(RECORD.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    libraries = record.get("libraries") if isinstance(record, dict) else None
    if not isinstance(libraries, dict):
        return {}
    return {
        name: {key: str(value) for key, value in entry.items()}
        for name, entry in libraries.items()
        if isinstance(entry, dict)
    }


def prebuilt_path(system: str) -> Path | None:
    """The prebuilt library of `system` if it was made from the sources as they are."""
    name = LIBRARY_NAMES[system]
    path = PREBUILT_DIR / name
    if read_record().get(name, {}).get("sources") == source_hash() and path.is_file():
        return path
    return None


def build_prebuilt(systems: list[str]) -> list[Path]:
    """Build the release libraries with zig and write their record; returns their paths.

    Raises:
        ResourceError: zig is not installed, or fails.
    """
    compiler = zig_compiler()
    if compiler is None:
        raise ResourceError(
            "The release libraries are built with package ziglang, which is not installed; "
            "install requirements/dev.txt."
        )
    record = read_record()
    paths = []
    for system in systems:
        name = LIBRARY_NAMES[system]
        compile_library(compiler, system, PREBUILT_DIR / name)
        content = (PREBUILT_DIR / name).read_bytes()
        record[name] = {"sources": source_hash(), "sha256": hashlib.sha256(content).hexdigest()}
        paths.append(PREBUILT_DIR / name)
    text = json.dumps({"format": 1, "libraries": record}, indent=2, sort_keys=True)
    RECORD.write_text(text + "\n", encoding="utf-8", newline="\n")
    return paths


def check_prebuilt() -> list[str]:
    """What is wrong with the prebuilt libraries, as sentences; empty when all is well."""
    problems = []
    record = read_record()
    current = source_hash()
    for name in LIBRARY_NAMES.values():
        entry = record.get(name, {})
        path = PREBUILT_DIR / name
        if not path.is_file():
            problems.append(f"The prebuilt library {name} is missing.")
        elif entry.get("sha256") != hashlib.sha256(path.read_bytes()).hexdigest():
            problems.append(f"The prebuilt library {name} is not the file that was recorded.")
        elif entry.get("sources") != current:
            problems.append(f"The prebuilt library {name} was made from other sources.")
    if problems:
        problems.append("Run: python -m engine.kernels.build --target all")
    return problems


def main(arguments: list[str] | None = None) -> int:
    """Build or check the prebuilt libraries; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m engine.kernels.build", description=__doc__)
    parser.add_argument("--target", choices=["linux", "windows", "all"], default="all")
    parser.add_argument("--check", action="store_true", help="only say whether they are current")
    options = parser.parse_args(arguments)
    if options.check:
        problems = check_prebuilt()
        sys.stdout.write("\n".join(problems or ["The prebuilt libraries are current."]) + "\n")
        return 1 if problems else 0
    systems = list(LIBRARY_NAMES) if options.target == "all" else [options.target]
    try:
        for path in build_prebuilt(systems):
            sys.stdout.write(f"{path} {path.stat().st_size} bytes\n")
    except ResourceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
