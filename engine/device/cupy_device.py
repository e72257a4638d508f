"""A real NVIDIA card through CuPy's bindings: every method is one or two of CUDA's own calls.

What is decided here and not by CUDA: kernels are compiled for exactly this card and kept
(`engine/kernels/cuda_compile.py`); streams never wait for the default stream; CUDA's errors become
sentences. A failed kernel makes every later call on the card fail, as CUDA has it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from engine.core.errors import EngineError, ResourceError
from engine.core.pci import pci_place
from engine.device.base import (
    Arguments,
    ByteArray,
    Device,
    DeviceError,
    DeviceInfo,
    Event,
    Graph,
    Kernel,
    Memory,
    PinnedMemory,
    Size3,
    Stream,
)
from engine.device.cupy_bindings import NOT_READY, Bindings, count_cards, error_of, load_bindings
from engine.kernels import cuda_compile
from engine.kernels.cubin import kernel_names
from engine.kernels.cuda_compile import KernelCache
from engine.kernels.nvrtc import Nvrtc, load_nvrtc

_REGISTER_PORTABLE, _REGISTER_MAPPED, _REGISTER_READ_ONLY = 1, 2, 8  # cudaHostRegister...
_current = threading.local()  # the card that CUDA's calls of this thread are for


class _Calls:
    """Around calls of CUDA: they are for this card, and their errors become sentences."""

    def __init__(self, device: CupyDevice) -> None:
        self._device = device

    def __enter__(self) -> None:
        """Select the card."""
        self._device.select()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        """Put an error of CUDA into words."""
        if isinstance(error, RuntimeError):
            raise error_of(error, self._device.info.name) from error


class CupyKernel(Kernel):
    """A function of a loaded module."""

    def __init__(self, device: CupyDevice, name: str, handle: int) -> None:
        self.device = device
        self.name = name
        self.handle = handle


class CupyMemory(Memory):
    """An allocation; CUDA's are aligned to 256 bytes at least."""

    def __init__(self, device: CupyDevice, address: int, num_bytes: int) -> None:
        self.address = address
        self.num_bytes = num_bytes
        self._device: CupyDevice | None = device

    def free(self) -> None:
        """Give it back."""
        device, self._device = self._device, None
        if device is not None:
            device.forget_memory(self.address)


class CupyPinnedMemory(PinnedMemory):
    """Pinned host memory: CUDA's own, or somebody's that was registered."""

    def __init__(
        self, device: CupyDevice, array: ByteArray, address: int, *, is_registered: bool
    ) -> None:
        self.array = array
        self.device_address = device.runtime.pointerGetAttributes(address).devicePointer
        self._address = address
        self._is_registered = is_registered
        self._device: CupyDevice | None = device

    def free(self) -> None:
        """Give it back, or unlock it."""
        device, self._device = self._device, None
        if device is not None:
            runtime = device.runtime
            device.forget(
                runtime.hostUnregister if self._is_registered else runtime.freeHost, self._address
            )


class CupyEvent(Event):
    """CUDA's event."""

    def __init__(self, device: CupyDevice, *, timed: bool) -> None:
        self.device = device
        runtime = device.runtime
        with device.calls:
            self.handle = runtime.eventCreateWithFlags(
                runtime.eventDefault if timed else runtime.eventDisableTiming
            )

    def is_done(self) -> bool:
        """Whether everything before it is done."""
        device = self.device
        with device.calls:
            status = device.runtime.eventQuery(self.handle)
            if status in {0, None}:
                return True
            if status == NOT_READY:
                return False
            device.runtime.eventSynchronize(self.handle)  # says what failed
        raise DeviceError(f"{device.info.name} failed with CUDA's error {status}.")

    def synchronize(self) -> None:
        """Wait until everything before it is done."""
        with self.device.calls:
            self.device.runtime.eventSynchronize(self.handle)

    def elapsed_ms(self, earlier: Event) -> float:
        """Milliseconds since an earlier event."""
        if not isinstance(earlier, CupyEvent):
            raise DeviceError("The event is another device's.")
        with self.device.calls:
            return float(self.device.runtime.eventElapsedTime(earlier.handle, self.handle))

    def __del__(self) -> None:
        """CUDA keeps it until what waits for it is done."""
        if hasattr(self, "handle"):
            self.device.forget(self.device.runtime.eventDestroy, self.handle)


class CupyGraph(Graph):
    """CUDA's executable graph."""

    def __init__(self, device: CupyDevice, handle: int) -> None:
        self.device = device
        self.handle: int | None = handle

    def free(self) -> None:
        """Give it back."""
        handle, self.handle = self.handle, None
        if handle is not None:
            self.device.forget(self.device.runtime.graphExecDestroy, handle)


class CupyStream(Stream):
    """CUDA's stream, not ordered with the default one."""

    def __init__(self, device: CupyDevice) -> None:
        self.device = device
        self._runtime = device.runtime
        self._launch = device.bindings.driver.launchKernel
        with device.calls:
            self.handle = self._runtime.streamCreateWithFlags(self._runtime.streamNonBlocking)

    def launch(
        self, kernel: Kernel, grid: Size3, block: Size3, arguments: Arguments, shared_bytes: int = 0
    ) -> None:
        """Put a kernel into the queue."""
        if not isinstance(kernel, CupyKernel) or kernel.device is not self.device:
            raise DeviceError(f"The kernel {kernel.name} is another device's.")
        with self.device.calls:
            self._launch(
                kernel.handle, *grid, *block, shared_bytes, self.handle, arguments.address, 0
            )

    def upload(self, address: int, source: npt.NDArray[np.generic]) -> None:
        """Copy to the card."""
        _check_contiguous(source)
        if source.nbytes:
            self._copy(address, source.ctypes.data, source.nbytes, self._runtime.memcpyHostToDevice)

    def download(self, target: npt.NDArray[np.generic], address: int) -> None:
        """Copy from the card; into memory that is not pinned CUDA returns when it is done."""
        _check_contiguous(target)
        if target.nbytes:
            self._copy(target.ctypes.data, address, target.nbytes, self._runtime.memcpyDeviceToHost)

    def copy(self, target: int, source: int, num_bytes: int) -> None:
        """Copy within the card."""
        if num_bytes:
            self._copy(target, source, num_bytes, self._runtime.memcpyDeviceToDevice)

    def _copy(self, target: int, source: int, num_bytes: int, kind: int) -> None:
        with self.device.calls:
            self._runtime.memcpyAsync(target, source, num_bytes, kind, self.handle)

    def fill(self, address: int, byte: int, num_bytes: int) -> None:
        """Set bytes."""
        if num_bytes:
            with self.device.calls:
                self._runtime.memsetAsync(address, byte, num_bytes, self.handle)

    def record(self, event: Event) -> None:
        """Put an event into the queue (again)."""
        with self.device.calls:
            self._runtime.eventRecord(_event(event), self.handle)

    def wait(self, event: Event) -> None:
        """What follows starts only after the event."""
        with self.device.calls:
            self._runtime.streamWaitEvent(self.handle, _event(event))

    def synchronize(self) -> None:
        """Wait until the queue is empty."""
        with self.device.calls:
            self._runtime.streamSynchronize(self.handle)

    def begin_capture(self) -> None:
        """Keep what follows."""
        with self.device.calls:
            mode = self._runtime.streamCaptureModeThreadLocal
            self._runtime.streamBeginCapture(self.handle, mode)

    def end_capture(self) -> Graph:
        """What was kept, on the card already."""
        with self.device.calls:
            graph = self._runtime.streamEndCapture(self.handle)
            try:
                executable = self._runtime.graphInstantiate(graph)
            finally:
                self._runtime.graphDestroy(graph)
            made = CupyGraph(self.device, executable)
            self._runtime.graphUpload(executable, self.handle)
        return made

    def run(self, graph: Graph) -> None:
        """Put everything of a graph into the queue."""
        if not isinstance(graph, CupyGraph) or graph.handle is None:
            raise DeviceError("The graph was freed, or is another device's.")
        with self.device.calls:
            self._runtime.graphLaunch(graph.handle, self.handle)

    def __del__(self) -> None:
        """CUDA does first what is in it."""
        if hasattr(self, "handle"):
            self.device.forget(self._runtime.streamDestroy, self.handle)


class CupyDevice(Device):
    """One NVIDIA card.

    Attributes:
        index: CUDA's number of it.
        bindings: CUDA's functions.
        runtime: the half of them that is used most.
        calls: to be entered around them.
    """

    def __init__(
        self,
        index: int = 0,
        bindings: Bindings | None = None,
        *,
        nvrtc: Nvrtc | None = None,
        cache: KernelCache | None = None,
    ) -> None:
        """Open a card.

        Args:
            index: CUDA's number of it.
            bindings: CUDA's functions; None for those of the installed CuPy.
            nvrtc: the compiler; None for the installed one, loaded when kernels are.
            cache: of compiled kernels; None for the usual one.

        Raises:
            DeviceError: there is no such card, or it cannot be used.
            ResourceError: the card is too old.
        """
        self.index = index
        bindings = bindings or load_bindings()
        self.bindings = bindings
        self.runtime = bindings.runtime
        self.calls = _Calls(self)
        self._nvrtc = nvrtc
        self._cache = cache
        self._kernels: dict[str, CupyKernel] = {}
        self._modules: list[int] = []
        self._memories: set[int] = set()  # addresses that were not given back
        self._is_closed = False
        count = count_cards(bindings)
        if index >= count:
            raise DeviceError(f"There is no graphics card {index}; CUDA counts {count}, from 0.")
        self.info = DeviceInfo(f"Graphics card {index}", (0, 0), 0, 0, 1)
        with self.calls:
            self.info = device_info(bindings, index)
        cuda_compile.target_of(self.info.capability, ())  # refuses a card that is too old
        with self.calls:
            self.runtime.free(0)  # the first call makes the context

    def select(self) -> None:
        """Make this card the one that CUDA's calls of this thread are for.

        Raises:
            EngineError: CUDA's error.
        """
        chosen = (self.runtime, self.index)
        if getattr(_current, "chosen", None) != chosen:
            try:
                self.runtime.setDevice(self.index)
            except RuntimeError as error:
                raise error_of(error, self.info.name) from error
            _current.chosen = chosen

    def forget(self, give_back: object, handle: int) -> None:
        """Give something back; a card that failed has nothing to give back any more."""
        if callable(give_back) and not self._is_closed:
            with contextlib.suppress(EngineError), self.calls:
                give_back(handle)

    def forget_memory(self, address: int) -> None:
        """Give an allocation back."""
        self._memories.discard(address)
        self.forget(self.runtime.free, address)

    def free_bytes(self) -> int:
        """Memory that nobody has."""
        with self.calls:
            return self.runtime.memGetInfo()[0]

    def alloc(self, num_bytes: int) -> Memory:
        """Memory on the card."""
        with self.calls:
            address = self.runtime.malloc(max(1, num_bytes))
        self._memories.add(address)
        return CupyMemory(self, address, num_bytes)

    def pinned(self, num_bytes: int) -> PinnedMemory:
        """Pinned memory of CUDA."""
        runtime = self.runtime
        flags = runtime.hostAllocPortable | runtime.hostAllocMapped
        try:
            with self.calls:
                address = runtime.hostAlloc(max(1, num_bytes), flags)
        except EngineError as error:
            raise ResourceError(
                f"The system refuses to lock {num_bytes >> 20} MiB of memory for the graphics card; "
                "close other programs, or keep fewer experts in memory."
            ) from error
        buffer = (ctypes.c_uint8 * num_bytes).from_address(address)
        array = np.frombuffer(memoryview(buffer), np.uint8)
        return CupyPinnedMemory(self, array, address, is_registered=False)

    def pin(self, array: ByteArray) -> PinnedMemory | None:
        """Lock memory that exists; what cannot be written, such as a mapped file, read-only."""
        flags = _REGISTER_PORTABLE | _REGISTER_MAPPED
        address = array.ctypes.data
        with contextlib.suppress(EngineError), self.calls:
            attribute = self.runtime.cudaDevAttrHostRegisterReadOnlySupported
            if not array.flags.writeable:
                if not self.runtime.deviceGetAttribute(attribute, self.index):
                    return None
                flags |= _REGISTER_READ_ONLY
            self.runtime.hostRegister(address, array.nbytes, flags)
            return CupyPinnedMemory(self, array, address, is_registered=True)
        return None

    def load_kernels(self, names: Sequence[str] | None = None) -> None:
        """Compile for this card what is not kept, side by side, and load everything."""
        wanted = list(names or cuda_compile.kernel_files())
        nvrtc = self._nvrtc = self._nvrtc or load_nvrtc()
        cache = self._cache = self._cache or KernelCache()
        target = cuda_compile.target_of(self.info.capability, nvrtc.architectures)
        try:
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                images = list(pool.map(lambda name: cache.image(nvrtc, name, target), wanted))
        except ResourceError as error:
            raise DeviceError(error.message, code=error.code) from error
        for name, image in zip(wanted, images, strict=True):
            try:
                self._load(image)
            except (EngineError, ValueError) as error:
                raise DeviceError(
                    f"The GPU kernels of {name} cannot be loaded on {self.info.name}: {error}",
                    code="gpu_compile",
                ) from error

    def _load(self, image: bytes) -> None:
        driver = self.bindings.driver
        with self.calls:
            module = driver.moduleLoadData(image)
            self._modules.append(module)
            for kernel in kernel_names(image):
                handle = driver.moduleGetFunction(module, kernel)
                self._kernels[kernel] = CupyKernel(self, kernel, handle)

    def kernel(self, name: str) -> Kernel:
        """A loaded kernel."""
        return self._kernels[name]

    def new_stream(self) -> CupyStream:
        """A stream."""
        return CupyStream(self)

    def new_event(self, *, timed: bool = False) -> CupyEvent:
        """An event."""
        return CupyEvent(self, timed=timed)

    def synchronize(self) -> None:
        """Wait for everything on the card."""
        with self.calls:
            self.runtime.deviceSynchronize()

    def close(self) -> None:
        """Give memory and kernels back; pinned memory goes with its owners, who may still read it."""
        if self._is_closed:
            return
        for address in list(self._memories):  # arrays that are forgotten later find a closed card
            self.forget_memory(address)
        for module in self._modules:
            self.forget(self.bindings.driver.moduleUnload, module)
        self._modules.clear()
        self._kernels.clear()
        self._is_closed = True


def device_info(bindings: Bindings, index: int) -> DeviceInfo:
    """What CUDA says of a card.

    Raises:
        RuntimeError: CUDA's own error.
    """
    properties = bindings.runtime.getDeviceProperties(index)
    name = properties["name"]
    engines = bindings.runtime.deviceGetAttribute(
        bindings.runtime.cudaDevAttrAsyncEngineCount, index
    )
    return DeviceInfo(
        name.decode(errors="replace") if isinstance(name, bytes) else str(name),
        (_integer(properties["major"]), _integer(properties["minor"])),
        _integer(properties["multiProcessorCount"]),
        _integer(properties["totalGlobalMem"]),
        engines,
        _pci_place(properties),
    )


def _pci_place(properties: dict[str, object]) -> str:
    parts = [properties.get(key) for key in ("pciDomainID", "pciBusID", "pciDeviceID")]
    numbers = [part for part in parts if isinstance(part, int)]
    return pci_place(*numbers) if len(numbers) == len(parts) else ""


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise DeviceError(f"CUDA says {value!r} where a number was expected.")
    return value


def _event(event: Event) -> int:
    if not isinstance(event, CupyEvent):
        raise DeviceError("The event is another device's.")
    return event.handle


def _check_contiguous(array: npt.NDArray[np.generic]) -> None:
    if not array.flags.c_contiguous:
        raise DeviceError("Only contiguous arrays are copied to and from a card.")
