"""The emulator's runtime and kernel libraries as Python sees them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

from engine.device import emulated_build
from engine.device.base import DeviceError

VERSION = 1
MOST_THREADS = 1024
_MOST_PARAMETERS = 64

_Index3 = ctypes.c_uint32 * 3
_TYPES: dict[str, type[ctypes._SimpleCData[int]] | type[ctypes.c_void_p]] = {
    "i": ctypes.c_int32,
    "u": ctypes.c_uint64,
    "p": ctypes.c_void_p,
}


class _Entry(ctypes.Structure):
    """`Entry` of interface.h."""


_Entry._fields_ = [
    ("name", ctypes.c_char_p),
    ("call", ctypes.c_void_p),
    ("num_parameters", ctypes.c_int32),
    ("sizes", ctypes.c_int32 * _MOST_PARAMETERS),
    ("kinds", ctypes.c_uint8 * _MOST_PARAMETERS),
    ("next", ctypes.POINTER(_Entry)),
]


class _Module(ctypes.Structure):
    """`Module` of interface.h."""

    _fields_ = (
        ("version", ctypes.c_int32),
        ("here", ctypes.c_void_p),
        ("entries", ctypes.POINTER(_Entry)),
        ("touch_shared", ctypes.c_void_p),
    )


class Launch(ctypes.Structure):
    """`Launch` of runtime.cpp."""

    _fields_ = (
        ("module", ctypes.c_void_p),
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("grid_size", _Index3),
        ("block_size", _Index3),
        ("shared_bytes", ctypes.c_uint32),
        ("order", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("poison", ctypes.c_int32),
    )


class Report(ctypes.Structure):
    """`Report` of runtime.cpp."""

    _fields_ = (
        ("fault", ctypes.c_int32),
        ("address", ctypes.c_uint64),
        ("block", _Index3),
        ("thread", _Index3),
        ("reason", ctypes.c_char * 256),
    )


class CompiledKernel:
    """A kernel of a loaded library.

    Attributes:
        name: as exported.
        module: address of what its library exported.
        entry: address of its own part of that.
        sizes: of its parameters, in bytes.
        are_pointers: which of them are pointers.
        num_words: a launch's copied arguments with their addresses, in words of 8 bytes.
        most_threads: of a block.
    """

    def __init__(self, module: int, entry: _Entry, library: ctypes.CDLL) -> None:
        self.name = entry.name.decode()
        self.module = module
        self.entry = ctypes.addressof(entry)
        self.sizes = tuple(entry.sizes[: entry.num_parameters])
        self.are_pointers = tuple(kind == 1 for kind in entry.kinds[: entry.num_parameters])
        try:
            self.most_threads = ctypes.c_int32.in_dll(library, f"stratum_bound_{self.name}").value
        except ValueError:  # not a bounded kernel
            self.most_threads = MOST_THREADS
        self.num_words = max(1, sum(1 + (size + 7) // 8 for size in self.sizes))


class Runtime:
    """The loaded runtime. Its functions are described where they are defined, in runtime.cpp."""

    def __init__(self, path: Path) -> None:
        """Load it.

        Raises:
            DeviceError: it cannot be loaded.
        """
        self._library = _load(path)
        self.functions = self._bind("stratum_runtime", ctypes.c_void_p)()
        self.alloc = self._bind("stratum_alloc", ctypes.c_uint64, "iuii")
        self.free = self._bind("stratum_free", None, "uu")
        self.register = self._bind("stratum_register", None, "iuu")
        self.unregister = self._bind("stratum_unregister", None, "u")
        self.holds = self._bind("stratum_holds", ctypes.c_int32, "iuu")
        self.first_overrun = self._bind("stratum_first_overrun", ctypes.c_uint64, "i")
        self.pack = self._bind("stratum_pack", ctypes.c_int32, "pipp")
        self.run = self._bind("stratum_run", ctypes.c_int32, "pp")

    def _bind(self, name: str, result: type | None, kinds: str = "") -> ctypes._NamedFuncPointer:
        function = self._library[name]
        function.restype = result
        function.argtypes = [_TYPES[kind] for kind in kinds]
        return function

    def load(self, path: Path) -> list[CompiledKernel]:
        """The kernels of a library.

        Raises:
            DeviceError: it cannot be loaded.
        """
        library = _load(path)
        library.stratum_module.restype = ctypes.POINTER(_Module)
        library.stratum_module.argtypes = [ctypes.c_void_p]
        module = library.stratum_module(self.functions).contents
        if module.version != VERSION:
            raise DeviceError(f"The emulated kernels {path} have version {module.version}.")
        kernels = []
        entry = module.entries
        while entry:
            kernels.append(CompiledKernel(ctypes.addressof(module), entry.contents, library))
            entry = entry.contents.next
        return kernels


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(f"The emulated kernels {path} cannot be loaded: {error}.") from error


@functools.cache
def runtime() -> Runtime:
    """The one runtime of this process: addresses are the same for all emulated cards.

    Raises:
        DeviceError: it cannot be compiled or loaded.
    """
    return Runtime(emulated_build.build_runtime())


@functools.cache
def _kernels_of(path: Path) -> list[CompiledKernel]:
    return runtime().load(path)


def load_kernels(names: Sequence[str], folder: Path) -> list[CompiledKernel]:
    """The kernels of these sources of a folder, compiled if they are not in the cache.

    Raises:
        DeviceError: one does not compile or load.
    """
    return [
        kernel
        for path in emulated_build.build_kernels(names, folder)
        for kernel in _kernels_of(path)
    ]
