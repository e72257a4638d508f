"""Which cards there are, and opening one: the only place that knows CuPy from the emulated card.

`STRATUM_EMULATED_CARDS`, such as `600,300`, puts emulated cards with so many MiB in the place of NVIDIA's,
so that whole processes can be tried with several cards where there is none. Slow, for tests alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.emulated_cards import EMULATED_CAPABILITY, emulated_name, emulated_sizes
from engine.core.errors import EngineError, ResourceError
from engine.device.base import Device, DeviceError, DeviceInfo
from engine.device.cupy_bindings import count_cards, error_of, load_bindings
from engine.device.cupy_device import CupyDevice, device_info
from engine.kernels import cuda_compile


@dataclass(frozen=True, slots=True)
class FoundCard:
    """A card that CUDA counts.

    Attributes:
        index: CUDA's number of it.
        info: what it is; None where it does not even tell that.
        problem: why it cannot be used; None where nothing is known against it.
    """

    index: int
    info: DeviceInfo | None
    problem: EngineError | None = None


def found_cards() -> list[FoundCard]:
    """All cards, with what makes one unusable as far as can be told without opening it; at least one.

    Raises:
        DeviceError: there is none: no packages, no driver, too old a driver, no card.
        ConfigError: the emulated ones are named wrongly.
    """
    sizes = emulated_sizes()
    if sizes:
        infos = (
            DeviceInfo(emulated_name(i), EMULATED_CAPABILITY, 4, n, 2) for i, n in enumerate(sizes)
        )
        return [FoundCard(index, info) for index, info in enumerate(infos)]
    bindings = load_bindings()
    cards = []
    for index in range(count_cards(bindings)):
        info: DeviceInfo | None = None
        problem: EngineError | None = None
        try:
            info = device_info(bindings, index)
            cuda_compile.target_of(info.capability, ())
        except ResourceError as error:  # too old
            problem = error
        except RuntimeError as error:
            problem = error_of(error, f"Graphics card {index}")
        cards.append(FoundCard(index, info, problem))
    return cards


def usable_cards() -> list[tuple[int, DeviceInfo]]:
    """Cards that kernels can be compiled for, with CUDA's numbers of them; at least one.

    Raises:
        DeviceError: there is none: no packages, no driver, too old a driver, no card.
        ResourceError: every card is too old.
    """
    found = found_cards()
    cards = [
        (card.index, card.info) for card in found if card.info is not None and card.problem is None
    ]
    if not cards:
        raise next(card.problem for card in found if card.problem is not None)
    return cards


def open_card(index: int | None = None) -> Device:
    """A card: by CUDA's number of it, or the usable one with most memory.

    Raises:
        DeviceError: it cannot be used; the sentence says why and what to do.
        ResourceError: it is too old.
    """
    if index is None:
        cards = usable_cards()
        index = max(cards, key=lambda card: card[1].total_bytes)[0]
    sizes = emulated_sizes()
    if sizes:
        if index >= len(sizes):
            raise DeviceError(f"There is no emulated card {index}; there are {len(sizes)}, from 0.")
        return open_emulated(sizes[index], seed=index, name=emulated_name(index))
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
