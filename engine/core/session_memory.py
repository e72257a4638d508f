"""How much memory warm conversations get: recurrent states of checkpoints, and pages of their own.

A pure function of what is free and what a checkpoint takes, used by placement.
"""

from __future__ import annotations

from dataclasses import dataclass

# The default budget: the smaller of these.
_MOST_BYTES = 8 << 30
_FREE_SHARE = 0.4
# Half of it is for pages: a state and a thousand tokens of pages are of one size in large models.
_PAGE_SHARE = 0.5
# However short memory is: two conversations, each with its last turn's beginning and end.
_LEAST_CHECKPOINTS = 4
# More than a household's day of conversations is of no use.
_MOST_CHECKPOINTS = 512
_MOST_CONTEXTS = 4  # of pages beyond those for running requests


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """What warm conversations get.

    Attributes:
        state_bytes: for the recurrent states of checkpoints.
        pages: beyond those that running requests have; they may use the latter too while nobody
            else needs them.
    """

    state_bytes: int
    pages: int


def session_memory(
    budget_mib: int | None,
    free_bytes: int,
    checkpoint_bytes: int,
    page_bytes: int,
    pages_per_context: int,
) -> SessionMemory:
    """Share out the memory.

    Args:
        budget_mib: the setting; None = by what is free, 0 = nothing.
        free_bytes: what everything else leaves; may be negative.
        checkpoint_bytes: recurrent state of one checkpoint.
        page_bytes: of one key/value page.
        pages_per_context: pages of one conversation that fills the context.
    """
    least = _LEAST_CHECKPOINTS * checkpoint_bytes
    if budget_mib is None:
        budget = max(least, min(_MOST_BYTES, int(free_bytes * _FREE_SHARE)))
    else:
        budget = budget_mib << 20
    if budget < checkpoint_bytes:
        return SessionMemory(0, 0)
    for_pages = min(int(budget * _PAGE_SHARE), max(0, budget - least))
    pages = min(for_pages // max(page_bytes, 1), _MOST_CONTEXTS * pages_per_context)
    states = min(budget - pages * page_bytes, _MOST_CHECKPOINTS * checkpoint_bytes)
    return SessionMemory(states, pages)
