"""Which variant of the kernels runs."""

from __future__ import annotations

import platform
from types import SimpleNamespace

import numpy as np
import pytest

from engine.core.errors import ConfigError, ResourceError
from engine.kernels import library
from engine.kernels.library import CPU_VARIABLE, OPERATIONS, choose_variant, load_library
from engine.ops.base import Limits
from engine.ops.host import HostOps


def with_variants(*variants: str):
    return SimpleNamespace(variants=variants)


@pytest.fixture(autouse=True)
def without_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CPU_VARIABLE, raising=False)


def test_the_best_variant_runs_unless_another_is_wanted(monkeypatch: pytest.MonkeyPatch):
    both = with_variants("avx512", "avx2")
    assert choose_variant(both) == "avx512"
    assert choose_variant(both, "avx2") == "avx2"
    monkeypatch.setenv(CPU_VARIABLE, "avx2")
    assert choose_variant(both) == "avx2"


def test_a_variant_that_this_processor_lacks_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(CPU_VARIABLE, "avx512")
    with pytest.raises(ResourceError, match="cannot run the avx512 kernels; it can run avx2"):
        choose_variant(with_variants("avx2"))


def test_an_unknown_variant_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(CPU_VARIABLE, "sse9")
    with pytest.raises(ConfigError, match="STRATUM_CPU is 'sse9'"):
        choose_variant(with_variants("avx2"))


def test_a_processor_without_avx2_is_told_so():
    with pytest.raises(ResourceError, match=r"no AVX2, .* reference operations"):
        choose_variant(with_variants())


def test_another_architecture_is_told_so(monkeypatch: pytest.MonkeyPatch):
    load_library.cache_clear()
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(ResourceError, match="not for aarch64"):
        load_library()
    load_library.cache_clear()


def test_every_variant_has_every_operation():
    loaded = load_library()
    for variant in library.VARIANTS:
        functions = loaded.operations(variant)
        assert set(functions) == set(OPERATIONS)
        assert all(functions.values())


def test_the_features_agree_with_the_system_about_this_processor():
    flags = None
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
            flags = next(line.split() for line in file if line.startswith("flags"))
    except (OSError, StopIteration):
        pytest.skip("this system has no list of processor flags")
    variants = load_library().variants
    assert ("avx2" in variants) == ({"avx2", "fma", "f16c"} <= set(flags))
    assert ("avx512" in variants) == ({"avx512vl", "avx512bw", "avx512_vnni"} <= set(flags))
    assert ("avxvnni" in variants) == ("avx_vnni" in flags)


def test_arrays_that_look_different_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(library.HostLibrary, "check_array", lambda *_: False)
    with pytest.raises(ResourceError, match="keeps arrays in a way"):
        HostOps(Limits(max_rows=1, max_window=1, num_slots=1, num_pages=1))


def test_the_library_reads_dimensions_and_strides_of_any_array():
    loaded = load_library()
    context = loaded.create(1, object.__basicsize__)
    for array in (
        np.zeros((3, 4, 5), np.float32)[:, 1:3, ::2],
        np.zeros(7, np.int64)[::-1],
        np.zeros((0, 3)),
        np.array(1.0),
    ):
        data = array.ctypes.data
        assert loaded.check_array(context, id(array), data, array.shape, array.strides)
        assert not loaded.check_array(context, id(array), data + 8, array.shape, array.strides)
    loaded.destroy(context)
