"""Tokens that are drawn without a mask, against those that the mask would let be drawn."""

from collections.abc import Iterator

import numpy as np
import pytest

import engine.decode.call_form as call_form_module
import engine.decode.constraint as constraint_module
from engine.decode.constraint import AnswerConstraint
from engine.decode.positions import Allowed
from engine.decode.sampling import Sampler
from engine.ops.base import Limits
from engine.ops.host import HostOps
from engine.ops.token_mask import TokenMask
from engine.text.output_rules import ANY_TOOL, FREE_TEXT
from engine.worker.messages import SamplingParams, Start
from tests.support.held_answers import (
    DOCUMENT,
    JSON_OBJECT,
    PING,
    REQUIRED,
    TRIP,
    AnswerBench,
    Logits,
    json_schema,
    largest,
)

SCHEMAS = [
    DOCUMENT,
    {"enum": ["red", "reddish", "redder", "blue berry", "blue"]},
    {"type": "string", "pattern": "^(abc|abd){2,5}[0-9]+x$"},
    {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}},
    {
        "anyOf": [
            {"properties": {"kind": {"const": "circle"}}, "required": ["kind"]},
            {"properties": {"kind": {"const": "circus"}, "n": {"type": "integer"}}},
        ]
    },
    {"type": "string", "format": "date-time"},
]
SAMPLINGS = [
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=1.0, top_k=20, top_p=0.95),
    SamplingParams(temperature=0.7, top_k=20, top_p=0.8, presence_penalty=1.5),
    SamplingParams(temperature=1.3, top_k=40, min_p=0.05, logit_bias=((5, 2.0),)),
]


@pytest.fixture(scope="module")
def bench() -> AnswerBench:
    return AnswerBench()


@pytest.fixture(scope="module")
def ops() -> Iterator[HostOps]:
    made = HostOps(Limits(max_rows=4, max_window=4, num_slots=1, num_pages=1, threads=1))
    yield made
    made.close()


def held_start(bench: AnswerBench, seed: int) -> Start:
    """A call, or a document."""
    return bench.start(
        *((TRIP, PING) if seed % 2 else ()),
        choice=REQUIRED if seed % 2 else ANY_TOOL,
        form=FREE_TEXT if seed % 2 else json_schema(DOCUMENT),
        is_parallel=seed % 3 == 0,
    )


def wishes(bench: AnswerBench, start: Start, rng: np.random.Generator) -> Logits:
    """Logits that want what is mostly allowed, an early end, special tokens, and nonsense."""
    logits = rng.normal(size=bench.tokenizer.vocab_size + 64).astype(np.float32)
    logits[rng.choice(len(logits), 3)] += 6
    for text in ('"', '":', "a", "1", "}", "\n", " ", "  ", " the"):  # what a form often wants
        logits[bench.ids(text)[0]] += rng.random() * 6
    logits[list(start.stop_ids)] += rng.random() * 6
    return logits


def without_quick_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (constraint_module._Document, call_form_module._Words):
        monkeypatch.setattr(kind, "is_strict", False)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_found_without_a_mask_is_what_the_mask_would_say(
    bench: AnswerBench, seed: int, monkeypatch: pytest.MonkeyPatch
):
    start = held_start(bench, seed)
    num_unmasked = 0

    def noted(logits: Logits, mask: TokenMask | None) -> int:
        nonlocal num_unmasked
        num_unmasked += mask is None
        return largest(logits, mask)

    def answer() -> list[int]:
        constraint, rng = bench.constraint(start), np.random.default_rng(seed)
        ids: list[int] = []
        while len(ids) < 200 and (not ids or ids[-1] not in start.stop_ids):
            logits = wishes(bench, start, rng)
            ids.append(constraint.choose(logits, noted, lambda row: noted(row, None)))
        return ids

    quick = answer()
    assert num_unmasked
    without_quick_ways(monkeypatch)
    num_unmasked = 0
    assert answer() == quick
    assert not num_unmasked


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_an_answer_that_is_drawn_without_masks_where_that_will_do_is_the_one_drawn_with_them(
    bench: AnswerBench, ops: HostOps, sampling: SamplingParams, monkeypatch: pytest.MonkeyPatch
):
    num_masks = 0
    write = AnswerConstraint._mask_of

    def counted(self: AnswerConstraint, allowed: Allowed) -> TokenMask:
        nonlocal num_masks
        num_masks += 1
        return write(self, allowed)

    monkeypatch.setattr(AnswerConstraint, "_mask_of", counted)

    def answer(seed: int, wanted: list[int], *, is_quick: bool) -> list[int]:
        """Of a model that mostly wants the answer `wanted`."""
        start = held_start(bench, seed)
        constraint, rng = bench.constraint(start), np.random.default_rng(seed)
        sampler = Sampler(sampling, ops.new_draw)
        ids: list[int] = []
        while len(ids) < 120 and (not ids or ids[-1] not in start.stop_ids):
            logits = wishes(bench, start, rng)
            if len(ids) < len(wanted) and rng.random() < 0.7:
                logits[wanted[len(ids)]] += 15
            any_mask = sampler.sample_for_any_mask if is_quick else None
            ids.append(constraint.choose(logits, sampler.sample, any_mask))
            sampler.note(ids[-1])
        return ids

    wanted = [answer(seed, [], is_quick=False) for seed in range(8)]
    num_masks = 0
    masked = [answer(seed, wanted[seed], is_quick=False) for seed in range(8)]
    num_masks_masked, num_masks = num_masks, 0
    assert [answer(seed, wanted[seed], is_quick=True) for seed in range(8)] == masked
    num_masks_quick = num_masks
    assert num_masks_quick < 0.8 * num_masks_masked


@pytest.mark.parametrize("schema", [*SCHEMAS, None])
def test_where_nothing_must_come_a_grammar_takes_what_its_mask_has(
    bench: AnswerBench, schema: dict[str, object] | None
):
    """What the quick way rests on, and no document of the grammars' library promises."""
    start = bench.start(form=JSON_OBJECT if schema is None else json_schema(schema))
    assert start.constraint is not None
    vocabulary, rng = bench.vocabulary, np.random.default_rng(1)
    mask, num_compared = TokenMask(vocabulary.vocab_size), 0
    for _ in range(2):
        matcher = vocabulary.matcher(start.constraint.document)
        for _ in range(30):
            if matcher.is_stopped():
                break
            is_forced = bool(matcher.compute_ff_tokens())
            matcher.unsafe_compute_mask_ptr(mask.address, mask.num_bytes)
            masked = {i for i in range(vocabulary.vocab_size) if i in mask}
            masked -= vocabulary.special_ids
            if not is_forced:
                num_compared += 1
                assert masked == {
                    i
                    for i in range(vocabulary.vocab_size)
                    if i not in vocabulary.special_ids and matcher.validate_tokens([i]) == 1
                }
            if not masked:
                break
            matcher.consume_token(int(rng.choice(sorted(masked))))
    assert num_compared
