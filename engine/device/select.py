"""Which cards there are, and opening one: the only place that knows CuPy from the emulated card."""

from __future__ import annotations

from engine.core.errors import ResourceError
from engine.device.base import Device, DeviceError, DeviceInfo
from engine.device.cupy_bindings import count_cards, error_of, load_bindings
from engine.device.cupy_device import CupyDevice, device_info
from engine.kernels import cuda_compile


def usable_cards() -> list[tuple[int, DeviceInfo]]:
    """NVIDIA cards that kernels can be compiled for, with CUDA's numbers of them; at least one.

    Raises:
        DeviceError: there is none: no packages, no driver, too old a driver, no card.
        ResourceError: every card is too old.
    """
    bindings = load_bindings()
    cards = []
    too_old: ResourceError | None = None
    for index in range(count_cards(bindings)):
        try:
            info = device_info(bindings, index)
            cuda_compile.target_of(info.capability, ())
        except ResourceError as error:
            too_old = error
        except RuntimeError as error:
            raise error_of(error, f"Graphics card {index}") from error
        else:
            cards.append((index, info))
    if not cards and too_old is not None:
        raise too_old
    return cards


def open_card(index: int | None = None) -> Device:
    """An NVIDIA card: by CUDA's number of it, or the usable one with most memory.

    Raises:
        DeviceError: it cannot be used; the sentence says why and what to do.
        ResourceError: it is too old.
    """
    if index is None:
        cards = usable_cards()
        index = max(cards, key=lambda card: card[1].total_bytes)[0]
    return CupyDevice(index, load_bindings())


def open_emulated(total_bytes: int, *, seed: int = 0, name: str = "Emulated card") -> Device:
    """A card that is emulated on the processor, for tests: see `emulated.py`.

    Raises:
        DeviceError: this is no checkout with the emulator, or there is no C++ compiler.
    """
    try:
        from engine.device.emulated import EmulatedDevice  # noqa: PLC0415  # only for tests
    except ImportError as error:
        raise DeviceError(f"The emulated card cannot be loaded: {error}.") from error
    return EmulatedDevice(total_bytes, seed=seed, name=name)
