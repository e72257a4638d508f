"""Passes of the draft head on a card: recorded, and done again when memory runs out."""

from __future__ import annotations

import numpy as np
import pytest

from engine.decode.draft.head import HeadDrafter, Told
from engine.decode.sampling import Sampler
from engine.device.array import on_card
from engine.device.base import DeviceMemoryError
from engine.model.mtp import DraftEntry
from engine.model.trunk import Model
from engine.ops.cuda import CudaOps
from engine.ops.cuda_settings import CudaSettings
from engine.sequence.batch import LogitsForm
from engine.worker.messages import SamplingParams
from tests.engine.ops.cuda.test_shared_experts import load, num_slots
from tests.support.golden import forward


def drafts(model: Model, chains: int = 3) -> list[np.ndarray]:
    """Logits of the draft head, fed with a few tokens and drafting on by itself, twice."""
    assert model.mtp is not None
    logits = []
    for first in (1, 5):
        sequence = model.new_sequence()
        tokens = [first, 2, 3, 4, 5]
        result = forward(model, sequence, tokens[:4])
        sequence.commit(4)
        streams, following = np.asarray(result.streams).copy(), tokens[1:]
        for _ in range(chains):
            result = model.mtp.forward([DraftEntry(sequence, streams, following)])
            logits.append(result.logits.copy())
            streams = np.asarray(result.streams).copy()[-1:]
            following = [int(logits[-1][0].argmax())]
        sequence.release()
    return logits


def test_passes_of_the_draft_head_are_recorded_and_give_the_same_bits(monkeypatch):
    model = load(CudaSettings(pcie_frac=1.0, cache_bytes=0), mtp="full-mtp")
    made = []
    record = model.ops.record
    monkeypatch.setattr(model.ops, "record", lambda *a: made.append(1) or record(*a))
    recorded = drafts(model)
    num_made = len(made)
    again = drafts(model)
    assert len(made) == num_made  # the same recordings, run again
    monkeypatch.setenv("STRATUM_RECORDING", "off")
    called = drafts(load(CudaSettings(pcie_frac=1.0, cache_bytes=0), mtp="full-mtp"))
    for wanted, *others in zip(called, recorded, again, strict=True):
        for other in others:
            np.testing.assert_array_equal(other, wanted)


def best_tokens(model: Model, form: LogitsForm) -> list[int]:
    """Chains of drafts of two sequences side by side."""
    assert model.mtp is not None
    states, entries = [], []
    for first, count in ((1, 4), (9, 2)):
        states.append(model.new_sequence())
        tokens = list(range(first, first + count + 1))
        streams = np.asarray(forward(model, states[-1], tokens[:-1]).streams).copy()
        states[-1].commit(count)
        entries.append(DraftEntry(states[-1], streams, tokens[1:]))
    found: list[int] = []
    for _ in range(4):
        result = model.mtp.forward(entries, form)
        entries = []
        for i, state in enumerate(states):
            best = result.best_of(i)
            if best is not None:
                token = int(best[-1])
            elif result.candidates is not None:
                token = int(result.candidates.kept(result.last_row_of(i)).ids[0])
            else:
                token = int(result.logits_of(i)[-1].argmax())
            found.append(token)
            entries.append(DraftEntry(state, np.asarray(result.streams_of(i)).copy()[-1:], [token]))
    assert (result.best is not None) is (form is LogitsForm.BEST)
    assert (result.candidates is not None) is (form is LogitsForm.CANDIDATES)
    assert len(result.logits) == (2 if form is LogitsForm.ALL else 0)
    for state in states:
        state.release()
    return found


@pytest.mark.parametrize("part", [None, [5, 8, 200, 201, 383]])
def test_the_best_drafts_are_those_of_the_logits(part):
    ids = None if part is None else np.array(part, np.int64)
    model = load(CudaSettings(), mtp="full-mtp", draft_ids=ids)
    wanted = best_tokens(model, LogitsForm.ALL)
    assert best_tokens(model, LogitsForm.BEST) == wanted
    assert best_tokens(model, LogitsForm.CANDIDATES) == wanted
    assert part is None or set(wanted) <= set(part)


def test_a_draft_without_usable_logits_is_none():
    model = load(CudaSettings(), mtp="full-mtp")
    assert model.mtp is not None
    norm = on_card(model.mtp._weights.exit_mix.norm)
    norm[...] = np.full(norm.shape, np.nan, np.float32)
    sequence = model.new_sequence()
    streams = forward(model, sequence, [1, 2]).streams.copy()
    sequence.commit(2)
    result = model.mtp.forward([DraftEntry(sequence, streams, [2, 3])], LogitsForm.BEST)
    assert result.best is not None
    assert result.best.tolist() == [-1]


SETTINGS = [
    (SamplingParams(temperature=0), 0.0, LogitsForm.BEST),
    (SamplingParams(temperature=0), 0.2, LogitsForm.CANDIDATES),
    (SamplingParams(temperature=0.9, seed=4, top_k=20), 0.0, LogitsForm.CANDIDATES),
    (SamplingParams(temperature=2, seed=4, top_k=20, top_p=0.8), 0.005, LogitsForm.CANDIDATES),
    (SamplingParams(temperature=0, presence_penalty=1.5), 0.0, LogitsForm.CANDIDATES),
    (SamplingParams(temperature=0, logit_bias=((3, 9.0),)), 0.0, LogitsForm.ALL),
    (SamplingParams(temperature=0.9, seed=4), 0.0, LogitsForm.ALL),
]


@pytest.mark.parametrize(("params", "min_p", "form"), SETTINGS)
@pytest.mark.parametrize("part", [None, list(range(3, 380, 5))])
def test_logits_of_drafts_stay_on_the_card_where_few_are_wanted(
    params, min_p, form, part, monkeypatch
):
    chains = []
    ids = None if part is None else np.array(part, np.int64)
    for chooses in (True, False):
        monkeypatch.setattr(CudaOps, "chooses", chooses)
        model = load(CudaSettings(), mtp="full-mtp", draft_ids=ids)
        assert model.mtp is not None
        drafter = HeadDrafter(model.mtp, 64, 16)
        sequence = model.new_sequence()
        streams = np.asarray(forward(model, sequence, [1, 2, 3]).streams).copy()
        sequence.commit(3)
        seen: list[tuple[bool, bool]] = []
        head = model.mtp.forward

        def noted(entries, form, head=head, seen=seen):
            result = head(entries, form)
            seen.append((result.best is not None, result.candidates is not None))
            return result

        monkeypatch.setattr(model.mtp, "forward", noted)
        sampler = Sampler(params, model.ops.new_draw)
        for token in (7, 8, 7):
            sampler.note(token)
        told = Told(sequence, 0, streams, [2, 3, 4], 5, sampler, min_p)
        chains.append(drafter.take_note([told]))
        assert len(seen) >= 1
        of_form = (form is LogitsForm.BEST, form is LogitsForm.CANDIDATES)
        assert set(seen) == {of_form if chooses else (False, False)}
    assert chains[0] == chains[1]
    assert chains[0][0] or min_p  # which may end it at once


def test_drafts_end_at_an_improbable_one_whose_probability_the_card_computes():
    model = load(CudaSettings(), mtp="full-mtp")
    assert model.mtp is not None
    sampler = Sampler(SamplingParams(temperature=0), model.ops.new_draw)
    sequence = model.new_sequence()
    streams = np.asarray(forward(model, sequence, [1, 2, 3]).streams).copy()
    sequence.commit(3)
    logits = model.mtp.forward([DraftEntry(sequence, streams, [2, 3, 4])]).logits[-1].copy()
    sequence.truncate_mtp(0)
    share = float(1 / np.exp(logits.astype(np.float64) - logits.max()).sum())
    for min_p, count in ((share * 0.999, 1), (share * 1.001, 0)):
        told = Told(sequence, 0, streams, [2, 3, 4], 1, sampler, min_p)
        assert [len(drafted) for drafted in HeadDrafter(model.mtp, 64, 16).take_note([told])] == [
            count
        ]
        sequence.truncate_mtp(0)


def test_penalties_and_biases_want_all_logits():
    assert Sampler(SamplingParams(temperature=0)).takes_best
    for changed in (
        {"temperature": 0.5},
        {"logit_bias": ((3, 1.0),)},
        {"presence_penalty": 0.5},
        {"repetition_penalty": 1.2},
    ):
        assert not Sampler(SamplingParams(**{"temperature": 0, **changed})).takes_best


def test_a_pass_of_the_draft_head_that_lacks_memory_is_done_again_with_fewer_experts(
    monkeypatch, caplog
):
    wanted = drafts(load(CudaSettings(pcie_frac=1.0), mtp="full-mtp"))
    model = load(CudaSettings(pcie_frac=1.0), mtp="full-mtp")
    assert model.mtp is not None
    layer, lacking = model.mtp._layer, [1, 1]
    run = type(layer).run

    def runs_out(self, *arguments, **owed):
        run(self, *arguments, **owed)
        if self is layer and lacking:
            lacking.pop()
            raise DeviceMemoryError("The card has no room.")

    monkeypatch.setattr(type(layer), "run", runs_out)
    slots = sum(num_slots(model))
    got = drafts(model)
    assert not lacking
    assert caplog.text.count("fewer experts are kept on the card") == 2
    assert sum(num_slots(model)) < slots
    for logits, others in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(logits, others)


def test_a_draft_head_without_experts_on_the_card_has_nothing_to_give_up(monkeypatch):
    model = load(CudaSettings(pcie_frac=1.0, cache_bytes=0), mtp="full-mtp")
    assert model.mtp is not None
    layer = model.mtp._layer

    def runs_out(self, *_arguments, **_owed):
        raise DeviceMemoryError("The card has no room.")

    sequence = model.new_sequence()
    result = forward(model, sequence, [1, 2])
    sequence.commit(2)
    monkeypatch.setattr(type(layer), "run", runs_out)
    with pytest.raises(DeviceMemoryError):
        model.mtp.forward([DraftEntry(sequence, result.streams.copy(), [2, 3])])
    assert sequence.mtp_length == 0
