"""Run by a Windows Python without packages: what the engine asks Windows about memory.

    python memory_check.py PROGRAM FOLDER

Prints one JSON object. numpy and psutil are stand-ins: nothing of them is called here.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace


class Typing(ModuleType):
    """Stands in for numpy.typing: any name may be looked up."""

    def __getattr__(self, name: str) -> object:
        return object


def main(program: str, folder: str) -> dict[str, object]:
    """Call each part once."""
    for name in ("numpy", "numpy.typing", "psutil"):
        sys.modules[name] = Typing(name)
    sys.path.insert(0, program)
    from engine.core.memory_pressure import WindowsWatch, system_watch  # noqa: PLC0415
    from engine.gguf.file_pages import WindowsPages, system_pages  # noqa: PLC0415
    from engine.memory.idle_pages import forget  # noqa: PLC0415

    path = Path(folder) / "Datei 中文.bin"
    path.write_bytes(bytes(range(256)) * 4096)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    pages = system_pages()
    ranges = [(address + 10, 100), (address + 500_000, 40_000)]
    pages.request(ranges)
    memory = mmap.mmap(-1, 16 * 65536)
    memory[:] = b"\x07" * len(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    array = SimpleNamespace(
        flags=SimpleNamespace(c_contiguous=True),
        nbytes=len(memory),
        strides=(65536,),
        ctypes=SimpleNamespace(data=start),
    )
    forgotten = forget(array, [3, 5])
    memory[3 * 65536] = 1  # it can be used again
    watch = system_watch()
    return {
        "pages": isinstance(pages, WindowsPages),
        "contents": mapped[500_000:500_004] == path.read_bytes()[500_000:500_004],
        "missing": pages.missing_bytes(ranges),
        "waits": pages.wait(ranges),
        "forgotten": forgotten,
        "others": memory[4 * 65536] == 7,
        "watch": isinstance(watch, WindowsWatch),
        "is_low": watch.is_low(),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
