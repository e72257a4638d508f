"""How many rows of a prompt one pass computes.

On the CPU a pass costs what its rows cost, whatever their number: a few hundred fill the cores. On a card
every pass over more than some hundred rows chooses nearly all experts, and those that the card does not
hold cross the bus, tens of gigabytes. So more rows make prompts faster, until the card computes longer than
the bus copies; and they take card memory, which experts then lack while answers are written. The choice is the
number with the least time for turns of three lengths, by the numbers of `timeline.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.core.config import RunConfig
from engine.core.timeline import (
    WINDOW_COMMITTED,
    Rates,
    WindowLoad,
    prompt_pass_s,
    window_time,
)

CPU_ROWS = 256
CARD_ROWS = (8192, 4096, 2048, 1024, 512, 256)
# Turns that the choice is made for: tokens that are read, none of them warm, and tokens written after each.
_READ = (1024, 4096, 16384)
_WRITTEN = 1024


def rows_on_cpu(config: RunConfig) -> int:
    """Rows of a prompt in a pass that the CPU computes."""
    return CPU_ROWS if config.prompt_chunk is None else config.prompt_chunk


def rows_on_card(
    wished: int | None, slots_beside: Callable[[int], int], seconds: Callable[[int, int], float]
) -> tuple[int, int] | None:
    """Rows of a prompt in a pass on a card, and the expert slots beside them; None where none fits.

    Args:
        wished: this many or, where it does not fit, as many as do; None = choose.
        slots_beside: expert slots that fit beside so many rows; negative where too few do.
        seconds: what the turns take with so many rows and slots.
    """
    sizes: Sequence[int] = CARD_ROWS
    if wished is not None:
        sizes = [wished, *(size for size in CARD_ROWS if size < wished)]
    fitting = [(size, slots) for size in sizes if (slots := slots_beside(size)) >= 0]
    if wished is not None or not fitting:
        return fitting[0] if fitting else None
    # To the millisecond: of two that are as good the smaller one.
    return min(fitting, key=lambda pair: (round(seconds(*pair), 3), pair[0]))


def turns_s(rows: int, load: WindowLoad, num_experts: int, rates: Rates) -> float:
    """Seconds that reading and writing the turns take.

    Args:
        rows: of a prompt in a pass.
        load: of a decode window, with the share of experts that the card holds beside so many rows.
        num_experts: of all layers together.
        rates: of the machine.
    """
    experts = (num_experts * load.expert_bytes, load.cached_share)
    total = 0.0
    for read in _READ:
        whole, rest = divmod(read, rows)
        total += whole * prompt_pass_s(rows, *experts, rates)
        total += prompt_pass_s(rest, *experts, rates) if rest else 0.0
    windows = len(_READ) * _WRITTEN / WINDOW_COMMITTED
    return total + windows * window_time(load, rates).window_s
