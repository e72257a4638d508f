"""How long one decode window takes when a graphics card and a processor share every layer.

A function of numbers: what must move (bytes) over how fast it moves (bytes per second), layer by layer:
the card computes what every token reads and the router, then the experts that it holds, while the
processor computes the others in place and the bus brings a share of them over. So a layer takes

    card + max(experts on the card, missing experts / min(processor + bus, memory))

The constants below are not known from first principles. They were fitted once to the four published
windows of the reference machine (RTX 5070, Ryzen 5 7600; docs/how-it-works/timeline.md), which this
gives back within 10 %; a card at hand replaces them with what it measures.
"""

from __future__ import annotations

from dataclasses import dataclass

CARD_SHARE = 0.75  # of the card's bandwidth that products over dense weights reach
EXPERT_SHARE = 0.6  # the same for experts, which are small
LAYER_S = 180e-6  # launches, recurrence, attention and hand-over of a layer, whatever its bytes
BUS_SHARE = 0.57  # of a link's nominal rate that copies of single experts reach
HIT_POWER = 0.4  # experts met in a cache that holds the share c of them, the most wanted: c ** 0.4
ROWS_POWER = (
    0.75  # distinct experts of a window: used * rows ** 0.75, neighbours want the same ones
)
WINDOW_ROWS, WINDOW_COMMITTED = 4, 3.19  # of the published windows: the last token and drafts
# Rows of a prompt that the reference machine reads in a second (Q2_0, 32,768 tokens): computing alone takes
# no longer, because copies run beside it. Of other cards in proportion to their bandwidth.
PROMPT_ROWS_PER_S = 2650.0
_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a machine moves bytes, per second.

    Attributes:
        card: the card's memory.
        bus: between memory and card, nominal.
        memory: what processor and bus together can read of RAM.
        experts: weights of the experts' format that the processor decodes and multiplies.
    """

    card: float
    bus: float
    memory: float
    experts: float


# The reference machine: RTX 5070 in a slot of generation 4, six cores of a Ryzen 5 7600.
REFERENCE_RATES = Rates(card=672e9, bus=31.5e9, memory=62e9, experts=78e9)


@dataclass(frozen=True, slots=True)
class WindowLoad:
    """What a window has to do.

    Attributes:
        layers: of the model.
        experts_used: by one token in one layer.
        expert_bytes: of one expert.
        dense_bytes: what every token reads, all layers and the head.
        cached_share: of all experts, those that the card holds.
        rows: tokens of the window: the last one and the drafts.
        committed: tokens that it adds to the answer on average.
        other_s: drafting, sampling and messages.
    """

    layers: int
    experts_used: int
    expert_bytes: int
    dense_bytes: int
    cached_share: float
    rows: int = WINDOW_ROWS
    committed: float = WINDOW_COMMITTED
    other_s: float = 6.3e-3


@dataclass(frozen=True, slots=True)
class WindowTime:
    """Where a window's time goes, in seconds.

    Attributes:
        card_s: waiting for the card before its router has chosen.
        experts_s: waiting for experts, wherever they are computed.
        missing_s: of these, what processor and bus need; less than `experts_s` where the card is last.
        other_s: drafting, sampling and messages.
        hit_rate: share of a window's experts that the card holds.
        tokens_per_s: what comes of it.
    """

    card_s: float
    experts_s: float
    missing_s: float
    other_s: float
    hit_rate: float
    tokens_per_s: float

    @property
    def window_s(self) -> float:
        """The whole window."""
        return self.card_s + self.experts_s + self.other_s


def hit_rate(cached_share: float) -> float:
    """Share of the wanted experts in a cache that holds this share of all, the most wanted ones."""
    return float(min(1.0, max(0.0, cached_share)) ** HIT_POWER)


def link_bytes_per_s(generation: int | None, width: int | None) -> float:
    """Nominal rate of a PCIe link in one direction; generation 3 with 16 lanes where unknown."""
    lane = _LANE_BYTES_PER_S.get(generation or 3, _LANE_BYTES_PER_S[6])
    return lane * (width or 16)


def prompt_pass_s(rows: int, expert_bytes: int, cached_share: float, rates: Rates) -> float:
    """Seconds of a pass over rows of a prompt: the card computes while the bus brings experts.

    Args:
        rows: of the prompt; so many that they want nearly all experts.
        expert_bytes: all experts.
        cached_share: of these, those that the card holds.
        rates: of the machine.
    """
    copied_s = (1 - cached_share) * expert_bytes / (rates.bus * BUS_SHARE)
    read_s = expert_bytes / (rates.card * EXPERT_SHARE)
    return max(copied_s, read_s, rows / (PROMPT_ROWS_PER_S * rates.card / REFERENCE_RATES.card))


def window_time(load: WindowLoad, rates: Rates) -> WindowTime:
    """The time of one window.

    Raises:
        ValueError: a rate or a number of rows is not positive.
    """
    if min(rates.card, rates.bus, rates.memory, rates.experts) <= 0 or load.rows < 1:
        raise ValueError("rates and rows must be positive")
    hits = hit_rate(load.cached_share)
    distinct = load.experts_used * load.rows**ROWS_POWER * load.layers
    wanted = distinct * load.expert_bytes
    card_s = load.dense_bytes / (rates.card * CARD_SHARE) + load.layers * LAYER_S
    at_once = min(rates.experts + rates.bus * BUS_SHARE, rates.memory)
    missing_s = (1 - hits) * wanted / at_once
    experts_s = max(missing_s, hits * wanted / (rates.card * EXPERT_SHARE))
    return WindowTime(
        card_s=card_s,
        experts_s=experts_s,
        missing_s=missing_s,
        other_s=load.other_s,
        hit_rate=hits,
        tokens_per_s=load.committed / (card_s + experts_s + load.other_s),
    )
