"""What was read from the disk while something was computed, for each tier of a model.

    later = (DiskReads("experts", 30, 30 << 20, 270, 12.5),)
    difference(later, earlier)          # what happened in between

Counts only grow. A value that cannot be known is `UNKNOWN` and stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

UNKNOWN = -1
EXPERTS = "experts"
NGRAM_TABLE = "ngram_table"
PAGES = "pages"  # touched before they were asked for, so that a computing thread waited


@dataclass(frozen=True, slots=True)
class DiskReads:
    """One tier's counts.

    Attributes:
        tier: such as `experts`.
        reads: parts that had to be read.
        num_bytes: of these.
        hits: parts that were in memory when they were wanted.
        waited_ms: how long computing stood still for them.
    """

    tier: str
    reads: int = 0
    num_bytes: int = 0
    hits: int = 0
    waited_ms: float = 0.0

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was wanted of the tier."""
        return max(self.reads, self.hits) <= 0


def difference(later: Sequence[DiskReads], earlier: Sequence[DiskReads]) -> tuple[DiskReads, ...]:
    """What was read in between; tiers of which nothing was wanted are left out."""
    before = {one.tier: one for one in earlier}
    result = []
    for one in later:
        old = before.get(one.tier, DiskReads(one.tier))
        change = DiskReads(
            one.tier,
            _grown(one.reads, old.reads),
            _grown(one.num_bytes, old.num_bytes),
            _grown(one.hits, old.hits),
            UNKNOWN if one.waited_ms < 0 else max(one.waited_ms - max(old.waited_ms, 0.0), 0.0),
        )
        if not change.is_nothing:
            result.append(change)
    return tuple(result)


def widest(*of_several: Sequence[DiskReads]) -> tuple[DiskReads, ...]:
    """Of times that overlap: of each tier the counts with the most reads and hits."""
    result: dict[str, DiskReads] = {}
    for one in (one for reads in of_several for one in reads):
        best = result.get(one.tier)
        if best is None or one.reads + one.hits > best.reads + best.hits:
            result[one.tier] = one
    return tuple(result.values())


def as_object(reads: Sequence[DiskReads], num_tokens: int = 0) -> dict[str, dict[str, int | float]]:
    """For JSON: by tier, without what is unknown; with `num_tokens` also the wait for each token."""
    result: dict[str, dict[str, int | float]] = {}
    for one in reads:
        entry: dict[str, int | float] = {
            name: value
            for name, value in (
                ("reads", one.reads),
                ("bytes", one.num_bytes),
                ("hits", one.hits),
                ("waited_ms", round(one.waited_ms, 3)),
            )
            if value >= 0
        }
        if num_tokens > 0 and one.waited_ms >= 0:
            entry["waited_ms_per_token"] = round(one.waited_ms / num_tokens, 3)
        result[one.tier] = entry
    return result


def disk_report(
    prompt: Sequence[DiskReads], answer: Sequence[DiskReads], num_steps: int
) -> dict[str, object]:
    """For timings: the key `disk`, or nothing when nothing is known to have been wanted."""
    if not prompt and not answer:
        return {}
    return {"disk": {"prompt": as_object(prompt), "answer": as_object(answer, num_steps)}}


def _grown(later: int, earlier: int) -> int:
    return UNKNOWN if later < 0 else max(later - max(earlier, 0), 0)
