from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.core import cpu_features
from engine.core.cpu_features import (
    CpuFeatures,
    ask_library,
    merge_features,
    parse_cpuinfo,
    probe_cpu_features,
)

AVX512 = "avx512f avx512bw avx512dq avx512vl avx512vbmi avx512_vnni"


@pytest.mark.parametrize(
    ("flags", "best"),
    [
        ("fpu sse2 avx", ""),
        ("avx2", ""),  # without FMA and F16C
        ("avx2 fma f16c", "avx2"),
        ("avx2 fma f16c avx_vnni", "avxvnni"),
        (f"avx2 fma f16c {AVX512}", "avx512"),
        (f"avx2 fma f16c {AVX512.replace(' avx512vbmi', '')}", "avx2"),  # Cascade Lake
    ],
)
def test_the_systems_flags_decide_the_kernels(flags: str, best: str) -> None:
    found = parse_cpuinfo(f"processor\t: 0\nflags\t\t: {flags}\n")
    assert found is not None
    assert found.best == best


def test_a_system_that_lists_no_flags_says_nothing() -> None:
    assert parse_cpuinfo("processor\t: 0\n") is None


def test_the_processors_own_answer_counts_before_the_systems() -> None:
    has, lacks = CpuFeatures(avx2=True, source="cpuid"), CpuFeatures(source="system")
    found, notes = merge_features(has, lacks)
    assert found is has
    assert [note.code for note in notes] == ["avx2_sources_disagree"]
    assert merge_features(has, CpuFeatures(avx2=True, source="system")) == (has, ())
    assert merge_features(None, lacks) == (lacks, ())
    assert merge_features(None, None)[0].avx2, "nobody says no: the kernels decide later"


def test_a_library_that_is_not_there_or_none_is_no_error(tmp_path: Path) -> None:
    assert ask_library(tmp_path / "nothing.so") is None
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"not a library")
    assert ask_library(broken) is None


def test_another_processor_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_features, "is_x86_64", lambda: False)
    found, notes = probe_cpu_features()
    assert (found.is_x86, found.best, notes) == (False, "", ())


@pytest.mark.skipif(sys.platform != "linux", reason="compares with Linux's list of flags")
def test_the_library_and_the_system_agree_about_this_processor() -> None:
    found, by_system = ask_library(), cpu_features.ask_system()
    if found is None or by_system is None:
        pytest.skip("no prebuilt library, or a system without a list of flags")
    assert (found.avx2, found.avx_vnni, found.avx512) == (
        by_system.avx2,
        by_system.avx_vnni,
        by_system.avx512,
    )
