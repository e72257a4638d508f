"""How fast a model will answer on this PC, as a range, before anything is downloaded.

On the processor: the bytes that a token touches over the memory's measured bandwidth, and what the
cores can decode; measured runs lie between the two ends (bench/results). On a graphics card: the time
line of a decode window (engine/core/timeline.py), and for prompts the published speed of the reference
machine, scaled. Estimates, to be shown as such.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.catalog import CatalogModel, ModelShape
from engine.core.drive_speed import DriveKind
from engine.core.gpu import Gpu
from engine.core.model_numbers import ModelNumbers
from engine.core.placement import RAM_TOLERANCE, SYSTEM_RESERVE_BYTES
from engine.core.placement_hybrid import HybridPlacement
from engine.core.survey import Survey
from engine.core.timeline import Rates, WindowLoad, link_bytes_per_s, window_time

# Weights that one core decodes in a second, one row of activations, GB/s: measured 2026-11-30 at
# about 3 GHz (docs/how-it-works/kernels.md). By the experts' size: gate and up, down weighed in.
_EXPERT_RATES = {
    "Q2_0": {"avx512": 17.0, "avxvnni": 15.5, "avx2": 13.0},
    "IQ2_XS": {"avx512": 8.0, "avxvnni": 6.0, "avx2": 5.5},
    "IQ3_XXS": {"avx512": 12.0, "avxvnni": 5.5, "avx2": 6.5},
    "IQ3_S": {"avx512": 11.0, "avxvnni": 5.0, "avx2": 5.0},
    "IQ1_M": {"avx512": 11.0, "avxvnni": 5.0, "avx2": 5.0},  # a name only: stored like IQ3_S
    "UD-IQ4_XS": {"avx512": 12.0, "avxvnni": 6.0, "avx2": 6.0},
    "UD-Q4_K_XL": {"avx512": 21.0, "avxvnni": 19.0, "avx2": 18.0},
}
_OTHER_RATES = {"avx512": 10.0, "avxvnni": 5.0, "avx2": 5.0}
_DENSE_RATES = {"avx512": 28.0, "avxvnni": 27.0, "avx2": 26.0}
# Multiply-adds of one core in a nanosecond with many rows (the same table).
_PROMPT_RATES = {"avx512": 90.0, "avxvnni": 70.0, "avx2": 55.0}

# Shares of the bound that measured runs reach (bench/results, busy and quiet machines).
_LOW_SHARE, _HIGH_SHARE = 0.7, 0.85
_FASTER_CLOCK = 1.5  # desktop cores against the 3 GHz of the table
_LAYER_S = 60e-6  # hand-over between the operations of a layer
_TOKEN_S = 1.5e-3  # sampling, text, messages
_PARTS_OF_AN_EXPERT = 3  # gate, up and down lie apart in the file
_READS_AT_ONCE = 8
_DISK_READS_AT_ONCE = 1.5  # a disk that turns sorts its reads, and no more
_TABLE_ROWS = 16  # of the n-gram table for each token: two orders of eight heads
_DEFAULT_DRIVE_PER_S = 5e8
_DEFAULT_READ_S = 1e-4
DEFAULT_BANDWIDTH = 20e9  # two channels of slow memory, where it could not be measured
_REFERENCE_VALUES_PER_S = 2e8  # the plain implementation without AVX2

# The machine of the published prompt speeds: RTX 5070 12 GB in a slot of generation 4.
_REFERENCE_VRAM_PER_S = 672e9
_REFERENCE_BUS_PER_S = 31.5e9
_DEFAULT_VRAM_PER_S = 300e9
_GPU_LOW, _GPU_HIGH = 0.6, 1.1


@dataclass(frozen=True, slots=True)
class SpeedRange:
    """Tokens per second.

    Attributes:
        low: an answer's tokens, at worst.
        high: at best.
        prompt_low: a prompt's tokens that are read, at worst; 0 when unknown.
        prompt_high: at best.
    """

    low: float
    high: float
    prompt_low: float = 0.0
    prompt_high: float = 0.0

    @property
    def middle(self) -> float:
        """What to expect."""
        return (self.low + self.high) / 2


def cpu_speed(
    survey: Survey,
    model: CatalogModel,
    shape: ModelShape,
    numbers: ModelNumbers,
    placement: HybridPlacement,
) -> SpeedRange:
    """Speed when the processor computes everything."""
    variant = survey.cpu.best
    fixed_s = _TOKEN_S + shape.layers * _LAYER_S
    if not variant:
        took_s = fixed_s + numbers.active_bytes / _REFERENCE_VALUES_PER_S
        return SpeedRange(0.3 / took_s, 1 / took_s)
    cores = survey.fast_cores + survey.slow_cores / 2
    if survey.environment.cpu_limit is not None:
        cores = min(cores, survey.environment.cpu_limit)
    cores = max(cores, 1.0)
    memory_s = numbers.active_bytes / (survey.memory_bytes_per_s or DEFAULT_BANDWIDTH)
    rate = _EXPERT_RATES.get(model.size, _OTHER_RATES)[variant]
    decode_s = numbers.active_expert_bytes / (rate * 1e9 * cores)
    decode_s += numbers.dense_bytes / (_DENSE_RATES[variant] * 1e9 * cores)
    rows_s = _rows_s(survey, numbers, placement)
    disk_s = _disk_s(survey, numbers, placement) + rows_s
    low = _LOW_SHARE / (memory_s + decode_s + disk_s + fixed_s)
    high = _HIGH_SHARE / (max(memory_s, decode_s / _FASTER_CLOCK) + disk_s / 2 + fixed_s)
    macs = numbers.dense_bytes + _expert_values(shape)
    prompt_s = macs / (cores * _PROMPT_RATES[variant] * 1e9)
    prompt_high = 1 / (prompt_s / _FASTER_CLOCK + rows_s / 2)
    return SpeedRange(low, high, 1 / (prompt_s * 2 + rows_s), prompt_high)


def gpu_speed(
    survey: Survey,
    gpu: Gpu,
    model: CatalogModel,
    shape: ModelShape,
    numbers: ModelNumbers,
    placement: HybridPlacement,
) -> SpeedRange | None:
    """Speed with a card, by the time line of a window; None where the card holds no experts."""
    if not placement.expert_slots:
        return None
    load = window_load(numbers, shape, placement)
    cores = max(survey.fast_cores + survey.slow_cores / 2, 1.0)
    memory = survey.memory_bytes_per_s or DEFAULT_BANDWIDTH
    here = window_time(
        load,
        Rates(
            card=gpu.memory_bytes_per_s or _DEFAULT_VRAM_PER_S,
            bus=link_bytes_per_s(gpu.pcie_generation_max, gpu.pcie_width_max),
            memory=memory,
            # Measured per instruction set, but only the plain one is proven beside a card.
            experts=expert_rate(model.size, "avx2") * 1e9 * cores,
        ),
    )
    waits_s = _disk_s(survey, numbers, placement) + _rows_s(survey, numbers, placement)
    expected = 1 / (1 / here.tokens_per_s + waits_s)
    prompt = 0.0
    if model.speed is not None and model.speed.prompt:
        # A prompt streams every expert over the bus while the card computes.
        there = _REFERENCE_BUS_PER_S / link_bytes_per_s(gpu.pcie_generation_max, gpu.pcie_width_max)
        card = _REFERENCE_VRAM_PER_S / (gpu.memory_bytes_per_s or _DEFAULT_VRAM_PER_S)
        prompt = 1 / (max(there, card) / model.speed.prompt + waits_s)
    return SpeedRange(
        expected * _GPU_LOW, expected * _GPU_HIGH, prompt * _GPU_LOW, prompt * _GPU_HIGH
    )


def expert_rate(size: str, isa: str) -> float:
    """GB/s of this size's expert weights that one core decodes and multiplies."""
    return _EXPERT_RATES.get(size, _OTHER_RATES)[isa]


def window_load(numbers: ModelNumbers, shape: ModelShape, placement: HybridPlacement) -> WindowLoad:
    """What a decode window of a placed model has to do."""
    return WindowLoad(
        layers=shape.layers,
        experts_used=shape.experts_used,
        expert_bytes=numbers.expert_slot_bytes,
        dense_bytes=numbers.dense_bytes,
        cached_share=placement.expert_slots / max(numbers.num_experts, 1),
    )


def _disk_s(survey: Survey, numbers: ModelNumbers, placement: HybridPlacement) -> float:
    """Seconds that a token waits for experts on the disk, if every expert is as likely.

    What was placed on the disk, and what a model that does not fit has beyond the memory.
    """
    total = int(survey.machine.ram_total_bytes * (1 + RAM_TOLERANCE))
    beyond = max(0, placement.ram_bytes + SYSTEM_RESERVE_BYTES - total)
    on_disk = placement.disk_expert_bytes + beyond
    if not on_disk:
        return 0.0
    share = min(1.0, on_disk / max(numbers.expert_bytes, 1))
    speed = survey.data_drive.speed if survey.data_drive is not None else None
    per_s = max(speed.sequential_bytes_per_s, 1e6) if speed is not None else _DEFAULT_DRIVE_PER_S
    latency_s = speed.random_read_s if speed is not None else _DEFAULT_READ_S
    reads = numbers.experts_used * share * _PARTS_OF_AN_EXPERT
    waits_s = reads * latency_s / _READS_AT_ONCE
    return numbers.active_expert_bytes * share / per_s + waits_s


def _rows_s(survey: Survey, numbers: ModelNumbers, placement: HybridPlacement) -> float:
    """Seconds that a token waits for its rows of the n-gram table.

    Nothing where the table fits into RAM beside the model: the system then keeps what was read.
    """
    speed = survey.data_drive.speed if survey.data_drive is not None else None
    if survey.machine.ram_total_bytes - placement.ram_bytes > numbers.row_bytes or speed is None:
        return 0.0
    at_once = _DISK_READS_AT_ONCE if speed.kind is DriveKind.HARD_DISK else _READS_AT_ONCE
    return _TABLE_ROWS * speed.random_read_s / at_once


def _expert_values(shape: ModelShape) -> int:
    """Values of the experts of one token; an expert is a quarter as wide as the model."""
    return shape.layers * shape.experts_used * 3 * shape.hidden_size * (shape.hidden_size // 4)
