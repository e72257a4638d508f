"""How many processor packages (sockets) this machine has; memory of another one is far away."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

_SYSTEM = Path("/sys/devices/system/cpu")
_PACKAGE = 3  # RelationProcessorPackage


def count_sockets(system: Path = _SYSTEM) -> int:
    """The number of packages; 1 where the system says nothing."""
    try:
        if sys.platform == "win32":
            return max(1, _windows_sockets())
        packages = {
            (folder / "topology" / "physical_package_id").read_text(encoding="ascii").strip()
            for folder in system.glob("cpu[0-9]*")
            if (folder / "topology" / "physical_package_id").exists()
        }
    except (OSError, ValueError):
        return 1
    return max(1, len(packages))


def _windows_sockets() -> int:
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415  # its WinDLL exists only there

        function = ctypes.WinDLL("kernel32").GetLogicalProcessorInformationEx
        size = ctypes.c_uint32(0)
        function(_PACKAGE, None, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        if function(_PACKAGE, buffer, ctypes.byref(size)):
            return count_records(buffer.raw[: size.value])
    return 1


def count_records(records: bytes) -> int:
    """Records in what GetLogicalProcessorInformationEx filled; each begins with kind and size."""
    count = at = 0
    while at + 8 <= len(records):
        _kind, size = struct.unpack_from("<II", records, at)
        if size < 8:
            break
        count += 1
        at += size
    return count
