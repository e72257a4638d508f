"""Which plots there are on this machine, and what a sample says in each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication, QLocale

from app.monitor.gpu_probe import GpuSample
from app.monitor.plots import Tile
from app.monitor.rates import Rates
from app.monitor.sampler import Sample
from engine.core.sizes import size_in_words

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class _Filled:
    """A tile and the function that fills it."""

    tile: Tile
    fill: Callable[[Sample, Rates], None]


class TileSet:
    """The tiles; cards are added when the first sample shows them."""

    def __init__(self) -> None:
        translate = QCoreApplication.translate
        self._speed = Tile(translate("Plots", "Tokens per second"))
        self._processor = Tile(translate("Plots", "Processor"), lines=2, top=1.0)
        self._memory = Tile(translate("Plots", "Memory"), lines=2, top=1.0)
        self._drive = Tile(translate("Plots", "Drives"), lines=2)
        self._base = [
            _Filled(self._speed, self._fill_speed),
            _Filled(self._processor, self._fill_processor),
            _Filled(self._memory, self._fill_memory),
            _Filled(self._drive, self._fill_drive),
        ]
        self._of_cards: dict[int, list[_Filled]] = {}
        self._processor.setToolTip(
            translate("Plots", "All programs; the second line is the engine's share.")
        )
        self._memory.setToolTip(
            translate("Plots", "All programs; the second line is the engine's part.")
        )
        self._drive.setToolTip(translate("Plots", "Read; the second line is what is written."))

    def tiles(self) -> list[Tile]:
        """All tiles, those of cards first."""
        cards = [filled.tile for group in self._of_cards.values() for filled in group]
        return [self._speed, *cards, self._processor, self._memory, self._drive]

    def note(self, sample: Sample, rates: Rates) -> bool:
        """Take a sample in; whether there are other tiles than before."""
        is_new = False
        for card in sample.cards:
            if card.index not in self._of_cards:
                self._of_cards[card.index] = _card_tiles(card, is_only=len(sample.cards) == 1)
                is_new = True
        for filled in self._base:
            filled.fill(sample, rates)
        for group in self._of_cards.values():
            for filled in group:
                filled.fill(sample, rates)
        return is_new

    def _fill_speed(self, _sample: Sample, rates: Rates) -> None:
        speed = rates.generating_per_s
        self._speed.add(speed or 0.0)
        self._speed.show_value("0" if speed is None else _number(speed, 1))

    def _fill_processor(self, sample: Sample, _rates: Rates) -> None:
        engine = sample.machine.engine
        self._processor.add(sample.machine.cpu_share, engine.cpu_share if engine else None)
        self._processor.show_value(_percent(sample.machine.cpu_share))

    def _fill_memory(self, sample: Sample, _rates: Rates) -> None:
        machine = sample.machine
        engine = machine.engine
        total = max(machine.ram_total_bytes, 1)
        self._memory.add(
            machine.ram_used_bytes / total, engine.resident_bytes / total if engine else None
        )
        self._memory.show_value(
            f"{size_in_words(machine.ram_used_bytes)} / {size_in_words(machine.ram_total_bytes)}"
        )

    def _fill_drive(self, sample: Sample, _rates: Rates) -> None:
        machine = sample.machine
        self._drive.add(machine.read_per_s, machine.written_per_s)
        if machine.read_per_s is not None:
            self._drive.show_value(_per_second(machine.read_per_s))


def _card_tiles(card: GpuSample, *, is_only: bool) -> list[_Filled]:
    """The tiles of one card; what it does not tell has none."""
    translate = QCoreApplication.translate
    prefix = "" if is_only else f"{card.index}: "
    tiles: list[_Filled] = []

    def add(
        title: str,
        top: float | None,
        values: Callable[[GpuSample], tuple[float | None, ...]],
        words: Callable[[GpuSample], str],
    ) -> None:
        tile = Tile(prefix + title, lines=len(values(card)), top=top)
        tile.setToolTip(card.name)

        def fill(sample: Sample, _rates: Rates) -> None:
            now = next((one for one in sample.cards if one.index == card.index), None)
            if now is None:
                tile.add(*(None for _ in tile.series))
                return
            tile.add(*values(now))
            tile.show_value(words(now))

        tiles.append(_Filled(tile, fill))

    if card.load is not None:
        add(
            translate("Plots", "Graphics card"),
            1.0,
            lambda c: (c.load,),
            lambda c: _percent(c.load),
        )
    add(
        translate("Plots", "Graphics memory"),
        float(card.vram_total_bytes),
        lambda c: (float(c.vram_used_bytes),),
        lambda c: f"{size_in_words(c.vram_used_bytes)} / {size_in_words(c.vram_total_bytes)}",
    )
    if card.temperature_c is not None:
        add(
            translate("Plots", "Temperature"),
            100.0,
            lambda c: (c.temperature_c,),
            lambda c: "" if c.temperature_c is None else f"{c.temperature_c} °C",
        )
    if card.power_w is not None:
        add(
            translate("Plots", "Power"),
            card.power_limit_w,
            lambda c: (c.power_w,),
            lambda c: "" if c.power_w is None else f"{_number(c.power_w, 0)} W",
        )
    if card.received_per_s is not None:
        add(
            translate("Plots", "PCIe"),
            None,
            lambda c: (c.received_per_s, c.sent_per_s),
            lambda c: _per_second((c.received_per_s or 0.0) + (c.sent_per_s or 0.0)),
        )
    return tiles


def _percent(share: float | None) -> str:
    return "" if share is None else f"{round(share * 100)} %"


def _per_second(num_bytes: float) -> str:
    return f"{_number(num_bytes / _MIB, 0 if num_bytes >= 10 * _MIB else 1)} MiB/s"


def _number(value: float, digits: int) -> str:
    return QLocale().toString(value, "f", digits)
