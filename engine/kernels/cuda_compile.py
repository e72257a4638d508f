"""Compiling the CUDA sources for cards: `python -m engine.kernels.cuda_compile [--table FILE] [names]`.

Every source becomes a cubin, the card's own code, for exactly its architecture: PTX of a new compiler
is refused by an older driver, a cubin is not. Only a card that is newer than the compiler gets PTX.
Results are kept in a folder with a plain path, under the hash of all that went into them.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import re
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from engine.core.ascii_folders import ascii_folder
from engine.core.errors import ResourceError
from engine.core.files import write_atomically
from engine.core.folders import cache_folder
from engine.kernels.nvrtc import CompileError, Nvrtc, load_nvrtc

log = logging.getLogger(__name__)

CUDA_FOLDER = Path(__file__).with_name("cuda")
ARCHITECTURES = (75, 80, 86, 89, 90, 120)  # proven in CI, with every card between them
OLDEST = 75  # Turing: the first with int8 tensor cores that we use
MOST_SHARED_BYTES = 48 << 10

# --fmad=false: a product and a sum are fused only where the source says fmaf, so that variants of a
# kernel for different numbers of rows agree in every bit, with each other and with the host.
_OPTIONS = ("-std=c++17", "--fmad=false", "-default-device")


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel takes of a multiprocessor.

    Attributes:
        kernel: its name.
        registers: a thread.
        shared_bytes: a block, static.
        stack_bytes: a thread, in slow local memory.
        spilled_bytes: a thread, stored and loaded for lack of registers.
    """

    kernel: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spilled_bytes: int


def kernel_files() -> list[str]:
    """All CUDA sources, without their suffix."""
    return sorted(path.stem for path in CUDA_FOLDER.glob("*.cu"))


def exported_names(name: str) -> list[str]:
    """The kernels that a source says to export; macros that export are not followed."""
    text = (CUDA_FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    return re.findall(r"^EXPORT\((\w+)\)\s*$", text, re.MULTILINE)


def target_of(capability: tuple[int, int], supported: Sequence[int]) -> str:
    """The architecture to compile for.

    Args:
        capability: of the card.
        supported: by the compiler, ascending.

    Returns:
        `sm_89` and the like; `compute_..` for a card of a family that the compiler does not know.

    Raises:
        ResourceError: the card is too old.
    """
    wanted = capability[0] * 10 + capability[1]
    if wanted < OLDEST:
        raise ResourceError(
            f"The graphics card is of compute capability {capability[0]}.{capability[1]}, and "
            f"{OLDEST // 10}.{OLDEST % 10} is the oldest that Stratum can use (GeForce RTX 20 or "
            "GTX 16, and newer); it runs on the processor instead.",
            code="gpu_too_old",
            params={"capability": f"{capability[0]}.{capability[1]}"},
        )
    older = [known for known in supported if known <= wanted]
    if wanted in supported:
        return f"sm_{wanted}"
    if older and older[-1] // 10 == wanted // 10:  # code runs on later cards of its family
        return f"sm_{older[-1]}"
    return f"compute_{older[-1]}" if older else f"sm_{wanted}"


def compile_source(
    nvrtc: Nvrtc, name: str, target: str, *, verbose: bool = False
) -> tuple[bytes, str]:
    """Compile one source for one target.

    Args:
        nvrtc: the compiler.
        name: of the source, without its suffix.
        target: as `target_of` says.
        verbose: the log tells what each kernel takes.

    Returns:
        The image, and the log.

    Raises:
        CompileError: it does not compile.
    """
    texts = texts_of(name)
    source = texts.pop(f"{name}.cu", None)
    if source is None:
        raise CompileError(f"There is no CUDA source {name}.cu in {CUDA_FOLDER}.")
    options = [f"--gpu-architecture={target}", *_OPTIONS]
    if verbose:
        options.append("--ptxas-options=-v")
    return nvrtc.compile(f"{name}.cu", source, texts, options)


class KernelCache:
    """Images that were compiled before; without a folder to write to, everything is compiled anew."""

    def __init__(self, folder: Path | None = None) -> None:
        """Find the folder.

        Args:
            folder: preferred; None for the usual one of this person.
        """
        usual = cache_folder() / "cuda"
        preferred = folder or usual
        found = ascii_folder(preferred)
        if found is not None and found != preferred:
            found = ascii_folder(found / "cuda")
        self._folder = found
        if found is None:
            self._say(preferred, "it cannot be made or written to")

    def image(self, nvrtc: Nvrtc, name: str, target: str) -> bytes:
        """The image of a source for a target, compiled if it is not kept.

        Raises:
            CompileError: it does not compile.
        """
        path = self._folder and self._folder / f"{name}-{target}-{_digest(nvrtc, name, target)}"
        if path is not None:
            try:
                kept = path.read_bytes()
            except OSError:
                kept = b""
            # The hash in front tells a file that was cut short by a full disk or a pulled plug.
            if kept[:32] == hashlib.sha256(kept[32:]).digest() and len(kept) > 32:
                return kept[32:]
        image, _ = compile_source(nvrtc, name, target)
        if path is not None:
            try:
                write_atomically(path, hashlib.sha256(image).digest() + image)
            except (OSError, ResourceError) as error:
                self._say(path.parent, str(error))
                self._folder = None
        return image

    def _say(self, folder: Path, reason: str) -> None:
        log.warning(
            "the GPU kernels are compiled at each start, since they cannot be kept in %s: %s",
            folder,
            reason,
        )


def resources(text: str) -> list[Resources]:
    """What the log of a verbose compilation says of each kernel, by name."""
    found = []
    for part in text.split("Compiling entry function '")[1:]:
        name = part.split("'", 1)[0]
        found.append(
            Resources(
                name,
                _figure(r"Used (\d+) registers", part),
                _figure(r"(\d+) bytes smem", part),
                _figure(r"(\d+) bytes stack frame", part),
                _figure(r"(\d+) bytes spill stores", part)
                + _figure(r"(\d+) bytes spill loads", part),
            )
        )
    return sorted(found, key=lambda item: item.kernel)


def _figure(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match.group(1)) if match else 0


def texts_of(name: str, folders: Sequence[Path] = ()) -> dict[str, str]:
    """A source and all headers that it includes, by file name; the source comes first.

    Args:
        name: of the source, without its suffix.
        folders: where files are looked for; `CUDA_FOLDER` comes last.
    """
    folders = [*folders, CUDA_FOLDER]
    texts: dict[str, str] = {}
    wanted = [f"{name}.cu"]
    while wanted:
        file_name = wanted.pop(0)
        if file_name in texts:
            continue
        path = next((path for f in folders if (path := f / file_name).is_file()), None)
        if path is not None:
            texts[file_name] = path.read_text(encoding="utf-8")
            wanted += re.findall(r'^\s*#\s*include\s+"([^"]+)"', texts[file_name], re.MULTILINE)
    return texts


def _digest(nvrtc: Nvrtc, name: str, target: str) -> str:
    parts = [str(nvrtc.version), target, *_OPTIONS]
    parts += [f"{key}\n{text}" for key, text in texts_of(name).items()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def table(nvrtc: Nvrtc, names: Iterable[str], architectures: Sequence[int]) -> str:
    """A Markdown table: each kernel's registers by architecture, with what is spilled.

    Raises:
        CompileError: a source does not compile.
    """
    rows: dict[str, dict[int, Resources]] = {}
    jobs = [(name, architecture) for name in names for architecture in architectures]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        logs = pool.map(
            lambda job: compile_source(nvrtc, job[0], f"sm_{job[1]}", verbose=True)[1], jobs
        )
        for (_, architecture), said in zip(jobs, logs, strict=True):
            for item in resources(said):
                rows.setdefault(item.kernel, {})[architecture] = item
    lines = [
        "# What the GPU kernels take",
        "",
        f"Registers a thread, by NVRTC {nvrtc.version[0]}.{nvrtc.version[1]}; `+ n` are bytes a thread that "
        "were spilled (stored and loaded), `s n` bytes of local stack. Made by "
        "`python -m engine.kernels.cuda_compile --table bench/results/gpu-kernels.md`.",
        "",
        "| kernel | " + " | ".join(f"sm_{a}" for a in architectures) + " | shared bytes |",
        "| --- |" + " ---: |" * (len(architectures) + 1),
    ]
    for kernel in sorted(rows):
        items = [rows[kernel].get(architecture) for architecture in architectures]
        shared = max(item.shared_bytes for item in items if item is not None)
        lines.append(f"| `{kernel}` | " + " | ".join(map(_cell, items)) + f" | {shared} |")
    return "\n".join(lines) + "\n"


def _cell(item: Resources | None) -> str:
    if item is None:
        return ""
    stack = f" s {item.stack_bytes}" if item.stack_bytes else ""
    return f"{item.registers}" + (f" + {item.spilled_bytes}" if item.spilled_bytes else "") + stack


def main(arguments: list[str] | None = None) -> int:
    """Compile sources for all architectures; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m engine.kernels.cuda_compile", description=__doc__
    )
    parser.add_argument("names", nargs="*", help="sources without suffix; default: all")
    parser.add_argument("--table", type=Path, help="write the table of registers to this file")
    options = parser.parse_args(arguments)
    try:
        text = table(load_nvrtc(), options.names or kernel_files(), ARCHITECTURES)
    except ResourceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.table is None:
        sys.stdout.write(text)
    else:
        options.table.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
