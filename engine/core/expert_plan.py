"""How many experts memory can hold, and what becomes of the rest: numbers in, numbers out.

    plan_experts(config, expert_bytes=60 << 30, room_bytes=40 << 30).disk_bytes       # 20 GiB

Part of placement. Knows sizes only, neither files nor which expert is which.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.config import ExpertMode, LookAhead, RunConfig

# Of the memory that everything else leaves free, what a budget takes by itself: the rest is file cache
# for the experts that are not kept, and for the tables.
_BUDGET_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class ExpertPlan:
    """What becomes of the experts.

    Attributes:
        mode: mapped, resident or budget.
        keep_bytes: experts that are held in memory whatever else wants it.
        ram_bytes: experts that memory holds in all, kept or as file cache.
        disk_bytes: the rest, read again and again.
        looks_ahead: whether the disk is asked early.
        keeps_rest: whether what every token reads is held in memory too: else experts that pass
            through would push it out.
    """

    mode: ExpertMode
    keep_bytes: int
    ram_bytes: int
    disk_bytes: int
    looks_ahead: bool
    keeps_rest: bool = False


def plan_experts(config: RunConfig, expert_bytes: int, room_bytes: int) -> ExpertPlan:
    """Decide.

    Args:
        config: the wishes.
        expert_bytes: all routed experts.
        room_bytes: memory that everything else leaves free; may be negative.
    """
    mode = ExpertMode.MAPPED if config.expert_mode is ExpertMode.AUTO else config.expert_mode
    room = max(room_bytes, 0)
    keep = 0
    if mode is ExpertMode.RESIDENT:
        keep = expert_bytes
    elif mode is ExpertMode.BUDGET:
        wanted = config.expert_ram_mib
        keep = min(expert_bytes, int(room * _BUDGET_SHARE) if wanted is None else wanted << 20)
    in_ram = min(expert_bytes, max(room, keep))
    disk = expert_bytes - in_ram
    looks_ahead = config.expert_look_ahead is LookAhead.ON or (
        config.expert_look_ahead is LookAhead.AUTO and disk > 0
    )
    looks_ahead = looks_ahead and expert_bytes > keep
    return ExpertPlan(
        mode=mode,
        keep_bytes=keep,
        ram_bytes=in_ram,
        disk_bytes=disk,
        looks_ahead=looks_ahead,
        keeps_rest=looks_ahead and disk > 0 and room_bytes > 0,
    )
