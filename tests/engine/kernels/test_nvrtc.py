"""The CUDA sources through NVIDIA's own compiler, for every architecture, without a card."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.core.errors import ResourceError
from engine.kernels import cuda_compile, nvrtc
from engine.kernels.cubin import MOST_THREADS, REGISTERS, kernel_names, thread_bounds
from engine.kernels.cuda_compile import (
    ARCHITECTURES,
    MOST_SHARED_BYTES,
    compile_source,
    kernel_files,
    resources,
    target_of,
    texts_of,
)
from engine.kernels.nvrtc import CompileError, Nvrtc, load_nvrtc, wheel_libraries
from engine.ops import cuda_attention, cuda_products, cuda_streams

TABLE = Path(__file__).parents[3] / "bench" / "results" / "gpu-kernels.md"
TEST_KERNELS = Path(__file__).parents[1] / "device" / "kernels"
MOST_SPILLED_BYTES = (
    256  # a thread, stored and loaded; more is a kernel that wants too much at once
)
KNOWN = (75, 80, 86, 89, 90, 100, 120, 121)


@pytest.fixture(scope="module")
def compiler() -> Nvrtc:
    return load_nvrtc()


@pytest.fixture
def test_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulated card's test kernels are CUDA too: what proves the emulator must compile for cards."""
    original = cuda_compile.texts_of
    monkeypatch.setattr(cuda_compile, "texts_of", lambda name: original(name, [TEST_KERNELS]))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_of_the_emulators_tests_compile(
    compiler: Nvrtc, architecture: int, test_kernels: None
) -> None:
    image, log = compile_source(compiler, "plain", f"sm_{architecture}", verbose=True)

    source = (TEST_KERNELS / "plain.cu").read_text(encoding="utf-8")
    exported = re.findall(r"^EXPORT\((\w+)\)", source, re.MULTILINE)
    assert kernel_names(image) == sorted(exported)
    found = {item.kernel: item for item in resources(log)}
    assert sorted(found) == sorted(exported)
    assert found["sum_blocks"].shared_bytes == 32 * 4
    assert 4 <= found["sum_blocks"].registers <= 64
    assert thread_bounds(image) == {"fill_bounded": 64}


def test_names_in_ptx_are_found_too(compiler: Nvrtc, test_kernels: None) -> None:
    cubin, _ = compile_source(compiler, "plain", "sm_90")
    ptx, _ = compile_source(compiler, "plain", "compute_90")

    assert ptx.startswith(b"//")
    assert kernel_names(ptx) == kernel_names(cubin)


@pytest.mark.parametrize("damaged", [b"", b"\x7fELF", b"\x7fELF" + b"\xff" * 100, b"text"])
def test_what_is_no_image_is_refused(damaged: bytes) -> None:
    with pytest.raises(ValueError, match=r"cubin"):
        kernel_names(damaged)


def test_a_mistake_is_reported_with_file_and_line(
    compiler: Nvrtc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.cu").write_text('#include "stratum.cuh"\nint x = ;\n')
    original = cuda_compile.texts_of
    monkeypatch.setattr(cuda_compile, "texts_of", lambda name: original(name, [tmp_path]))

    with pytest.raises(
        CompileError, match=r"kernels of bad\.cu do not compile: bad\.cu\(2\): error"
    ):
        compile_source(compiler, "bad", "sm_89")
    with pytest.raises(CompileError, match=r"no CUDA source missing\.cu"):
        compile_source(compiler, "missing", "sm_89")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", kernel_files())
def test_every_source_compiles_for_every_architecture(compiler: Nvrtc, name: str) -> None:
    recorded = set(re.findall(r"^\| `(\w+)` \|", TABLE.read_text(encoding="utf-8"), re.MULTILINE))
    for architecture in ARCHITECTURES:
        image, log = compile_source(compiler, name, f"sm_{architecture}", verbose=True)

        taken = resources(log)
        assert [item.kernel for item in taken] == kernel_names(image)
        assert {item.kernel for item in taken} <= recorded, "make the table anew: see its head"
        for item in taken:
            assert item.shared_bytes <= MOST_SHARED_BYTES, item
            assert item.spilled_bytes <= MOST_SPILLED_BYTES, item
            # A card refuses a block whose registers do not fit; a kernel without a bound must fit
            # with any number of threads. Registers are given out eight a thread.
            threads = thread_bounds(image).get(item.kernel, MOST_THREADS)
            assert -(-item.registers // 8) * 8 * threads <= REGISTERS, item


# What launches add to the kernels' own shared arrays, at most.
DYNAMIC_BYTES = {
    "attention_parts": cuda_attention.MOST_SHARED_BYTES,
    "attention_rows": cuda_attention.MOST_SHARED_BYTES,
    "attention_scores": 32 * (256 + 4) * 4,  # keys of a tile
    "hc_up": cuda_streams.MOST_SHARED_BYTES,
    "route": cuda_products.MOST_SHARED_BYTES,
    "group_experts": cuda_products.MOST_SHARED_BYTES,
}


def test_shared_memory_of_a_kernel_and_of_its_launch_fit_together() -> None:
    lines = re.findall(
        r"^\| `(\w+)` \|.*\| (\d+) \|$", TABLE.read_text(encoding="utf-8"), re.MULTILINE
    )
    found = set()
    for kernel, own in lines:
        for prefix, most in DYNAMIC_BYTES.items():
            if kernel.startswith(prefix):
                found.add(prefix)
                assert int(own) + most <= MOST_SHARED_BYTES, kernel
    assert found == set(DYNAMIC_BYTES)


def test_only_these_kernels_have_shared_memory_of_their_launch() -> None:
    folder = cuda_compile.kernel_files()
    texts = "\n".join(text for name in folder for text in texts_of(name).values())
    users = set(re.findall(r"DYNAMIC_SHARED\(\w+, (\w+)\)", texts)) - {"name"}
    assert users == {"all", "dynamic", "keys", "low", "memory", "place"}, "tell DYNAMIC_BYTES"


def test_headers_are_found_through_headers_and_once(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text('#include "stratum.cuh"\n#include "b.cuh"\n')
    (tmp_path / "b.cuh").write_text('  #  include "c.cuh"\n#include "stratum.cuh"\n')
    (tmp_path / "c.cuh").write_text("// nothing\n")

    texts = texts_of("a", [tmp_path])

    assert list(texts) == ["a.cu", "stratum.cuh", "b.cuh", "c.cuh"]


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        ((7, 5), "sm_75"),
        ((8, 6), "sm_86"),
        ((8, 7), "sm_86"),  # code of its family runs on it
        ((12, 0), "sm_120"),
        ((12, 1), "sm_121"),
        ((10, 3), "sm_100"),
        ((13, 0), "compute_121"),  # newer than the compiler: the driver finishes the work
    ],
)
def test_a_card_gets_code_of_its_family_or_ptx(capability: tuple[int, int], target: str) -> None:
    assert target_of(capability, KNOWN) == target


def test_a_card_that_is_too_old_is_refused() -> None:
    with pytest.raises(ResourceError, match=r"compute capability 7\.0, and 7\.5 is the oldest"):
        target_of((7, 0), KNOWN)


def test_all_architectures_are_known_to_the_compiler(compiler: Nvrtc) -> None:
    assert set(ARCHITECTURES) <= set(compiler.architectures)


def test_the_newest_wheel_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "linux": ["cuda_nvrtc/lib/libnvrtc.so.12", "cu13/lib/libnvrtc.so.13"],
        "win32": ["cuda_nvrtc/bin/nvrtc64_120_0.dll", "cu13/bin/x86_64/nvrtc64_130_0.dll"],
    }
    others = ["cuda_nvrtc/lib/libnvrtc-builtins.so.12.9", "cuda_nvrtc/lib/libnvrtc.alt.so.12"]
    others += ["cuda_nvrtc/bin/nvrtc-builtins64_129.dll", "cuda_nvrtc/bin/nvrtc64_120_0.alt.dll"]
    for name in [*files["linux"], *files["win32"], *others]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    for patterns, expected in zip(
        (("*/lib/libnvrtc.so.*",), ("*/bin/nvrtc64_*.dll", "*/bin/*/nvrtc64_*.dll")),
        files.values(),
        strict=True,
    ):
        monkeypatch.setattr(nvrtc, "_PATTERNS", patterns)
        assert wheel_libraries([tmp_path]) == [tmp_path / name for name in reversed(expected)]


def test_a_missing_compiler_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "wheel_libraries", list)
    monkeypatch.setattr(nvrtc, "_SYSTEM_NAMES", ("libnvrtc_that_is_not_there.so",))

    with pytest.raises(ResourceError, match="NVRTC is not installed; run the installer again"):
        nvrtc.load_nvrtc.__wrapped__()
