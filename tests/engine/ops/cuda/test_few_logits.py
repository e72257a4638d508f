"""Answers drawn from the largest logits, which alone leave the card, are those drawn from all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine.decode.draft.costs import ModelBytes, PassCosts
from engine.decode.draft.drafting import Drafting, DraftSettings
from engine.decode.draft.head import HeadDrafter
from engine.decode.draft.policy import DraftPolicy
from engine.decode.sampling import Sampler
from engine.device.emulated import EmulatedDevice
from engine.model.trunk import Model
from engine.ops.cuda import CudaOps
from engine.sequence.batch import Batch, BatchEntry, LogitsForm, LogitsWanted
from engine.sequence.scheduler import Scheduler, SchedulerLimits
from engine.worker.messages import Done, SamplingParams, Start, Tokens
from tests.engine.ops.cuda.test_split_cards import load as load_split
from tests.support.golden import golden_limits, model_file
from tests.support.plain_device import PlainDevice
from tests.support.plain_launches import plain_launches

LIMITS = SchedulerLimits(
    context=256, vocab_size=384, prompt_chunk=32, parallel=3, prompt_slice_s=99
)

SAMPLING = {
    "greedy": SamplingParams(temperature=0),
    "sampled": SamplingParams(temperature=1.3, top_k=20, top_p=0.9, seed=11),
    "penalised": SamplingParams(temperature=1, top_k=40, presence_penalty=1.5, seed=12),
    "many": SamplingParams(temperature=2, top_k=64, min_p=0.01, seed=13),
    "biased": SamplingParams(temperature=1, top_k=20, logit_bias=((5, 3.0),), seed=14),
    "logprobs": SamplingParams(temperature=1, top_k=20, top_logprobs=3, seed=15),
}


def load(*, is_plain: bool, seed: int = 0) -> Model:
    limits = golden_limits(max_rows=64, max_window=16)
    if is_plain:
        ops = CudaOps(limits.for_ops(), PlainDevice(1 << 30), launches=plain_launches)
    else:
        ops = CudaOps(limits.for_ops(), EmulatedDevice(1 << 29, seed=seed))
    return Model.load(model_file("full"), ops, limits, mtp_file=model_file("full-mtp"))


class Run:
    """Answers, and what was fetched for them."""

    def __init__(self, model: Model, names: list[str], num_tokens: int, min_p: float) -> None:
        self.answers: dict[str, list[object]] = {name: [] for name in names}
        self.accepted: dict[str, int] = {}
        costs = PassCosts(ModelBytes(dense=1e9, experts=0.0, num_experts=0, num_used=0))
        settings = DraftSettings(use_lookup=False, most_head=4, is_fixed=True, min_p=min_p)
        assert model.mtp is not None
        head = HeadDrafter(model.mtp, 64, model.store.pages.page_tokens)
        scheduler = Scheduler(
            model,
            LIMITS,
            self._receive,
            drafting=Drafting(settings, DraftPolicy(costs), head),
            new_sampler=lambda params: Sampler(params, model.ops.new_draw),
        )
        for i, name in enumerate(names):
            prompt = tuple(range(3 + i, 20 + 5 * i))
            scheduler.submit(Start(name, prompt, num_tokens, (), SAMPLING[name]))
            scheduler.step()
        while scheduler.has_work:
            scheduler.step()

    def _receive(self, event: object) -> None:
        if isinstance(event, Tokens):
            self.answers[event.request_id] += [*event.token_ids, *event.logprobs]
        elif isinstance(event, Done):
            assert event.reason != "error", event.message
            self.accepted[event.request_id] = event.timings.draft_accepted


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> list[LogitsForm]:
    """In which forms logits were asked for."""
    seen: list[LogitsForm] = []
    layers = Model.layers

    def noted(self, batch, buffers=None):
        seen.append(batch.form)
        return layers(self, batch, buffers)

    monkeypatch.setattr(Model, "layers", noted)
    return seen


def run_both(
    new_model: Callable[[], Model],
    names: list[str],
    monkeypatch: pytest.MonkeyPatch,
    num_tokens: int = 24,
    min_p: float = 0.0,
) -> Run:
    runs = []
    for chooses in (True, False):
        monkeypatch.setattr(CudaOps, "chooses", chooses)
        model = new_model()
        runs.append(Run(model, names, num_tokens, min_p))
        model.ops.close()
    few, whole = runs
    assert few.answers == whole.answers
    assert few.accepted == whole.accepted
    return few


@pytest.mark.parametrize("min_p", [0.0, 0.004])
@pytest.mark.parametrize(
    "names",
    [
        ["greedy"],
        ["sampled"],
        ["penalised"],
        ["many"],
        ["greedy", "sampled", "penalised"],
        ["sampled", "biased"],
        ["logprobs", "greedy"],
    ],
)
def test_answers_with_drafts_are_those_of_all_logits(names, min_p, forms, monkeypatch):
    few = run_both(lambda: load(is_plain=True), names, monkeypatch, min_p=min_p)
    assert all(len(few.answers[name]) >= 24 for name in names)
    wants_all = bool({"biased", "logprobs"} & set(names))
    assert (LogitsForm.ALL in forms) is wants_all
    assert LogitsForm.CANDIDATES in forms or wants_all


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "min_p", "seed"),
    [(["greedy", "sampled", "penalised"], 0.0, 0), (["many", "biased"], 0.004, 1)],
)
def test_so_they_are_with_kernels_in_odd_orders(names, min_p, seed, monkeypatch):
    run_both(lambda: load(is_plain=False, seed=seed), names, monkeypatch, 6, min_p)


@pytest.mark.parametrize("is_plain", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("num_rows", [1, 2, 5, 16, 23])
def test_each_row_of_a_window_gives_its_best_and_all_its_logits(is_plain, num_rows):
    model = load(is_plain=is_plain)
    tokens = list(range(2, 2 + num_rows))
    found = {}
    for turn in range(3):  # recorded, run again
        for form in (LogitsForm.CANDIDATES, LogitsForm.ALL):
            sequence = model.new_sequence()
            entry = BatchEntry(sequence, tokens, LogitsWanted.ALL)
            result = model.forward(Batch([entry], form))
            rows = result.rows(0, num_rows)
            assert (result.candidates is not None) is (form is LogitsForm.CANDIDATES)
            if form is LogitsForm.ALL:
                found[turn] = np.array(rows)
            else:
                best = [(row.ids.copy(), row.values.copy(), row.log_sum) for row in rows]
                fetched = [row.all_logits().copy() for row in reversed(rows)][::-1]
            sequence.release()
        np.testing.assert_array_equal(fetched, found[turn])
        for logits, (ids, values, log_sum) in zip(found[turn], best, strict=True):
            np.testing.assert_array_equal(ids, np.argsort(-logits, kind="stable")[:64])
            np.testing.assert_array_equal(values, logits[ids])
            assert log_sum == pytest.approx(np.log(np.exp(logits.astype(np.float64)).sum()))
    model.ops.close()


def test_the_last_of_several_cards_gives_them():
    model = load_split("full", (1, 3))
    found = []
    for form in (LogitsForm.CANDIDATES, LogitsForm.ALL):
        sequence = model.new_sequence()
        entry = BatchEntry(sequence, [3, 4, 5], LogitsWanted.ALL)
        result = model.forward(Batch([entry], form))
        rows = result.rows(0, 3)
        found.append([row if form is LogitsForm.ALL else row.all_logits().copy() for row in rows])
        assert (result.candidates is not None) is (form is LogitsForm.CANDIDATES)
        sequence.release()
    np.testing.assert_array_equal(*found)
    model.ops.close()
