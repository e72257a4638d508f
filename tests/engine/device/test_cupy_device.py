"""The device on CuPy's bindings, with a stand-in for them: which calls it makes, and what it says of errors."""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import logging
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import ConfigError, EngineError, ResourceError
from engine.device import cupy_bindings, select
from engine.device.array import ArraySpace
from engine.device.base import Arguments, DeviceError, DeviceMemoryError
from engine.device.cupy_bindings import DriverApi, RuntimeApi
from engine.device.cupy_device import CupyDevice, CupyKernel
from engine.kernels import cuda_compile
from engine.kernels.cuda_compile import KernelCache
from engine.kernels.nvrtc import CompileError
from tests.support.fake_cuda import GIB, CudaError, FakeCard, FakeCuda

PTX = b".visible .entry add_to(\n.visible .entry sum_blocks(\n"


class FakeNvrtc:
    """Counts compilations; every source becomes the same PTX."""

    version = (12, 9)
    architectures = (75, 80, 86, 89, 90, 120)

    def __init__(self) -> None:
        self.compiled: list[tuple[str, str]] = []
        self.error: CompileError | None = None

    def compile(self, name, source, headers, options):
        self.compiled.append((name, options[0]))
        if self.error is not None:
            raise self.error
        return PTX, ""


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda()


@pytest.fixture
def nvrtc() -> FakeNvrtc:
    return FakeNvrtc()


@pytest.fixture
def device(cuda: FakeCuda, nvrtc: FakeNvrtc, tmp_path: Path) -> CupyDevice:
    return CupyDevice(0, cuda.bindings(), nvrtc=nvrtc, cache=KernelCache(tmp_path / "cuda"))


def test_a_card_says_what_it_is(device: CupyDevice) -> None:
    info = device.info

    assert (info.name, info.capability) == ("NVIDIA GeForce RTX 5070", (12, 0))
    assert (info.num_multiprocessors, info.total_bytes, info.copy_engines) == (48, 12 * GIB, 1)
    assert device.free_bytes() == 5 * GIB


def test_a_launch_passes_the_arguments_address(cuda: FakeCuda, device: CupyDevice) -> None:
    device.load_kernels(["route"])
    stream, arguments = device.new_stream(), Arguments(ctypes.c_int32(5))

    stream.launch(device.kernel("add_to"), (4, 3, 2), (32, 2, 1), arguments, 64)

    handle = sum(map(ord, "add_to"))
    expected = (handle, 4, 3, 2, 32, 2, 1, 64, stream.handle, arguments.address, 0)
    assert cuda.calls[-1] == ("launchKernel", *expected)


def test_a_kernel_that_no_file_exports_is_a_key_error(device: CupyDevice) -> None:
    device.load_kernels(["route"])

    with pytest.raises(KeyError):
        device.kernel("unknown")


def test_copies_go_through_the_stream_with_their_direction(
    cuda: FakeCuda, device: CupyDevice
) -> None:
    stream, array = device.new_stream(), np.zeros(8, np.float32)

    stream.upload(4096, array)
    stream.download(array, 8192)
    stream.copy(1, 2, 3)
    stream.fill(4, 5, 6)
    stream.upload(4096, array[:0])

    host, handle = array.ctypes.data, stream.handle
    assert cuda.calls[-4:] == [
        ("memcpyAsync", 4096, host, 32, 1, handle),
        ("memcpyAsync", host, 8192, 32, 2, handle),
        ("memcpyAsync", 1, 2, 3, 3, handle),
        ("memsetAsync", 4, 5, 6, handle),
    ]
    with pytest.raises(DeviceError, match="contiguous"):
        stream.upload(4096, np.zeros((4, 4))[:, :2])


def test_streams_wait_for_events_and_not_for_the_default_stream(
    cuda: FakeCuda, device: CupyDevice
) -> None:
    stream, plain, timed = device.new_stream(), device.new_event(), device.new_event(timed=True)
    made = [call[1] for call in cuda.calls if call[0] == "eventCreateWithFlags"]
    assert made == [2, 0]
    assert ("streamCreateWithFlags", 1) in cuda.calls

    stream.record(plain)
    stream.wait(plain)
    plain.synchronize()

    assert cuda.calls[-3:] == [
        ("eventRecord", plain.handle, stream.handle),
        ("streamWaitEvent", stream.handle, plain.handle),
        ("eventSynchronize", plain.handle),
    ]
    assert timed.elapsed_ms(plain) == 1.5
    assert cuda.calls[-1] == ("eventElapsedTime", plain.handle, timed.handle)


def test_an_event_knows_done_not_done_and_failed(cuda: FakeCuda, device: CupyDevice) -> None:
    event = device.new_event()
    assert event.is_done()
    cuda.event_status = 600
    assert not event.is_done()

    cuda.event_status = 700
    cuda.errors["eventSynchronize"] = CudaError(700, "cudaErrorIllegalAddress: an illegal access")

    with pytest.raises(DeviceError, match=r"RTX 5070 failed: cudaErrorIllegalAddress"):
        event.is_done()


def test_a_capture_becomes_an_executable_graph(cuda: FakeCuda, device: CupyDevice) -> None:
    stream = device.new_stream()
    stream.begin_capture()
    graph = stream.end_capture()
    stream.run(graph)
    assert cuda.calls[-1] == ("graphLaunch", graph.handle, stream.handle)
    assert "graph" not in cuda.alive.values()
    assert "executable" in cuda.alive.values()

    graph.free()
    graph.free()

    assert "executable" not in cuda.alive.values()
    with pytest.raises(DeviceError, match="freed"):
        stream.run(graph)


def test_everything_is_given_back_once(cuda: FakeCuda, device: CupyDevice) -> None:
    device.load_kernels(["route", "streams"])
    stream, event = device.new_stream(), device.new_event()
    memory, pinned = device.alloc(1000), device.pinned(1000)
    assert set(cuda.alive.values()) == {"memory", "pinned", "stream", "event", "module"}

    for _ in range(2):
        memory.free()
        pinned.free()
    del stream, event
    device.close()
    device.close()

    assert cuda.alive == {}


def test_a_closed_card_has_given_back_what_arrays_still_name(
    cuda: FakeCuda, device: CupyDevice
) -> None:
    space = ArraySpace(device, device.new_stream())
    array, gone = space.zeros((4, 8)), space.zeros((100, 8))
    del gone  # kept for arrays to come
    assert list(cuda.alive.values()).count("memory") == 2

    device.close()

    assert "memory" not in cuda.alive.values()
    del array  # frees nothing twice


def test_pinned_memory_has_an_address_on_the_card(device: CupyDevice) -> None:
    pinned = device.pinned(1000)

    assert pinned.array.shape == (1000,)
    pinned.array[:] = 3
    assert pinned.device_address == pinned.array.ctypes.data + 7


def test_memory_that_exists_is_registered_and_what_cannot_be_written_read_only(
    cuda: FakeCuda, device: CupyDevice
) -> None:
    array, fixed = np.zeros(64, np.uint8), np.zeros(64, np.uint8)
    fixed.flags.writeable = False

    pinned = device.pin(array)
    assert pinned is not None
    assert ("hostRegister", array.ctypes.data, 64, 3) in cuda.calls
    assert device.pin(fixed) is not None
    assert ("hostRegister", fixed.ctypes.data, 64, 11) in cuda.calls

    pinned.free()
    assert cuda.calls[-1] == ("hostUnregister", array.ctypes.data)
    cuda.errors["hostRegister"] = CudaError(801, "cudaErrorNotSupported: not supported")
    assert device.pin(array) is None


def test_a_full_card_and_a_full_machine_are_told_apart(cuda: FakeCuda, device: CupyDevice) -> None:
    error = CudaError(2, "cudaErrorMemoryAllocation: out of memory")
    cuda.errors.update({"malloc": error, "hostAlloc": error})

    with pytest.raises(DeviceMemoryError, match=r"^NVIDIA GeForce RTX 5070 has no room left"):
        device.alloc(1 << 30)
    with pytest.raises(ResourceError, match=r"refuses to lock 1024 MiB") as caught:
        device.pinned(1 << 30)
    assert not isinstance(caught.value, DeviceMemoryError)


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (700, "gpu_failed", "failed: x"),
        (719, "gpu_lost", "stopped amid a computation"),
        (999, "gpu_lost", "does not answer any more"),
        (702, "gpu_lost", "took too long"),
        (46, "gpu_lost", "lets no other use it"),
    ],
)
def test_errors_of_the_card_are_sentences(
    cuda: FakeCuda, device: CupyDevice, status: int, code: str, words: str
) -> None:
    stream = device.new_stream()
    cuda.errors["streamSynchronize"] = CudaError(status, "x")

    with pytest.raises(DeviceError, match=words) as caught:
        stream.synchronize()

    assert caught.value.code == code
    assert caught.value.message.startswith("NVIDIA GeForce RTX 5070")
    assert isinstance(caught.value.__cause__, CudaError)


def test_a_lost_card_can_still_be_closed(cuda: FakeCuda, device: CupyDevice) -> None:
    device.load_kernels(["route"])
    memory = device.alloc(100)
    cuda.errors.update(dict.fromkeys(["free", "moduleUnload"], CudaError(999, "unknown")))

    memory.free()
    device.close()


def test_kernels_are_compiled_for_exactly_this_card_and_once(
    cuda: FakeCuda, nvrtc: FakeNvrtc, device: CupyDevice, tmp_path: Path
) -> None:
    names = cuda_compile.kernel_files()[:3]
    device.load_kernels(names)
    assert sorted(nvrtc.compiled) == [(f"{name}.cu", "--gpu-architecture=sm_120") for name in names]
    assert cuda.names().count("moduleLoadData") == 3
    assert ("moduleLoadData", PTX) in cuda.calls

    again = CupyDevice(0, cuda.bindings(), nvrtc=nvrtc, cache=KernelCache(tmp_path / "cuda"))
    again.load_kernels(names)

    assert len(nvrtc.compiled) == 3
    kept = sorted((tmp_path / "cuda").iterdir())
    kept[0].write_bytes(kept[0].read_bytes()[:40])  # cut short by a full disk
    again.load_kernels(names)
    assert len(nvrtc.compiled) == 4


def test_without_a_folder_to_keep_kernels_they_are_compiled_with_one_line_in_the_log(
    cuda: FakeCuda, nvrtc: FakeNvrtc, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")
    names = cuda_compile.kernel_files()[:3]
    with caplog.at_level(logging.WARNING):
        device = CupyDevice(0, cuda.bindings(), nvrtc=nvrtc, cache=KernelCache(blocked / "cuda"))
        device.load_kernels(names)
        device.load_kernels(names)

    assert len(nvrtc.compiled) == 6
    assert [record.message for record in caplog.records] == [
        f"the GPU kernels are compiled at each start, since they cannot be kept in {blocked / 'cuda'}:"
        " it cannot be made or written to"
    ]


def test_a_disk_that_is_full_later_does_not_stop_the_kernels(
    cuda: FakeCuda,
    nvrtc: FakeNvrtc,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cuda_compile, "write_atomically", full)
    device = CupyDevice(0, cuda.bindings(), nvrtc=nvrtc, cache=KernelCache(tmp_path))

    with caplog.at_level(logging.WARNING):
        device.load_kernels(cuda_compile.kernel_files()[:1])
        device.load_kernels(cuda_compile.kernel_files()[:1])

    assert len(caplog.records) == 1
    assert "No space left" in caplog.text


def test_kernels_that_do_not_compile_or_load_are_named(
    cuda: FakeCuda, nvrtc: FakeNvrtc, device: CupyDevice
) -> None:
    nvrtc.error = CompileError("The GPU kernels of route.cu do not compile: error")
    with pytest.raises(DeviceError, match=r"route\.cu do not compile") as caught:
        device.load_kernels(["route"])
    assert caught.value.code == "gpu_compile"

    nvrtc.error = None
    cuda.errors["moduleLoadData"] = CudaError(222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION")
    with pytest.raises(DeviceError, match=r"of route cannot be loaded on NVIDIA GeForce RTX 5070"):
        device.load_kernels(["route"])


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"driver_version": 0}, "gpu_no_driver", "^No NVIDIA driver answers; install"),
        (
            {"driver_version": 11040},
            "gpu_driver_too_old",
            r"driver is too old: it is for CUDA 11\.4 and 12\.0 is needed",
        ),
        ({"cards": []}, "gpu_lost", "was not found"),
        (
            {"errors": {"getDeviceCount": CudaError(100, "cudaErrorNoDevice")}},
            "gpu_lost",
            "was not found",
        ),
        (
            {"cards": [FakeCard(capability=(6, 1))]},
            "gpu_too_old",
            r"compute capability 6\.1, and 7\.5 is the oldest",
        ),
    ],
)
def test_a_machine_that_cannot_is_told_why(changes: dict, code: str, words: str) -> None:
    cuda = FakeCuda(**changes)

    with pytest.raises(EngineError, match=words) as caught:
        CupyDevice(0, cuda.bindings())

    assert caught.value.code == code


def test_a_newer_driver_of_another_main_version_will_do() -> None:
    assert CupyDevice(0, FakeCuda(driver_version=13010).bindings()).info.capability == (12, 0)


def test_a_card_that_does_not_exist_is_refused(cuda: FakeCuda) -> None:
    with pytest.raises(DeviceError, match=r"no graphics card 2; CUDA counts 1, from 0"):
        CupyDevice(2, cuda.bindings())


def test_the_largest_usable_card_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [
        FakeCard("Old", (6, 1), 24 * GIB),
        FakeCard("Small", (8, 6), 8 * GIB),
        FakeCard("Large", (8, 9), 16 * GIB),
    ]
    bindings = FakeCuda(cards=cards).bindings()
    monkeypatch.setattr(select, "load_bindings", lambda: bindings)

    assert [(index, info.name) for index, info in select.usable_cards()] == [
        (1, "Small"),
        (2, "Large"),
    ]
    assert select.open_card().info.name == "Large"
    assert select.open_card(1).info.name == "Small"
    with pytest.raises(ResourceError, match="oldest that Stratum can use"):
        select.open_card(0)


def test_a_card_that_tells_nothing_is_found_with_the_reason_and_the_others_can_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = FakeCuda(cards=[FakeCard("Lost"), FakeCard("Small", bus=0x1A), FakeCard("Old", (6, 1))])
    properties = cuda.bindings().runtime.getDeviceProperties

    def ask(index: int) -> object:
        if index == 0:
            raise CudaError(999, "cudaErrorUnknown")
        return properties(index)

    bindings = cuda.bindings()
    monkeypatch.setattr(bindings.runtime, "getDeviceProperties", ask, raising=False)
    monkeypatch.setattr(select, "load_bindings", lambda: bindings)

    lost, small, old = select.found_cards()
    assert lost.info is None
    assert "does not answer any more" in str(lost.problem)
    assert small.problem is None
    assert small.info is not None
    assert small.info.pci == "0000:1a:00"
    assert "7.5 is the oldest" in str(old.problem)
    assert [index for index, _ in select.usable_cards()] == [1]


def test_emulated_cards_can_stand_in_for_those_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STRATUM_EMULATED_CARDS", "64, 32")
    cards = select.usable_cards()
    assert [(index, info.total_bytes >> 20) for index, info in cards] == [(0, 64), (1, 32)]
    device = select.open_card(1)
    assert (device.info.name, device.free_bytes()) == ("Emulated card 1", 32 << 20)
    device.close()
    with pytest.raises(DeviceError, match="no emulated card 2; there are 2"):
        select.open_card(2)
    monkeypatch.setenv("STRATUM_EMULATED_CARDS", "64,much")
    with pytest.raises(ConfigError, match="must be sizes in MiB"):
        select.usable_cards()


def test_two_cards_take_turns(cuda: FakeCuda) -> None:
    cuda.cards.append(FakeCard())
    bindings = cuda.bindings()
    first, second = CupyDevice(0, bindings), CupyDevice(1, bindings)

    for device in (first, second, second, first):
        device.free_bytes()
        assert cuda.device == device.index

    assert [call for call in cuda.calls if call[0] == "setDevice"][-3:] == [
        ("setDevice", 0),
        ("setDevice", 1),
        ("setDevice", 0),
    ]
    stream, kernel = first.new_stream(), CupyKernel(second, "k", 1)
    with pytest.raises(DeviceError, match="another device's"):
        stream.launch(kernel, (1, 1, 1), (32, 1, 1), Arguments(ctypes.c_int32(1)))


def test_missing_packages_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.api.driver", None)

    with pytest.raises(DeviceError, match="run the installer again, or install cupy-") as caught:
        cupy_bindings.load_bindings()

    assert caught.value.code == "gpu_packages_missing"


@pytest.mark.skipif(
    importlib.util.find_spec("cupy_backends") is None, reason="CuPy is installed with a driver only"
)
def test_cupy_has_every_function_with_as_many_arguments() -> None:
    bindings = cupy_bindings.load_bindings()
    for protocol, module in ((DriverApi, bindings.driver), (RuntimeApi, bindings.runtime)):
        for name in protocol.__annotations__:
            assert isinstance(getattr(module, name), int)
        for name, function in inspect.getmembers(protocol, inspect.isfunction):
            if name.startswith("_"):
                continue
            written = re.search(r"\((.*)\)", getattr(module, name).__doc__ or "")
            assert written, name
            parts = [part for part in written.group(1).split(",") if part]
            needed = [part for part in parts if "=" not in part]
            ours = len(inspect.signature(function).parameters) - 1
            assert len(needed) <= ours <= len(parts), name
