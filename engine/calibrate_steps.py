"""The settings that calibration knows how to tune, in the order in which they are measured.

A part that gets a setting worth tuning adds its step to `STEPS`. `threads` comes before what is weighed
against the time of a pass, and the share of experts that the bus brings before what a row costs.
"""

from __future__ import annotations

from engine.calibrate import Candidates, Situation, Step
from engine.core.config import OpsName, RunConfig
from engine.core.topology import default_threads

MIN_P_TRIED = (0.3, 0.5, 0.7)
PCIE_FRAC_TRIED = (0.0, 0.2, 0.35, 0.55, 0.75)


def thread_candidates(situation: Situation) -> Candidates:
    """Thread counts to try beside the engine's own.

    Fewer threads can be faster where memory is the limit (two thirds, half, a quarter), where a core
    is wanted by everything else that runs (one less), where slow cores hold the fast ones up, and
    where the other socket's memory is far away. More only where the engine left cores out.
    """
    cores = situation.cores
    default = default_threads(cores, situation.cpu_limit)
    if situation.config.upstream is not None:
        return Candidates(default, (), "another server computes")
    if situation.config.ops is OpsName.REFERENCE:
        return Candidates(default, (), "the reference operations do not use it")
    wanted = [default - 1, round(default * 2 / 3), default // 2, default // 4]
    fast = sum(not core.is_slow for core in cores)
    if 0 < fast < len(cores):
        wanted += [fast, fast - 1]
    if situation.sockets > 1:
        wanted.append(len(cores) // situation.sockets - 1)
    most = len(cores)
    if situation.cpu_limit is not None:
        most = min(most, int(situation.cpu_limit + 0.5))
    wanted.append(most)
    others = sorted({count for count in wanted if 1 <= count <= most} - {default}, reverse=True)
    why_none = "" if others else "there is only one core to use"
    return Candidates(default, tuple(others), why_none)


def pcie_frac_candidates(situation: Situation) -> Candidates:
    """Shares of the experts that the card lacks to have copied there.

    It depends on bus, card and processor which of the two ways is done first with its share.
    """
    default = float(RunConfig.model_fields["pcie_frac"].default)
    if situation.config.upstream is not None:
        return Candidates(default, (), "another server computes")
    if not situation.has_card:
        return Candidates(default, (), "no graphics card computes")
    return Candidates(default, tuple(share for share in PCIE_FRAC_TRIED if share != default))


def min_p_candidates(situation: Situation) -> Candidates:
    """Least probabilities of a draft of the head to try.

    Where rows are dear a chain should end at the first doubtful draft; where they cost nothing each
    draft is worth a try.
    """
    config, default = situation.config, 0.0
    if config.upstream is not None:
        return Candidates(default, (), "another server computes")
    if config.spec_mtp == 0:
        return Candidates(default, (), "the config turns the draft head off (spec_mtp is 0)")
    if not situation.has_draft_head:
        return Candidates(default, (), "the model has no draft head")
    return Candidates(default, MIN_P_TRIED)


STEPS: tuple[Step, ...] = (
    Step("threads", "Threads of the CPU kernels", thread_candidates),
    Step(
        "pcie_frac",
        "Share of experts copied to the card",
        pcie_frac_candidates,
        needs_restart=False,
    ),
    Step(
        "spec_min_p",
        "Least probability of a draft",
        min_p_candidates,
        needs_restart=False,
    ),
)
