"""Why the model may be slow, from what was measured; each reason is a `Note` with its figures.

    for note in reasons(Facts(machine=sample, cards=cards, status=status, ...)):
        sentence(note)           # slow_words.py

Pure: it measures nothing itself and guesses nothing. A fact that is None says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.engine_status import EngineMetrics, EngineStatus
from app.model_report import ModelReport
from app.monitor.gpu_probe import GpuSample
from app.monitor.machine_probe import MachineSample
from engine.core.errors import ParameterValue
from engine.core.note import Note

_GIB = 1 << 30
# Less than this a desktop takes by itself.
_OTHERS_VRAM_BYTES = 1 << 30
_BUSY_CARD = 0.3
_OTHERS_CPU = 0.25
_ONE_PROGRAM_CPU = 0.10
# One memory module, or modules below the speed they are made for: two of DDR4-3200 read 35 to 45.
_SLOW_MEMORY_PER_S = 28e9
_FULL_RAM = 0.93
_SWAPPING_PER_S = 4 << 20
_EXPERTS_FROM_DISK_PER_S = 50 << 20
_LOW_CLOCK = 0.6
_LEAST_DRAFTS = 200
_POOR_DRAFTS = 0.05
_LEAST_PROMPT_TOKENS = 20_000
_POOR_CACHE = 0.3
_LONG_WAIT_S = 2.0
_LEAST_WAITS = 5
_LONG_PROMPT_SHARE = 0.6
_FEW_TOKENS_PER_S = 0.6  # of what was measured when the settings were tuned


@dataclass(frozen=True, slots=True)
class Measured:
    """What is only looked at when the person asks, because it takes a moment.

    Attributes:
        others: programs that keep the processor busy: name and share of all cores.
        memory_per_s: bytes that all cores read together; None while the model answers.
        is_hard_disk: whether the model lies on a disk that turns.
        calibrated_per_s: tokens per second when the settings were tuned on this PC.
        has_display: cards that a screen hangs on.
    """

    others: tuple[tuple[str, float], ...] = ()
    memory_per_s: float | None = None
    is_hard_disk: bool = False
    calibrated_per_s: float | None = None
    has_display: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known now.

    Attributes:
        is_answering: tokens are being generated.
        tokens_per_s: generation speed now; None when nothing is generated.
    """

    machine: MachineSample | None = None
    cards: tuple[GpuSample, ...] = ()
    status: EngineStatus | None = None
    metrics: EngineMetrics | None = None
    report: ModelReport | None = None
    measured: Measured = Measured()
    is_answering: bool = False
    tokens_per_s: float | None = None


def reasons(facts: Facts) -> list[Note]:
    """What was found, the gravest first."""
    return [
        *_engine(facts),
        *_cards(facts),
        *_memory(facts),
        *_processor(facts),
        *_requests(facts),
        *_bound(facts),
    ]


def _engine(facts: Facts) -> Iterator[Note]:
    status = facts.status
    if status is not None and status.ops is not None and status.ops.startswith("reference"):
        yield Note("plain_operations", {"ops": status.ops})
    # With several cards the notice may be of one that is left out while the others compute.
    has_card = status is not None and (status.ops or "").startswith("cuda")
    if status is not None and status.card_notice and not has_card:
        yield Note("card_not_used", {"reason": status.card_notice})
    if status is not None and status.restarts > 0:
        yield Note("was_restarted", {"count": status.restarts})
    tuned, now = facts.measured.calibrated_per_s, facts.tokens_per_s
    if tuned and now and now < tuned * _FEW_TOKENS_PER_S:
        yield Note("slower_than_tuned", {"now": round(now, 1), "tuned": round(tuned, 1)})


def _cards(facts: Facts) -> Iterator[Note]:
    for card in facts.cards:
        about: dict[str, ParameterValue] = {"card": card.name}
        if card.is_slowed_by_heat:
            yield Note("card_too_hot", about | {"celsius": card.temperature_c})
        if card.is_slowed_by_power and facts.is_answering:
            yield Note("card_at_power_limit", about | {"watts": _rounded(card.power_limit_w)})
        if card.others_bytes is not None and card.others_bytes > _OTHERS_VRAM_BYTES:
            yield Note("others_on_card", about | {"num_bytes": card.others_bytes})
        if card.index in facts.measured.has_display:
            yield Note("screen_on_card", about)
        if facts.is_answering and card.pcie and card.pcie_max and (card.load or 0.0) > _BUSY_CARD:
            now, best = card.pcie, card.pcie_max  # an idle card lowers its link by itself
            if now[0] < best[0] or now[1] < best[1]:
                widths = {"now": f"{now[0]} x{now[1]}", "best": f"{best[0]} x{best[1]}"}
                yield Note("slow_slot", about | widths)


def _memory(facts: Facts) -> Iterator[Note]:
    machine = facts.machine
    if machine is None:
        return
    share = machine.ram_used_bytes / max(machine.ram_total_bytes, 1)
    swapping = machine.swapped_in_per_s or 0.0
    if swapping > _SWAPPING_PER_S:
        yield Note("memory_is_swapped", {"bytes_per_s": round(swapping)})
    elif share > _FULL_RAM:
        free = machine.ram_total_bytes - machine.ram_used_bytes
        yield Note("memory_is_full", {"free_bytes": free, "total_bytes": machine.ram_total_bytes})
    read = machine.read_per_s or 0.0
    if facts.is_answering and read > _EXPERTS_FROM_DISK_PER_S:
        yield Note("reads_from_disk", {"bytes_per_s": round(read)})
    if facts.measured.is_hard_disk:
        yield Note("on_hard_disk")


def _processor(facts: Facts) -> Iterator[Note]:
    machine = facts.machine
    busy = [(name, share) for name, share in facts.measured.others if share > _ONE_PROGRAM_CPU]
    if sum(share for _, share in facts.measured.others) > _OTHERS_CPU and busy:
        name, share = busy[0]
        yield Note("others_on_processor", {"program": name, "percent": round(share * 100)})
    if machine is None:
        return
    if machine.on_battery:
        yield Note("on_battery")
    clock, best = machine.cpu_mhz, machine.cpu_mhz_max
    if facts.is_answering and clock and best and clock < best * _LOW_CLOCK:
        yield Note("low_clock", {"ghz": round(clock / 1000, 1), "best_ghz": round(best / 1000, 1)})
    if machine.engine is not None and machine.engine.has_low_priority:
        yield Note("low_priority")


def _requests(facts: Facts) -> Iterator[Note]:
    metrics = facts.metrics
    if metrics is None:
        return
    offered, accepted = metrics.value("draft_tokens_total"), metrics.value("draft_accepted_total")
    if offered and accepted is not None and offered >= _LEAST_DRAFTS:
        share = accepted / offered
        if share < _POOR_DRAFTS:
            params: dict[str, ParameterValue] = {"percent": round(share * 100, 1)}
            yield Note("drafts_rejected", params | {"offered": int(offered)})
    read, cached = metrics.value("prompt_tokens_total"), metrics.value("prompt_tokens_cached_total")
    if read and cached is not None and read >= _LEAST_PROMPT_TOKENS and cached < _POOR_CACHE * read:
        yield Note("prompts_read_anew", {"percent": round(100 - 100 * cached / read)})
    seconds, spent = metrics.value("prompt_seconds_total"), metrics.value("generated_seconds_total")
    if seconds and spent and seconds > _LONG_WAIT_S * _LEAST_WAITS:
        share = seconds / (seconds + spent)
        if share > _LONG_PROMPT_SHARE:
            yield Note("mostly_reading", {"percent": round(share * 100)})
    waits = metrics.histograms.get("queue_wait_seconds")
    if waits is not None and waits.count >= _LEAST_WAITS:
        mean = waits.total / waits.count
        if mean > _LONG_WAIT_S:
            yield Note("requests_wait", {"seconds": round(mean, 1)})


def _bound(facts: Facts) -> Iterator[Note]:
    """What the memory's speed allows at most, when everything is computed by the processor."""
    speed = facts.measured.memory_per_s
    if speed is None:
        return
    report = facts.report
    if report is not None and report.bytes_per_token and not report.bytes_in("vram"):
        params: dict[str, ParameterValue] = {
            "gb_per_s": round(speed / 1e9),
            "token_bytes": report.bytes_per_token,
            "most_per_s": round(speed / report.bytes_per_token, 1),
        }
        yield Note("memory_bound", params)
    if speed < _SLOW_MEMORY_PER_S:
        yield Note("slow_memory", {"gb_per_s": round(speed / 1e9)})


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
