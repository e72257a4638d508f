"""What is in a compiled image of GPU kernels: their names and bounds, read from the file's own tables.

A cubin is an ELF file with a section `.text.NAME` for each kernel and a section `.nv.info.NAME` of
attributes (System V gABI, "Sections"; the attributes as NVIDIA's own tools print them).
"""

from __future__ import annotations

import re
import struct

MOST_THREADS = 1024
REGISTERS = 65536  # of a multiprocessor, which a block must fit into

_TEXT, _INFO = ".text.", ".nv.info."
_SIZED = 4  # an attribute with data: form, number, bytes of data (16 bit), data
_MAX_THREADS = 0x05  # three integers


def kernel_names(image: bytes) -> list[str]:
    """Names of the kernels in a cubin or in PTX, sorted.

    Raises:
        ValueError: it is neither.
    """
    if image[:4] == b"\x7fELF":
        names = (name for name, _ in _sections(image))
        return sorted(name.removeprefix(_TEXT) for name in names if name.startswith(_TEXT))
    entries: list[bytes] = re.findall(rb"\.visible\s+\.entry\s+(\w+)", image)
    if not entries:
        raise ValueError("neither a cubin nor PTX with kernels")
    return sorted(name.decode() for name in entries)


def thread_bounds(cubin: bytes) -> dict[str, int]:
    """The most threads of a block of each kernel of a cubin that says so (`KERNEL_BOUNDED`).

    Raises:
        ValueError: it is no cubin.
    """
    bounds = {}
    for name, data in _sections(cubin):
        if not name.startswith(_INFO):
            continue
        at = 0
        while at + 4 <= len(data):
            form, number, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if form != _SIZED:
                continue
            if number == _MAX_THREADS and size == 12 and at + 12 <= len(data):
                x, y, z = struct.unpack_from("<3I", data, at)
                bounds[name.removeprefix(_INFO)] = x * y * z
            at += size
    return bounds


def _sections(image: bytes) -> list[tuple[str, bytes]]:
    """Names and contents."""
    try:
        (table,) = struct.unpack_from("<Q", image, 0x28)
        entry_bytes, count, names_at = struct.unpack_from("<3H", image, 0x3A)
        headers = [
            struct.unpack_from("<I20xQQ", image, table + i * entry_bytes) for i in range(count)
        ]
        names_start = headers[names_at][1]
        sections = []
        for name_at, start, size in headers:
            first = names_start + name_at
            name = image[first : image.index(b"\0", first)].decode()
            sections.append((name, image[start : start + size]))
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise ValueError("a damaged cubin") from error
    return sections
