"""Calibration: what is measured, in which order, and what counts as a gain."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence

import pytest

from engine.calibrate import (
    DUEL_ROUNDS,
    Calibrator,
    Candidates,
    Planned,
    Round,
    Situation,
    Step,
    Trial,
    plan_steps,
)
from engine.calibrate_steps import STEPS, thread_candidates
from engine.core.calibration import Finding
from engine.core.config import OpsName, RunConfig
from engine.core.errors import EngineError
from engine.core.machine import probe_machine
from engine.core.topology import Core

Rates = Callable[[Mapping[str, float]], float]


class FakeSpeedometer:
    """Gives the rates that a function of the settings says."""

    def __init__(self, rate: Rates) -> None:
        self._rate = rate
        self.trials: list[Trial] = []

    async def measure(self, trial: Trial, max_tokens: int) -> Sequence[float]:
        self.trials.append(trial)
        return [self._rate({**trial.loaded, **trial.tuned})] * 3


def planned(key: str, default: float, *others: float, needs_restart: bool = True) -> Planned:
    candidates = Candidates(default, others)
    return Planned(Step(key, key, lambda _: candidates, needs_restart), candidates)


async def calibrate(rate: Rates, *entries: Planned, clock: Callable[[], float] = time.monotonic):
    seen: list[Round | Finding] = []
    speedometer = FakeSpeedometer(rate)
    findings = await Calibrator(entries, speedometer, seen.append, clock).run()
    return findings, speedometer.trials, seen


@pytest.mark.parametrize(("gain", "is_kept"), [(1.029, False), (1.031, True), (0.9, False)])
async def test_only_more_than_three_percent_is_kept(gain: float, is_kept: bool):
    findings, _, _ = await calibrate(
        lambda settings: 10 * (gain if settings["threads"] == 4 else 1), planned("threads", 8, 4)
    )
    assert [finding.is_kept for finding in findings] == [is_kept]
    assert findings[0].value == (4 if gain > 1 else None)


async def test_the_best_candidate_meets_the_default_in_alternating_rounds():
    rates = {8: 10.0, 6: 12.0, 4: 11.0}
    _, trials, _ = await calibrate(lambda s: rates[int(s["threads"])], planned("threads", 8, 6, 4))
    values = [trial.loaded["threads"] for trial in trials]
    assert values == [8, 6, 4, 4, 6, 8, *[8, 6, 6, 8, 8, 6]]


async def test_a_slow_machine_looks_at_candidates_once():
    hours = itertools.count(0, 3600)
    rates = {8: 10.0, 6: 12.0}
    _, trials, seen = await calibrate(
        lambda s: rates[int(s["threads"])], planned("threads", 8, 6), clock=lambda: next(hours)
    )
    assert [trial.loaded["threads"] for trial in trials] == [8, 6, *[8, 6, 6, 8, 8, 6]]
    rounds = [entry for entry in seen if isinstance(entry, Round)]
    assert rounds[-1].done == rounds[-1].total


async def test_a_lucky_first_round_does_not_win():
    """A candidate that looked fast once, and is not when it meets the default again."""
    calls = itertools.count()
    findings, _, _ = await calibrate(
        lambda s: 20.0 if s["threads"] == 4 and next(calls) < 2 else 10.0, planned("threads", 8, 4)
    )
    assert not findings[0].is_kept
    assert findings[0].gain == pytest.approx(0)


async def test_a_machine_that_gets_faster_meanwhile_helps_both_alike():
    """Three rounds of the one after three of the other would give the second 4.5 %."""
    calls = itertools.count()
    findings, _, _ = await calibrate(
        lambda _: 10.0 * 1.015 ** next(calls), planned("threads", 8, 4)
    )
    assert abs(findings[0].gain) < 0.02
    assert not findings[0].is_kept


async def test_without_a_faster_candidate_the_second_part_is_left_out_and_the_total_shrinks():
    _, trials, seen = await calibrate(lambda s: s["threads"], planned("threads", 8, 6, 4))
    assert len(trials) == 6
    rounds = [entry for entry in seen if isinstance(entry, Round)]
    assert (rounds[0].done, rounds[0].total) == (1, 6 + 2 * DUEL_ROUNDS)


async def test_later_steps_go_on_from_the_winners_and_losers_are_not_in_their_trials():
    _, trials, seen = await calibrate(
        lambda s: s.get("share", 1) * (1.5 if s.get("threads") == 4 else 1),
        planned("share", 2, 3, needs_restart=False),
        planned("loser", 2, 1),
        planned("threads", 8, 4),
    )
    last = trials[-1]
    assert dict(last.tuned) == {"share": 3}
    assert dict(last.loaded) == {"threads": 4}
    rounds = [entry for entry in seen if isinstance(entry, Round)]
    assert rounds[-1].done == rounds[-1].total


async def test_a_candidate_that_fails_has_lost_and_the_others_go_on():
    def rate(settings: Mapping[str, float]) -> float:
        if settings["threads"] == 6:
            raise EngineError("The worker ended.")
        return {8: 10.0, 4: 11.0}[int(settings["threads"])]

    findings, _, seen = await calibrate(rate, planned("threads", 8, 6, 4))
    assert (findings[0].value, findings[0].is_kept) == (4, True)
    assert [entry.error for entry in seen if isinstance(entry, Round) and entry.error] == [
        "The worker ended."
    ]


async def test_a_default_that_fails_ends_it():
    def rate(settings: Mapping[str, float]) -> float:
        raise EngineError("No memory.")

    with pytest.raises(EngineError, match="No memory"):
        await calibrate(rate, planned("threads", 8, 4))


def situation(
    fast: int,
    slow: int = 0,
    *,
    sockets: int = 1,
    limit: float | None = None,
    head: bool = False,
    card: bool = False,
    **config: object,
) -> Situation:
    cores = [Core((i,), is_slow=i >= fast) for i in range(fast + slow)]
    return Situation(
        RunConfig.model_validate(config),
        probe_machine(),
        cores,
        sockets=sockets,
        cpu_limit=limit,
        has_draft_head=head,
        has_card=card,
    )


@pytest.mark.parametrize(
    ("machine", "default", "others"),
    [
        (situation(8), 8, (7, 5, 4, 2)),
        (situation(2), 2, (1,)),
        (situation(8, 16), 16, (24, 15, 11, 8, 7, 4)),
        (situation(6, 4), 10, (9, 7, 6, 5, 2)),
        (situation(32, sockets=2), 32, (31, 21, 16, 15, 8)),
        (situation(16, limit=4.0), 4, (3, 2, 1)),
    ],
)
def test_thread_counts_suit_the_processor(
    machine: Situation, default: int, others: tuple[int, ...]
):
    candidates = thread_candidates(machine)
    assert (candidates.default, candidates.others) == (default, others)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (situation(1), "one core"),
        (situation(8, ops=OpsName.REFERENCE), "reference"),
        (situation(8, upstream="http://host:8000/v1"), "another server"),
    ],
)
def test_what_cannot_matter_here_is_not_measured(machine: Situation, reason: str):
    steps, skipped = plan_steps(STEPS, machine, {})
    assert not steps
    assert reason in skipped[0].reason


def test_what_the_person_chose_stays():
    by_hand = {"threads": 3, "pcie_frac": 0.1, "spec_min_p": 0.4}
    steps, skipped = plan_steps(STEPS, situation(8, head=True, card=True), by_hand)
    assert not steps
    assert all("chosen by hand" in entry.reason for entry in skipped)


def test_the_least_probability_of_a_draft_is_measured_where_there_is_a_draft_head():
    steps, _ = plan_steps(STEPS, situation(1, head=True), {})
    assert [entry.step.key for entry in steps] == ["spec_min_p"]
    assert steps[0].candidates == Candidates(0.0, (0.3, 0.5, 0.7))
    assert not steps[0].step.needs_restart


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (situation(1), "no draft head"),
        (situation(1, head=True, spec_mtp=0), "spec_mtp is 0"),
        (situation(1, head=True, upstream="http://host:8000/v1"), "another server"),
    ],
)
def test_the_least_probability_of_a_draft_is_not_measured_where_nothing_is_drafted(
    machine: Situation, reason: str
):
    steps, skipped = plan_steps(STEPS, machine, {})
    assert not steps
    (entry,) = [entry for entry in skipped if entry.key == "spec_min_p"]
    assert reason in entry.reason


async def test_a_least_probability_that_wins_is_kept_and_goes_with_the_requests():
    (entry,), _ = plan_steps(STEPS, situation(1, head=True), {})
    findings, trials, _ = await calibrate(lambda s: 10 + s["spec_min_p"] * 2, entry)
    assert (findings[0].value, findings[0].is_kept) == (0.7, True)
    assert all(not trial.loaded for trial in trials)
    losers, _, _ = await calibrate(lambda s: 10 - s["spec_min_p"], entry)
    assert not losers[0].is_kept


def test_the_share_of_copied_experts_is_measured_with_a_card_before_what_rows_cost():
    steps, _ = plan_steps(STEPS, situation(1, head=True, card=True), {})
    assert [entry.step.key for entry in steps] == ["pcie_frac", "spec_min_p"]
    assert steps[0].candidates == Candidates(0.0, (0.2, 0.35, 0.55, 0.75))
    assert not steps[0].step.needs_restart


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (situation(1), "no graphics card"),
        (situation(1, card=True, upstream="http://host:8000/v1"), "another server"),
    ],
)
def test_the_share_of_copied_experts_is_not_measured_where_no_card_computes(
    machine: Situation, reason: str
):
    _, skipped = plan_steps(STEPS, machine, {})
    (entry,) = [entry for entry in skipped if entry.key == "pcie_frac"]
    assert reason in entry.reason


def test_every_registered_step_is_a_setting():
    assert {step.key for step in STEPS} <= RunConfig.model_fields.keys()
