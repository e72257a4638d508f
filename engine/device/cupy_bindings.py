"""CuPy's bindings of CUDA's driver and runtime, as far as the device uses them, and CUDA's errors in words.

Only `cupy_backends` is imported, CuPy's thin layer: it loads in milliseconds, needs no CUDA toolkit and
no driver, and nothing else of CuPy is used. Its functions are CUDA's own with other capitals; an error
is an exception with CUDA's number in `status`.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Protocol, cast

from engine.core.errors import EngineError
from engine.device.base import DeviceError, DeviceMemoryError

REQUIREMENTS = "cuda12"  # the set of packages in requirements/: the one place that chooses
PACKAGES = {
    "cuda12": "cupy-cuda12x nvidia-cuda-nvrtc-cu12",
    "cuda13": "cupy-cuda13x nvidia-cuda-nvrtc",
}

OUT_OF_MEMORY = 2
NOT_READY = 600
# What a person can do something about; the rest is said with CUDA's own words.
_WORDS = {
    46: "is used by a program that lets no other use it; end that program",
    100: "was not found; look whether the system sees it, and restart the PC",
    101: "was not found; look whether the system sees it, and restart the PC",
    214: "reported a fault of its memory (ECC); restart the PC, and have the card checked if it comes again",
    702: "took too long for one step and was reset by the system; close other programs that use it",
    719: "stopped amid a computation; restart Stratum, and if it comes again lower the card's clocks",
    802: "is not ready; restart the PC",
    999: "does not answer any more; restart the PC, and check its power cables and temperature",
}
_LOST = {46, 100, 101, 214, 702, 719, 802, 999}


class DriverApi(Protocol):
    """`cupy_backends.cuda.api.driver`; handles and addresses are integers."""

    def moduleLoadData(self, image: bytes, /) -> int: ...  # noqa: N802, D102
    def moduleUnload(self, module: int, /) -> None: ...  # noqa: N802, D102
    def moduleGetFunction(self, module: int, name: str, /) -> int: ...  # noqa: N802, D102
    def launchKernel(  # noqa: N802, D102, PLR0913, PLR0917  # CUDA's
        self,
        function: int,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        block_x: int,
        block_y: int,
        block_z: int,
        shared_bytes: int,
        stream: int,
        parameters: int,
        extra: int,
        /,
    ) -> None: ...


class PointerAttributes(Protocol):
    """Of `pointerGetAttributes`."""

    devicePointer: int  # noqa: N815  # CUDA's name


class RuntimeApi(Protocol):
    """`cupy_backends.cuda.api.runtime`; handles and addresses are integers."""

    memcpyHostToDevice: int  # noqa: N815
    memcpyDeviceToHost: int  # noqa: N815
    memcpyDeviceToDevice: int  # noqa: N815
    streamNonBlocking: int  # noqa: N815
    streamCaptureModeThreadLocal: int  # noqa: N815
    eventDefault: int  # noqa: N815
    eventDisableTiming: int  # noqa: N815
    hostAllocPortable: int  # noqa: N815
    hostAllocMapped: int  # noqa: N815
    cudaDevAttrHostRegisterReadOnlySupported: int  # noqa: N815
    cudaDevAttrAsyncEngineCount: int  # noqa: N815

    def driverGetVersion(self) -> int: ...  # noqa: N802, D102
    def runtimeGetVersion(self) -> int: ...  # noqa: N802, D102
    def getDeviceCount(self) -> int: ...  # noqa: N802, D102
    def getDeviceProperties(self, device: int, /) -> dict[str, object]: ...  # noqa: N802, D102
    def deviceGetAttribute(self, attribute: int, device: int, /) -> int: ...  # noqa: N802, D102
    def setDevice(self, device: int, /) -> None: ...  # noqa: N802, D102
    def deviceSynchronize(self) -> None: ...  # noqa: N802, D102
    def memGetInfo(self) -> tuple[int, int]: ...  # noqa: N802, D102
    def malloc(self, num_bytes: int, /) -> int: ...  # noqa: D102
    def free(self, address: int, /) -> None: ...  # noqa: D102
    def hostAlloc(self, num_bytes: int, flags: int, /) -> int: ...  # noqa: N802, D102
    def freeHost(self, address: int, /) -> None: ...  # noqa: N802, D102
    def hostRegister(self, address: int, num_bytes: int, flags: int, /) -> None: ...  # noqa: N802, D102
    def hostUnregister(self, address: int, /) -> None: ...  # noqa: N802, D102
    def pointerGetAttributes(self, address: int, /) -> PointerAttributes: ...  # noqa: N802, D102
    def memcpyAsync(  # noqa: N802, D102
        self, target: int, source: int, num_bytes: int, kind: int, stream: int, /
    ) -> None: ...
    def memsetAsync(self, address: int, byte: int, num_bytes: int, stream: int, /) -> None: ...  # noqa: N802, D102
    def streamCreateWithFlags(self, flags: int, /) -> int: ...  # noqa: N802, D102
    def streamDestroy(self, stream: int, /) -> None: ...  # noqa: N802, D102
    def streamSynchronize(self, stream: int, /) -> None: ...  # noqa: N802, D102
    def streamWaitEvent(self, stream: int, event: int, /) -> None: ...  # noqa: N802, D102
    def streamBeginCapture(self, stream: int, mode: int, /) -> None: ...  # noqa: N802, D102
    def streamEndCapture(self, stream: int, /) -> int: ...  # noqa: N802, D102
    def eventCreateWithFlags(self, flags: int, /) -> int: ...  # noqa: N802, D102
    def eventDestroy(self, event: int, /) -> None: ...  # noqa: N802, D102
    def eventRecord(self, event: int, stream: int, /) -> None: ...  # noqa: N802, D102
    def eventQuery(self, event: int, /) -> int: ...  # noqa: N802, D102
    def eventSynchronize(self, event: int, /) -> None: ...  # noqa: N802, D102
    def eventElapsedTime(self, start: int, end: int, /) -> float: ...  # noqa: N802, D102
    def graphInstantiate(self, graph: int, /) -> int: ...  # noqa: N802, D102
    def graphDestroy(self, graph: int, /) -> None: ...  # noqa: N802, D102
    def graphUpload(self, executable: int, stream: int, /) -> None: ...  # noqa: N802, D102
    def graphLaunch(self, executable: int, stream: int, /) -> None: ...  # noqa: N802, D102
    def graphExecDestroy(self, executable: int, /) -> None: ...  # noqa: N802, D102


@dataclass(frozen=True, slots=True)
class Bindings:
    """Both halves.

    Attributes:
        driver: modules and launches.
        runtime: the rest.
    """

    driver: DriverApi
    runtime: RuntimeApi


def load_bindings() -> Bindings:
    """CuPy's bindings, of whichever CUDA version is installed.

    Raises:
        DeviceError: CuPy is not installed, or cannot be loaded.
    """
    # Kernels are loaded when they are asked for, not at their first launch amid a prompt.
    os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    # Cards are numbered as nvidia-smi numbers them; CUDA's own order puts the fastest first.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    try:
        driver = importlib.import_module("cupy_backends.cuda.api.driver")
        runtime = importlib.import_module("cupy_backends.cuda.api.runtime")
    except ImportError as error:
        raise DeviceError(
            f"The packages for NVIDIA cards are not usable ({error}); run the installer again, or "
            f"install {PACKAGES[REQUIREMENTS]}.",
            code="gpu_packages_missing",
        ) from error
    return Bindings(cast("DriverApi", driver), cast("RuntimeApi", runtime))


def count_cards(bindings: Bindings) -> int:
    """How many cards CUDA can use; at least one.

    Raises:
        DeviceError: there is no driver, it is too old, or no card answers.
    """
    runtime = bindings.runtime
    try:
        driver_version = runtime.driverGetVersion()
    except RuntimeError as error:
        raise error_of(error, "The graphics card") from error
    if driver_version == 0:
        raise DeviceError(
            "No NVIDIA driver answers; install the driver for your card from nvidia.com/drivers.",
            code="gpu_no_driver",
        )
    # Since CUDA 11 a driver of the same main version serves all its minor versions.
    needed = runtime.runtimeGetVersion() // 1000
    if driver_version // 1000 < needed:
        raise DeviceError(
            f"The NVIDIA driver is too old: it is for CUDA {driver_version // 1000}."
            f"{driver_version % 1000 // 10} and {needed}.0 is needed; install a newer one from "
            "nvidia.com/drivers.",
            code="gpu_driver_too_old",
            params={"driver": f"{driver_version // 1000}.{driver_version % 1000 // 10}"},
        )
    try:
        count = runtime.getDeviceCount()
    except RuntimeError as error:
        raise error_of(error, "The graphics card") from error
    if count == 0:
        raise DeviceError(f"The graphics card {_WORDS[100]}.", code="gpu_lost")
    return count


def error_of(error: Exception, name: str) -> EngineError:
    """What CUDA's error means.

    Args:
        error: of the bindings, with `status`.
        name: of the card, for the sentence.
    """
    status = getattr(error, "status", None)
    if status == OUT_OF_MEMORY:
        return DeviceMemoryError(
            f"{name} has no room left; close other programs that use it, or use a smaller context."
        )
    if status in _LOST:
        return DeviceError(f"{name} {_WORDS[status]} ({error}).", code="gpu_lost")
    return DeviceError(f"{name} failed: {error}.")
