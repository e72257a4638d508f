"""Calibration: which settings make decoding faster on this very machine.

Each part that has a setting to tune registers a `Step` (`calibrate_steps.py`). A step is measured in
two parts. First all candidates, forwards and (where that is quick) backwards, to find the most
promising one. Then that one against the default, alternating, so that a machine that gets warmer or
busier meanwhile hurts both alike; the medians decide, and only a gain above `MIN_GAIN` counts: below
that it may be noise, and a default is worth more than noise. Knows no worker (`calibrate_worker.py`) and no files (`core/calibration.py`).
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.core.calibration import Finding, SettingValue
from engine.core.config import RunConfig
from engine.core.errors import EngineError
from engine.core.machine import Machine
from engine.core.topology import Core

logger = logging.getLogger(__name__)

MIN_GAIN = 0.03
MAX_TOKENS = 128
MIN_TOKENS = 16
DUEL_ROUNDS = 3
# A round is cut to about so long on a slow machine, and repeated up to so long on a fast one.
LONGEST_ROUND_S = 30.0
SHORTEST_ROUND_S = 1.5
# Candidates are looked at a second time when the first time took no longer.
SECOND_LOOK_S = 120.0


@dataclass(frozen=True, slots=True)
class Situation:
    """What a step needs to know to choose its candidates.

    Attributes:
        config: what is calibrated, without the settings that may be measured.
        machine: this machine.
        cores: its cores.
        sockets: processor packages.
        cpu_limit: processors that a container may use; None = all.
        has_draft_head: whether the model has one, in its own file or another.
        has_card: whether a graphics card computes.
    """

    config: RunConfig
    machine: Machine
    cores: Sequence[Core]
    sockets: int = 1
    cpu_limit: float | None = None
    has_draft_head: bool = False
    has_card: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """The values to try.

    Attributes:
        default: what is used when the config says nothing.
        others: values to compare it with; empty = nothing to measure here.
        why_none: for the person, when `others` is empty.
    """

    default: SettingValue
    others: tuple[SettingValue, ...]
    why_none: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One setting to tune.

    Attributes:
        key: of RunConfig.
        title: what it is, for the person.
        candidates: chooses the values for a machine; none where the setting cannot matter.
        needs_restart: the model is loaded anew for each value; else the value goes with a request.
        max_tokens: most tokens of one measured answer.
    """

    key: str
    title: str
    candidates: Callable[[Situation], Candidates]
    needs_restart: bool = True
    max_tokens: int = MAX_TOKENS


@dataclass(frozen=True, slots=True)
class Trial:
    """What one measurement is made with: settings to load the model with, and those of a request."""

    loaded: Mapping[str, SettingValue] = field(default_factory=dict)
    tuned: Mapping[str, SettingValue] = field(default_factory=dict)


class Speedometer(Protocol):
    """Measures how fast the model decodes."""

    async def measure(self, trial: Trial, max_tokens: int) -> Sequence[float]:
        """Tokens per second of each answer in one round.

        Raises:
            EngineError: it does not work with these settings.
        """


@dataclass(frozen=True, slots=True)
class Planned:
    """A step that will be measured."""

    step: Step
    candidates: Candidates

    @property
    def num_rounds(self) -> int:
        """Most rounds that it takes."""
        return 2 * (1 + len(self.candidates.others)) + 2 * DUEL_ROUNDS


@dataclass(frozen=True, slots=True)
class Skipped:
    """A step that will not be measured, and why."""

    key: str
    title: str
    reason: str


@dataclass(frozen=True, slots=True)
class Round:
    """One measured round, as it is reported.

    Attributes:
        key: the setting.
        value: its value in this round.
        is_duel: a round of the second part.
        tokens_per_s: its median; None when it failed.
        done: rounds behind us, this one included.
        total: rounds in all; it shrinks when a second part is not needed.
        error: why it failed.
    """

    key: str
    value: SettingValue
    is_duel: bool
    tokens_per_s: float | None
    done: int
    total: int
    error: str = ""


Observer = Callable[[Round | Finding], None]


def plan_steps(
    steps: Sequence[Step], situation: Situation, by_hand: Mapping[str, SettingValue]
) -> tuple[list[Planned], list[Skipped]]:
    """Which steps are worth measuring here.

    Args:
        steps: all that are registered.
        situation: the machine and the config.
        by_hand: settings that the person chose.
    """
    planned: list[Planned] = []
    skipped: list[Skipped] = []
    for step in steps:
        if step.key in by_hand:
            reason = f"the config says {by_hand[step.key]}, which was chosen by hand and stays"
            skipped.append(Skipped(step.key, step.title, reason))
            continue
        candidates = step.candidates(situation)
        if candidates.others:
            planned.append(Planned(step, candidates))
        else:
            skipped.append(Skipped(step.key, step.title, candidates.why_none))
    return planned, skipped


class Calibrator:
    """Measures planned steps one after another; each goes on from the winners before it."""

    def __init__(
        self,
        planned: Sequence[Planned],
        speedometer: Speedometer,
        observe: Observer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._planned = planned
        self._speedometer = speedometer
        self._observe = observe
        self._clock = clock
        self._loaded: dict[str, SettingValue] = {}
        self._tuned: dict[str, SettingValue] = {}
        self._done = 0
        self._total = sum(entry.num_rounds for entry in planned)

    async def run(self) -> list[Finding]:
        """Measure everything.

        Raises:
            EngineError: the model does not run with its defaults.
        """
        findings = []
        for entry in self._planned:
            finding = await self._measure_step(entry)
            findings.append(finding)
            if finding.is_kept and finding.value is not None:
                settings = self._loaded if entry.step.needs_restart else self._tuned
                settings[finding.key] = finding.value
            self._observe(finding)
        return findings

    async def _measure_step(self, entry: Planned) -> Finding:
        step, candidates = entry.step, entry.candidates
        rates = await self._look(entry)
        medians = {value: statistics.median(found) for value, found in rates.items() if found}
        first_rate = medians[candidates.default]
        best = max(medians, key=lambda value: medians[value])
        if best != candidates.default:
            duel = await self._duel(step, candidates.default, best)
            if duel is not None:
                return duel
        else:
            self._total -= 2 * DUEL_ROUNDS
        return Finding(
            key=step.key,
            default=candidates.default,
            value=None,
            default_tokens_per_s=first_rate,
            tokens_per_s=None,
            gain=0.0,
            is_kept=False,
        )

    async def _look(self, entry: Planned) -> dict[SettingValue, list[float]]:
        """Rates of all candidates, the default first; none for one that failed."""
        step, default = entry.step, entry.candidates.default
        values = [default, *entry.candidates.others]
        rates: dict[SettingValue, list[float]] = {value: [] for value in values}
        began_at = self._clock()
        order = list(values)
        for i in range(2):
            for value in order:
                if value == default:
                    rates[value] += await self._round(step, value, is_duel=False)
                else:
                    rates[value] += await self._try_round(step, value, is_duel=False)
            if i == 0 and self._clock() - began_at > SECOND_LOOK_S:
                self._total -= len(values)
                break
            order = [value for value in reversed(values) if rates[value]]
            if i == 0:
                self._total -= len(values) - len(order)
        return rates

    async def _duel(self, step: Step, default: SettingValue, best: SettingValue) -> Finding | None:
        """The default against the best candidate; None when that fails in the middle of it."""
        rates: dict[bool, list[float]] = {False: [], True: []}
        # default, best, best, default, default, best: a steady drift evens out, and a model that is
        # loaded anew for each value is loaded four times and not six.
        order = [(i + 1) // 2 % 2 == 1 for i in range(2 * DUEL_ROUNDS)]
        for i, is_best in enumerate(order):
            if not is_best:
                rates[False] += await self._round(step, default, is_duel=True)
                continue
            measured = await self._try_round(step, best, is_duel=True)
            if not measured:
                self._total -= len(order) - 1 - i
                return None
            rates[True] += measured
        default_rate = statistics.median(rates[False])
        best_rate = statistics.median(rates[True])
        gain = best_rate / default_rate - 1
        return Finding(
            key=step.key,
            default=default,
            value=best,
            default_tokens_per_s=default_rate,
            tokens_per_s=best_rate,
            gain=gain,
            is_kept=gain > MIN_GAIN,
        )

    async def _try_round(
        self, step: Step, value: SettingValue, *, is_duel: bool
    ) -> Sequence[float]:
        """A round with a candidate, which may fail: then it has lost."""
        try:
            return await self._round(step, value, is_duel=is_duel)
        except EngineError as error:
            self._done += 1
            self._observe(
                Round(step.key, value, is_duel, None, self._done, self._total, error.message)
            )
            return ()

    async def _round(self, step: Step, value: SettingValue, *, is_duel: bool) -> Sequence[float]:
        loaded, tuned = dict(self._loaded), dict(self._tuned)
        (loaded if step.needs_restart else tuned)[step.key] = value
        rates = await self._speedometer.measure(Trial(loaded, tuned), step.max_tokens)
        self._done += 1
        rate = statistics.median(rates)
        self._observe(Round(step.key, value, is_duel, rate, self._done, self._total))
        return rates
