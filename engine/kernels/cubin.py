"""What is in a compiled image of GPU kernels: their names, read from the file's own tables."""

from __future__ import annotations

import re
import struct

_TEXT = b".text."


def kernel_names(image: bytes) -> list[str]:
    """Names of the kernels in a cubin or in PTX, sorted.

    A cubin is an ELF file with a section `.text.NAME` for each kernel (System V gABI, "Sections").

    Raises:
        ValueError: it is neither.
    """
    if image[:4] == b"\x7fELF":
        names = (name[len(_TEXT) :] for name in _section_names(image) if name.startswith(_TEXT))
        return sorted(name.decode() for name in names)
    entries: list[bytes] = re.findall(rb"\.visible\s+\.entry\s+(\w+)", image)
    if not entries:
        raise ValueError("neither a cubin nor PTX with kernels")
    return sorted(name.decode() for name in entries)


def _section_names(image: bytes) -> list[bytes]:
    try:
        (table,) = struct.unpack_from("<Q", image, 0x28)
        entry_bytes, count, names_at = struct.unpack_from("<3H", image, 0x3A)
        offsets = [table + i * entry_bytes for i in range(count)]
        (names_start,) = struct.unpack_from("<Q", image, offsets[names_at] + 0x18)
        starts = [names_start + struct.unpack_from("<I", image, at)[0] for at in offsets]
        return [image[start : image.index(b"\0", start)] for start in starts]
    except (struct.error, IndexError, ValueError) as error:
        raise ValueError("a damaged cubin") from error
