"""A stand-in for CuPy's bindings: records every call, keeps what is alive, and fails when told to."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass, field
from types import SimpleNamespace

from engine.device.cupy_bindings import Bindings

GIB = 1 << 30


class CudaError(RuntimeError):
    """As CuPy's: a text, and CUDA's number in `status`."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class FakeCard:
    """What the driver says of a card."""

    name: str = "NVIDIA GeForce RTX 5070"
    capability: tuple[int, int] = (12, 0)
    total_bytes: int = 12 * GIB
    bus: int = 1


@dataclass
class FakeCuda:
    """CUDA's functions by name; `calls` lists what was called with which arguments.

    Attributes:
        cards: that the driver knows.
        driver_version: as CUDA writes it; 0: there is no driver.
        runtime_version: of the installed CuPy.
        errors: what a function raises, by its name.
        event_status: what `eventQuery` says.
        calls: name and arguments.
        alive: handles that were made and not given back, with what made them.
    """

    cards: list[FakeCard] = field(default_factory=lambda: [FakeCard()])
    driver_version: int = 12080
    runtime_version: int = 12090
    errors: dict[str, CudaError] = field(default_factory=dict)
    event_status: int = 0
    calls: list[tuple[object, ...]] = field(default_factory=list)
    alive: dict[int, str] = field(default_factory=dict)
    device: int = -1

    def __post_init__(self) -> None:
        self._handles = itertools.count(1000, 1000)
        self._host: dict[int, object] = {}

    def bindings(self) -> Bindings:
        """Both halves, as the device takes them."""
        return Bindings(self._Half(self), self._Half(self))

    def names(self) -> list[str]:
        """The functions that were called."""
        return [str(call[0]) for call in self.calls]

    class _Half:
        memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3  # noqa: N815
        streamNonBlocking = 1  # noqa: N815
        streamCaptureModeThreadLocal = 1  # noqa: N815
        eventDefault, eventDisableTiming = 0, 2  # noqa: N815
        hostAllocPortable, hostAllocMapped = 1, 2  # noqa: N815
        cudaDevAttrHostRegisterReadOnlySupported = 113  # noqa: N815
        cudaDevAttrAsyncEngineCount = 40  # noqa: N815

        def __init__(self, cuda: FakeCuda) -> None:
            self._cuda = cuda

        def __getattr__(self, name: str):
            if name.startswith("_"):
                raise AttributeError(name)

            def call(*arguments: object) -> object:
                cuda = self._cuda
                cuda.calls.append((name, *arguments))
                if name in cuda.errors:
                    raise cuda.errors[name]
                return cuda.answer(name, arguments)

            return call

    def answer(self, name: str, arguments: tuple[object, ...]) -> object:
        """What a function returns."""
        makes = {
            "malloc": "memory",
            "streamCreateWithFlags": "stream",
            "eventCreateWithFlags": "event",
            "graphInstantiate": "executable",
            "streamEndCapture": "graph",
            "moduleLoadData": "module",
        }
        takes = ("freeHost", "streamDestroy", "eventDestroy", "graphExecDestroy", "graphDestroy")
        if name in makes:
            handle = next(self._handles) * 256
            self.alive[handle] = makes[name]
            return handle
        if name in {*takes, "moduleUnload"} or (name == "free" and arguments[0]):
            del self.alive[arguments[0]]
            return None
        if name == "hostAlloc":
            buffer = (ctypes.c_uint8 * arguments[0])()
            address = ctypes.addressof(buffer)
            self._host[address] = buffer
            self.alive[address] = "pinned"
            return address
        if name == "getDeviceProperties":
            card = self.cards[arguments[0]]
            return {
                "name": card.name.encode(),
                "major": card.capability[0],
                "minor": card.capability[1],
                "multiProcessorCount": 48,
                "totalGlobalMem": card.total_bytes,
                "pciDomainID": 0,
                "pciBusID": card.bus,
                "pciDeviceID": 0,
            }
        if name == "moduleGetFunction":
            return sum(map(ord, arguments[1]))
        if name == "pointerGetAttributes":
            return SimpleNamespace(devicePointer=arguments[0] + 7)
        if name == "setDevice":
            self.device = arguments[0]
            return None
        simple = {
            "driverGetVersion": self.driver_version,
            "runtimeGetVersion": self.runtime_version,
            "getDeviceCount": len(self.cards),
            "deviceGetAttribute": 1,
            "memGetInfo": (5 * GIB, 12 * GIB),
            "eventQuery": self.event_status,
            "eventElapsedTime": 1.5,
        }
        return simple.get(name)
