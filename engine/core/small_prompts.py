"""Up to how many rows the processor computes the experts that a card lacks, instead of the bus bringing them.

A pass over 64 rows wants 70 % of the experts: for one question in a conversation nearly as many bytes cross
the bus as for 4,096 rows. The processor reads them from RAM several times as fast as the bus copies them,
and computes them for a few rows each in that time; with more rows computing takes longer than copying.
"""

from __future__ import annotations

from engine.core.timeline import BUS_SHARE

LEAST_ROWS = 16  # windows of drafts, which are recorded
_MORE_ROWS = (32, 64, 128)
_WORTH = 0.8  # of the bus's time: these are estimates, and the card's way has the bits of every other prompt
_CORE_BYTES_PER_S = (
    6e9  # experts that one core decodes, slow formats counted (docs/how-it-works/kernels.md)
)
_CORE_PRODUCTS_PER_S = 50e9  # with many rows, by AVX2 (the same page)
_MEMORY_BYTES_PER_S = 35e9  # two channels of DDR4


def rows_for_cpu(
    num_experts: int,
    num_used: int,
    expert_bytes: int,
    expert_values: int,
    cores: int,
    bus_bytes_per_s: float,
) -> int:
    """The most rows for which the processor is clearly sooner done.

    Args:
        num_experts: of a layer.
        num_used: by a row.
        expert_bytes: of one.
        expert_values: weights of one.
        cores: of the processor.
        bus_bytes_per_s: nominal.
    """
    found = LEAST_ROWS
    for rows in _MORE_ROWS:
        wanted = num_experts * (1 - (1 - num_used / num_experts) ** rows)
        num_bytes = wanted * expert_bytes
        read_s = num_bytes / min(cores * _CORE_BYTES_PER_S, _MEMORY_BYTES_PER_S)
        computed_s = rows * num_used * expert_values / (cores * _CORE_PRODUCTS_PER_S)
        if max(read_s, computed_s) > _WORTH * num_bytes / (bus_bytes_per_s * BUS_SHARE):
            break
        found = rows
    return found
