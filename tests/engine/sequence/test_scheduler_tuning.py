"""Settings that a request brings along hold while it runs."""

from __future__ import annotations

from engine.sequence.scheduler import Scheduler
from engine.worker.messages import Done, Tokens
from tests.engine.sequence.fake_model import LIMITS, FakeModel, prompt_of, start


def test_a_requests_settings_hold_from_its_begin_to_its_end():
    seen: list[object] = []

    def note(event: object) -> None:
        if isinstance(event, Tokens | Done):
            seen.append(type(event).__name__)

    scheduler = Scheduler(FakeModel(), LIMITS, note, tune=seen.append)
    one = start("a", prompt_of(10), max_tokens=2, tuning=(("pcie_frac", 0.35),))
    scheduler.submit(one)
    while scheduler.has_work:
        scheduler.step()
    assert seen[0] == {"pcie_frac": 0.35}
    assert seen.count("Tokens") >= 1
    assert seen[-2:] == [{}, "Done"]


def test_a_request_without_settings_leaves_those_of_others_alone():
    tuned: list[object] = []
    scheduler = Scheduler(FakeModel(), LIMITS, lambda _: None, tune=tuned.append)
    scheduler.submit(start("a", prompt_of(10), max_tokens=9, tuning=(("pcie_frac", 0.2),)))
    scheduler.submit(start("b", prompt_of(10), max_tokens=2))
    while scheduler.has_work:
        scheduler.step()
    assert tuned == [{"pcie_frac": 0.2}, {}]
