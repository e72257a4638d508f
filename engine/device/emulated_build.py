"""Compiling the CUDA sources for the host, one library each, with the header of `tests/emulator`.

A library's name holds the hash of its source, of the headers that it includes, of the flags and of the
compiler, so only what changed is compiled again, and versions may lie side by side in the cache folder.
`STRATUM_EMULATED_CXX` names another compiler than the first of `c++`, `g++`, `clang++` and package
`ziglang`, which is called `zig` here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import platformdirs

from engine.core.files import write_atomically
from engine.device.base import DeviceError
from engine.kernels import build
from engine.kernels.build import Compiler
from engine.kernels.cuda_compile import texts_of

CUDA_FOLDER = Path(__file__).parents[1] / "kernels" / "cuda"
EMULATOR_FOLDER = Path(__file__).parents[2] / "tests" / "emulator"
COMPILER_VARIABLE = "STRATUM_EMULATED_CXX"

# The checks: what a card refuses or does differently (misaligned addresses, shifts by more bits than there
# are, indices outside an array, conversions that overflow) stops the kernel here.
# -fno-strict-aliasing: as NVRTC. -ffp-contract=off: as --fmad=false.
_KERNEL_FLAGS = [
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
    "-fno-strict-aliasing",
    "-fno-stack-protector",
    "-ftrivial-auto-var-init=pattern",
    "-Wall",
    "-Wno-unknown-pragmas",
    "-Wno-unused-function",
    "-Wno-unused-variable",
    "-Wno-attributes",
    "-DSTRATUM_EMULATED",
]
_CHECKS = "alignment,bounds,shift-exponent,float-cast-overflow"
_RUNTIME_FLAGS = [
    "-std=c++17",
    "-O2",
    "-g0",
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-fvisibility=hidden",
    "-Wall",
]
_RUNTIME = "runtime"
RUNTIME_SOURCES = ("runtime.cpp", "memory.cpp", "shared.cpp", "faults.cpp", "switch.cpp")


def compiler() -> Compiler:
    """The compiler that is used.

    Raises:
        DeviceError: there is none.
    """
    named = os.environ.get(COMPILER_VARIABLE)
    if named == "zig":
        found = build.zig_compiler()
    elif named:
        found = Compiler((named,), is_zig=False)
    else:
        # Not zig first: its first start builds a C++ library, which takes a minute.
        found = build.path_compiler() or build.zig_compiler()
    if found is None:
        raise DeviceError(
            "The emulated card needs a C++ compiler and there is none; install package ziglang or g++."
        )
    return found


def cache_folder() -> Path:
    """Where the libraries are kept."""
    return Path(platformdirs.user_cache_dir("stratum", appauthor=False)) / "emulator"


def kernel_names(folder: Path = CUDA_FOLDER) -> list[str]:
    """All CUDA sources of a folder, without their suffix."""
    return sorted(path.stem for path in folder.glob("*.cu"))


def build_runtime() -> Path:
    """The emulator's runtime library, compiled if it is not in the cache.

    Raises:
        DeviceError: it does not compile.
    """
    sources = [EMULATOR_FOLDER / name for name in RUNTIME_SOURCES]
    flags = runtime_flags(compiler())
    return _build([(sources, flags, _RUNTIME)])[0]


def build_kernels(names: Iterable[str], folder: Path = CUDA_FOLDER) -> list[Path]:
    """The libraries of these sources in their order, compiled side by side where they are not cached.

    Args:
        names: of the sources, without suffix.
        folder: where they are.

    Raises:
        DeviceError: one does not compile; the sentence names it and holds the compiler's words.
    """
    flags = kernel_flags(compiler())
    return _build([([folder / f"{name}.cu"], flags, name) for name in names])


def _build(jobs: list[tuple[list[Path], list[str], str]]) -> list[Path]:
    suffix = ".dll" if os.name == "nt" else ".so"
    used = [*compiler().command, _age_of_compiler()]
    targets = []
    for sources, flags, name in jobs:
        if name == _RUNTIME:
            digest = _digest([*sources, *sorted(EMULATOR_FOLDER.glob("*.h"))], [*used, *flags])
        else:
            texts = texts_of(name, [sources[0].parent, EMULATOR_FOLDER])
            digest = _digest([], [*used, *flags, *texts, *texts.values()])
        targets.append(cache_folder() / f"{name}-{digest[:16]}{suffix}")
    missing = [pair for pair in zip(jobs, targets, strict=True) if not pair[1].is_file()]
    if missing:
        with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
            list(pool.map(lambda pair: _compile_once(*pair), missing))
    return targets


def _compile_once(job: tuple[list[Path], list[str], str], target: Path) -> None:
    """Compile, unless another process does: then its library is waited for."""
    with _alone(target.parent, job[2]):
        if not target.is_file():
            _compile(job, target)


def _compile(job: tuple[list[Path], list[str], str], target: Path) -> None:
    sources, flags, name = job
    used = compiler()
    environment = dict(os.environ)
    if used.is_zig:
        environment.setdefault("ZIG_GLOBAL_CACHE_DIR", str(cache_folder() / "zig"))
        environment.setdefault("ZIG_LOCAL_CACHE_DIR", str(cache_folder() / "zig"))
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / target.name
        language = ["-x", "c++"] if name != _RUNTIME else []
        command = [*used.command, *flags, "-shared", *language, *map(str, sources), "-o", str(made)]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, check=False)
        except OSError as error:
            raise DeviceError(f"The C++ compiler could not be started: {error}.") from error
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()[:4000]
            raise DeviceError(f"The kernels of {name} do not compile for the emulated card: {said}")
        write_atomically(target, made.read_bytes())


def kernel_flags(used: Compiler) -> list[str]:
    """Everything on the command line of a kernel library but its source and target."""
    folders = ["-I", str(EMULATOR_FOLDER), "-I", str(CUDA_FOLDER)]
    checks = [f"-fsanitize={_CHECKS}"]
    if used.is_zig:
        checks += ["-fsanitize-trap=all"]
    else:
        checks += ["-fsanitize-undefined-trap-on-error"]
    return [*_KERNEL_FLAGS, *_processor(used), *checks, *folders]


def runtime_flags(used: Compiler) -> list[str]:
    """Everything on the command line of the runtime but its sources and target."""
    return [*_RUNTIME_FLAGS, *_processor(used)]


def _processor(used: Compiler) -> list[str]:
    """AVX2 for all: conversions of halves and fused products are instructions there."""
    return ["-mcpu=x86_64_v3"] if used.is_zig else ["-march=x86-64-v3"]


def _age_of_compiler() -> str:
    """Another compiler under the same name makes other libraries."""
    if compiler().is_zig:
        import ziglang  # noqa: PLC0415  # a development package

        return str(ziglang.__file__)
    found = Path(compiler().command[0])
    try:
        return str(found.resolve().stat().st_mtime_ns)
    except OSError:
        return ""


def _digest(paths: Iterable[Path], words: Iterable[str]) -> str:
    digest = hashlib.sha256("\n".join(words).encode())
    for path in paths:
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"\n{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


@contextlib.contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """One process at a time compiles a source: the others find the library when it is done."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("a+b") as file:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415  # exists there only

            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
                    break
                except OSError:
                    time.sleep(0.1)
            try:
                yield
            finally:
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
        else:
            import fcntl  # noqa: PLC0415  # exists there only

            fcntl.flock(file, fcntl.LOCK_EX)
            yield  # closing unlocks
