"""The host kernel library as Python sees it: found or built, loaded, its functions bound.

Knows nothing of models: `engine/ops/host.py` makes operations of it. Which variant runs is decided by
the library's own look at the processor, or by `STRATUM_CPU` (`avx2`, `avxvnni`, `avx512`).
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.core.errors import ConfigError, ResourceError
from engine.core.folders import cache_folder
from engine.core.operating_system import architecture, is_x86_64
from engine.kernels import build

log = logging.getLogger(__name__)

VERSION = 8
# variant -> bit of stratum_cpu_features(), the best one first
VARIANTS = {"avx512": 4, "avxvnni": 2, "avx2": 1}
CPU_VARIABLE = "STRATUM_CPU"

_POINTER = ctypes.c_void_p
_INTEGER = ctypes.c_int64
_REAL = ctypes.c_double
# operation -> argument kinds after the context: p pointer or array object, i integer, d double
OPERATIONS = {
    "read_memory": "p",
    "row_tiles": "pp",
    "gather_rows": "ppp",
    "read_rows": "pppp",
    "fill_streams": "pp",
    "add_to_streams": "pp",
    "rms_norm": "ppdp",
    "matmul": "pi" + "pp" * 6,
    "hc_mix": "pppp",
    "hc_combine": "ppp",
    "delta_mix": "p" * 16,
    "delta_commit": "p" * 8 + "iii",
    "attention_append": "p" * 15,
    "attention": "p" * 13,
    "route": "pppp",
    "experts": "ppppp",
    "shared_expert": "ppp",
    "ple_mix": "p" * 9,
    "ple_commit": "pppiii",
    "map_values": "ipp",
}
MOST_MATRICES = 6  # of one matmul call
_KINDS = {"p": _POINTER, "i": _INTEGER, "d": _REAL}

HostFunction = Callable[..., int]


class HostLibrary:
    """The loaded library.

    Attributes:
        path: its file.
        variants: what this processor can run, the best one first; empty without AVX2.
        draw: `stratum_draw`: rules, logits, position, number of seen tokens, mask, its size
            -> token.
    """

    def __init__(self, path: Path) -> None:
        """Load the file.

        Raises:
            ResourceError: the system cannot load it, or it is of another version.
        """
        self.path = path
        try:
            self._dll = ctypes.CDLL(str(path))
            version = int(self._dll.stratum_version())
        except (OSError, AttributeError) as error:
            raise ResourceError(
                f"The kernel library {path} cannot be loaded ({error}); "
                "the slow reference operations work without it."
            ) from error
        if version != VERSION:
            raise ResourceError(f"The kernel library {path} has version {version}, not {VERSION}.")
        self._dll.stratum_operation.restype = _POINTER
        self._dll.stratum_operation.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        self._dll.stratum_cpu_features.restype = ctypes.c_uint32
        self._dll.stratum_create.restype = _POINTER
        self._dll.stratum_create.argtypes = [_INTEGER, _INTEGER]
        self._dll.stratum_threads.restype = _INTEGER
        self._dll.stratum_threads.argtypes = [_POINTER]
        self._dll.stratum_pin.restype = _INTEGER
        self._dll.stratum_pin.argtypes = [_POINTER, _POINTER, _INTEGER]
        self._dll.stratum_destroy.restype = None
        self._dll.stratum_destroy.argtypes = [_POINTER]
        self._dll.stratum_set_codebooks.restype = None
        self._dll.stratum_set_codebooks.argtypes = [_POINTER]
        self._dll.stratum_replay.restype = ctypes.c_int32
        self._dll.stratum_replay.argtypes = [_POINTER, _POINTER, _INTEGER, _POINTER]
        self.replay_sides = self._function("stratum_replay_sides", ctypes.c_int32, "ppiip")
        self._dll.stratum_draw.restype = _INTEGER
        self._dll.stratum_draw.argtypes = [
            *(_POINTER, _POINTER, _INTEGER, _INTEGER),
            *(_POINTER, _INTEGER),
        ]
        self.draw: Callable[[int, int, int, int, int, int], int] = self._dll.stratum_draw
        self._dll.stratum_check_array.argtypes = [*[_POINTER] * 3, _INTEGER, _POINTER, _POINTER]
        self.draw_window = self._function("stratum_draw_window", _INTEGER, "ppipip")
        self.plan = self._function("stratum_plan", ctypes.c_int32, "ppi")
        self.ngram_rows = self._function("stratum_ngram_rows", ctypes.c_int32, "ppipi")
        self.lookup_append = self._function("stratum_lookup_append", ctypes.c_int32, "ppi")
        self.lookup_draft = self._function("stratum_lookup_draft", _INTEGER, "piip")
        self.lookup_play = self._function("stratum_lookup_play", ctypes.c_int32, "ppiiip")
        self.ngram_append = self._function("stratum_ngram_append", ctypes.c_int32, "ppii")
        self.ngram_move = self._function("stratum_ngram_move", None, "pp")
        self.ngram_draft = self._function("stratum_ngram_draft", _INTEGER, "ppppii")
        self.ngram_play = self._function("stratum_ngram_play", ctypes.c_int32, "ppppiipp")
        self.ngram_put = self._function("stratum_ngram_put", None, "pipi")
        self.rows_open = self._function("stratum_rows_open", _POINTER, "piiiiip")
        self.rows_close = self._function("stratum_rows_close", None, "p")
        self.rows_request = self._function("stratum_rows_request", ctypes.c_int32, "ppi")
        self.rows_collect = self._function("stratum_rows_collect", ctypes.c_int32, "ppip")
        self.rows_advance = self._function("stratum_rows_advance", None, "p")
        self.rows_shrink = self._function("stratum_rows_shrink", _INTEGER, "p")
        self.rows_figures = self._function("stratum_rows_figures", None, "pp")
        self.rows_failure = self._function("stratum_rows_failure", None, "pp")
        features = int(self._dll.stratum_cpu_features())
        self.variants = tuple(name for name, bit in VARIANTS.items() if features & bit)

    def _function(self, name: str, result: type | None, kinds: str) -> HostFunction:
        """A function that needs no context and no instruction set."""
        function: HostFunction = self._dll[name]
        function.restype = result  # type: ignore[attr-defined]
        function.argtypes = [_KINDS[kind] for kind in kinds]  # type: ignore[attr-defined]
        return function

    def operations(self, variant: str) -> dict[str, HostFunction]:
        """The functions of a variant by name; each takes the context first and returns a status."""
        functions: dict[str, HostFunction] = {}
        for name, kinds in OPERATIONS.items():
            address = self._dll.stratum_operation(variant.encode(), name.encode())
            kind = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, *(_KINDS[k] for k in kinds))
            functions[name] = kind(address)
        return functions

    def addresses(self, variant: str) -> dict[str, int]:
        """Where the functions of a variant lie, for lists that the library runs by itself."""
        return {
            name: int(self._dll.stratum_operation(variant.encode(), name.encode()))
            for name in OPERATIONS
        }

    def replay(self, context: int, calls: int, count: int, failed: int) -> int:
        """Run a list of recorded calls; the status, with the index of a failed one at `failed`."""
        return int(self._dll.stratum_replay(context, calls, count, failed))

    def create(self, threads: int, object_head: int) -> int:
        """A context: a pool of threads and scratch memory.

        Raises:
            ResourceError: no memory.
        """
        context = self._dll.stratum_create(threads, object_head)
        if not context:
            raise ResourceError("There is no memory for the threads of the host kernels.")
        return int(context)

    def threads(self, context: int) -> int:
        """How many threads work for a context."""
        return int(self._dll.stratum_threads(context))

    def pin(self, context: int, cpus: Sequence[int]) -> int:
        """Hold the workers of a context to `cpus[1:]`, one each; how many are held."""
        return int(self._dll.stratum_pin(context, (_INTEGER * len(cpus))(*cpus), len(cpus)))

    def destroy(self, context: int) -> None:
        """End the threads of a context and free its memory."""
        self._dll.stratum_destroy(context)

    def set_codebooks(self, tables: Sequence[int]) -> None:
        """Addresses of the tables of `Codebooks` in api.h, in its order; they must stay there."""
        self._dll.stratum_set_codebooks((_POINTER * len(tables))(*tables))

    def check_array(
        self, context: int, array: int, data: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> bool:
        """Whether the library reads this of the array object at address `array`."""
        longs = _INTEGER * len(shape)
        return bool(
            self._dll.stratum_check_array(
                context, array, data, len(shape), longs(*shape), longs(*strides)
            )
        )


def choose_variant(library: HostLibrary, wanted: str | None = None) -> str:
    """The variant to run: `wanted`, else what `STRATUM_CPU` names, else the processor's best.

    Raises:
        ConfigError: the wanted variant does not exist.
        ResourceError: this processor cannot run it, or none at all.
    """
    wanted = wanted or os.environ.get(CPU_VARIABLE) or None
    if wanted is not None and wanted not in VARIANTS:
        raise ConfigError(
            f"{CPU_VARIABLE} is {wanted!r}; the kernels know {', '.join(sorted(VARIANTS))}."
        )
    if not library.variants:
        raise ResourceError(
            "This processor has no AVX2, which the host kernels need; "
            "the slow reference operations work on it."
        )
    if wanted is None:
        return library.variants[0]
    if wanted not in library.variants:
        raise ResourceError(
            f"This processor cannot run the {wanted} kernels; it can run "
            f"{', '.join(library.variants)}."
        )
    return wanted


@functools.cache
def load_library() -> HostLibrary:
    """The library: prebuilt if it fits the sources, else built once into the user's cache.

    Raises:
        ResourceError: there is no library and no compiler, or this machine cannot use it.
    """
    if not is_x86_64():
        raise ResourceError(
            f"The host kernels are written for x86-64 processors, not for {architecture()}; "
            "the slow reference operations work on it."
        )
    system = build.this_system()
    path = build.prebuilt_path(system)
    if path is None:
        cache = cache_folder() / "kernels"
        path = cache / build.source_hash()[:16] / build.LIBRARY_NAMES[system]
        if not path.is_file():
            # A compiler of this machine is quicker than zig, whose first build takes a minute.
            compiler = build.path_compiler() or build.zig_compiler()
            if compiler is None:
                raise ResourceError(
                    "The kernel library does not fit its sources and there is no C++ compiler to "
                    "build it; install package ziglang or a compiler, or take a fresh copy."
                )
            log.info("building the host kernels with %s, once", compiler.command[0])
            build.compile_library(compiler, system, path)
    return HostLibrary(path)


def loaded_library() -> HostLibrary | None:
    """The library; None where it cannot be used, and everything is computed in Python."""
    try:
        return load_library()
    except ResourceError:
        return None
