"""What does it cost to hold an answer to a JSON schema?

    python bench/constraints.py --tokens 400 --rounds 7
    python bench/constraints.py --written

The same answer is generated twice, in this process: held to a schema, and free, where something is drawn
too but the same tokens are taken. The schema has enums, nested objects, arrays, numbers and strings; the
bundled model fills it with nonsense, mostly blanks and what it is made to write. With `--written` both
take the tokens of a text that fits, as of a model that writes JSON of its own accord.
Rounds alternate and all steps count. `mask_us` is how much longer the choice of a held step's tokens
takes (processor time; with the questions about tokens that must follow, and what those cost) than that of
a free one, medians, `mask_mean_us` the same of the means; `mask_percent` and `mask_mean_percent` are
their shares of a free step. `masks_percent` is the share of a held answer's time that masks themselves
take: computing them, and drawing among their tokens. `step_percent` is how much longer a held step takes, with what the
constraint drives out of the model's caches. Tokens that the schema leaves no choice about are not drawn:
`drawn_percent` of them are, and `token_percent` is how much longer a held answer takes than the same one
without a constraint.

    python bench/constraints.py --vocabulary 248320

measures the constraint alone on a vocabulary of that size: the bundled model's tokens, then made-up
ones. A real model of that size takes 10 ms and more for a token.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from engine.core.config import BUNDLED_MODEL, RunConfig  # noqa: E402  # needs the path
from engine.core.gguf_header import read_model_header  # noqa: E402
from engine.decode.constraint import AnswerConstraint, AnyMask, Sample  # noqa: E402
from engine.decode.grammar_cursor import GrammarCursor  # noqa: E402
from engine.decode.grammar_vocabulary import GrammarVocabulary  # noqa: E402
from engine.decode.sampling import NewDraw, Sampler  # noqa: E402
from engine.ops.base import Limits  # noqa: E402
from engine.ops.best_logits import RowLogits  # noqa: E402
from engine.ops.host import HostOps  # noqa: E402
from engine.ops.token_mask import TokenMask  # noqa: E402
from engine.sequence.running_request import Chosen, RunningRequest  # noqa: E402
from engine.sequence.scheduler import Scheduler  # noqa: E402
from engine.text.grammar import answer_grammar  # noqa: E402
from engine.text.output_rules import ANY_TOOL, FormatKind, ResponseFormat  # noqa: E402
from engine.text.tokenizer import Tokenizer  # noqa: E402
from engine.text.vocabulary import Vocabulary, read_vocabulary  # noqa: E402
from engine.worker.answer_limits import ordered_stop_ids  # noqa: E402
from engine.worker.loading import load_model  # noqa: E402
from engine.worker.messages import Constraint, SamplingParams, Start, Tokens  # noqa: E402

SCHEMA: dict[str, object] = {
    "type": "array",
    "minItems": 1000,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 40},
            "kind": {"enum": ["alpha", "beta", "gamma"]},
            "size": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 5},
            "ok": {"type": "boolean"},
        },
        "required": ["name", "kind", "size", "tags", "ok"],
    },
}
SAMPLING = SamplingParams(temperature=1.0, top_k=20, top_p=0.95, seed=1)
GREEDY = SamplingParams(temperature=0.0)


def main() -> int:
    """Measure and print; 0."""
    parser = argparse.ArgumentParser(description="The cost of a constraint.")
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0, help="of the engine; 0 = its default")
    parser.add_argument("--greedy", action="store_true", help="temperature 0")
    parser.add_argument("--written", action="store_true", help="the answer is a text that fits")
    parser.add_argument("--vocabulary", type=int, default=0, help="measure the constraint alone")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    report = measure_alone(arguments) if arguments.vocabulary else measure_in_model(arguments)
    if arguments.json:
        print(json.dumps(report))
    else:
        for key, value in report.items():
            print(f"{key:<24} {value}")
    return 0


def constraint_of_schema() -> Constraint:
    """What the schema makes of an answer."""
    made = answer_grammar([], ANY_TOOL, ResponseFormat(FormatKind.JSON_SCHEMA, SCHEMA)).constraint
    if made is None:
        raise RuntimeError("the schema makes no constraint")
    return made


def measure_in_model(arguments: argparse.Namespace) -> dict[str, float]:
    """Time of a token in the scheduler, held to the schema and free."""
    loaded = load_model(RunConfig(model=BUNDLED_MODEL, threads=arguments.threads))
    tokenizer = Tokenizer.from_metadata(loaded.header.metadata)
    vocabulary = GrammarVocabulary(tokenizer)
    held_start = Start(
        "a",
        tuple(tokenizer.encode("A list of things:")),
        arguments.tokens,
        ordered_stop_ids(tokenizer),
        GREEDY if arguments.greedy else SAMPLING,
        constraint=constraint_of_schema(),
    )
    free_start = replace(held_start, constraint=None, stop_ids=())
    written = written_ids(held_start, vocabulary, tokenizer) if arguments.written else None
    times = Times()

    def run(start: Start, told: list[int] | None, choices: list[float]) -> Run:
        ids: list[int] = []
        masks: list[float] = []
        scheduler = Scheduler(
            loaded.model,
            loaded.limits,
            lambda event: ids.extend(event.token_ids) if isinstance(event, Tokens) else None,
            constrain=lambda start: AnswerConstraint(start, vocabulary),
            new_sampler=lambda params: Told(params, loaded.ops.new_draw, told, masks),
        )
        scheduler.submit(start)
        scheduler.step()
        steps = []
        with timed_choices(choices), timed_masks(masks):
            while scheduler.has_work:
                began_at = time.perf_counter()
                scheduler.step()
                steps.append(time.perf_counter() - began_at)
        return Run(ids, steps, sum(masks))

    for _ in range(arguments.rounds):
        held = run(held_start, written, times.held_choices)
        times.held.append(held)
        # The same answer, drawn in vain and then told.
        times.free.append(run(free_start, held.ids, times.free_choices))
    loaded.close()
    return times.report()


def written_ids(start: Start, vocabulary: GrammarVocabulary, tokenizer: Tokenizer) -> list[int]:
    """A text that fits the schema, as tokens that the constraint lets pass."""
    constraint, ids = AnswerConstraint(start, vocabulary), list[int]()
    text = json.dumps([thing(i) for i in range(start.max_tokens // 20)]).encode()
    while len(ids) <= start.max_tokens:
        forced = constraint.take_forced()
        if forced is None:
            forced = tokenizer.encode(text[:80].decode())[0]
            constraint.advance(forced)
        ids.append(forced)
        text = text[len(tokenizer.token_bytes(forced)) :]
    return ids


def thing(number: int) -> dict[str, object]:
    """An item of the schema."""
    words = (
        "steel",
        "copper",
        "short",
        "long",
        "round",
        "bolt",
        "wire",
        "washer",
        "spring",
        "plate",
    )
    chosen = [words[number * step % len(words)] for step in (1, 3, 7, 9)]
    return {
        "name": f"{chosen[0]} {chosen[1]} number {number}",
        "kind": ("alpha", "beta", "gamma")[number % 3],
        "size": {"x": number * 17 % 100 + 0.5},
        "tags": [*chosen[2 : 2 + number % 3]],
        "ok": number % 2 == 0,
    }


@contextmanager
def timed_choices(times: list[float]) -> Iterator[None]:
    """Meanwhile it is noted how long each choice of a step's tokens takes."""
    choose = RunningRequest.choose

    def timed_choose(request: RunningRequest, logits: RowLogits) -> Chosen:
        began_at = time.thread_time()
        chosen = choose(request, logits)
        times.append(time.thread_time() - began_at)
        return chosen

    RunningRequest.choose = timed_choose  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        RunningRequest.choose = choose  # type: ignore[method-assign]


@contextmanager
def timed_masks(times: list[float]) -> Iterator[None]:
    """Meanwhile it is noted how long each mask takes to compute."""
    write_mask = GrammarCursor.write_mask

    def timed_write(cursor: GrammarCursor, mask: TokenMask) -> None:
        began_at = time.thread_time()
        write_mask(cursor, mask)
        times.append(time.thread_time() - began_at)

    GrammarCursor.write_mask = timed_write  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        GrammarCursor.write_mask = write_mask  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class Run:
    """One answer, the time of each step behind the first, and that of masks, in seconds."""

    ids: list[int]
    steps: list[float]
    masks_s: float

    @property
    def token_s(self) -> float:
        """Of a token, on average; the first one came with the prompt."""
        return sum(self.steps) / max(1, len(self.ids) - 1)


@dataclass(slots=True)
class Times:
    """Of answers with a constraint and without, and of what happens within the former, in seconds."""

    held: list[Run] = field(default_factory=list)
    free: list[Run] = field(default_factory=list)
    held_choices: list[float] = field(default_factory=list)
    free_choices: list[float] = field(default_factory=list)

    def report(self) -> dict[str, float]:
        """Microseconds, and shares."""
        held = statistics.median(step for run in self.held for step in run.steps)
        free = statistics.median(step for run in self.free for step in run.steps)
        inside = statistics.median(self.held_choices) - statistics.median(self.free_choices)
        mean = statistics.fmean(self.held_choices) - statistics.fmean(self.free_choices)
        ratios = [h.token_s / f.token_s for h, f in zip(self.held, self.free, strict=True)]
        masks = sum(run.masks_s for run in self.held) / sum(sum(run.steps) for run in self.held)
        drawn = sum(len(run.steps) for run in self.held) / sum(len(run.ids) for run in self.held)
        return {
            "held_step_us": round(held * 1e6, 1),
            "free_step_us": round(free * 1e6, 1),
            "mask_us": round(inside * 1e6, 1),
            "mask_mean_us": round(mean * 1e6, 1),
            "mask_percent": round(100 * inside / free, 1),
            "mask_mean_percent": round(100 * mean / free, 1),
            "masks_percent": round(100 * masks, 1),
            "step_percent": round(100 * (held / free - 1), 1),
            "drawn_percent": round(100 * drawn, 1),
            "held_token_us": round(statistics.median(r.token_s for r in self.held) * 1e6, 1),
            "free_token_us": round(statistics.median(r.token_s for r in self.free) * 1e6, 1),
            "token_percent": round(100 * (statistics.median(ratios) - 1), 1),
        }


class Told(Sampler):
    """Draws, or draws in vain and says what it was told."""

    def __init__(
        self,
        params: SamplingParams,
        new_draw: NewDraw,
        told: list[int] | None,
        masked: list[float],
    ) -> None:
        super().__init__(params, new_draw)
        self._told = told
        self._masked = masked  # times of draws among a mask's tokens

    def sample(
        self,
        logits: RowLogits,
        mask: TokenMask | None = None,
        *,
        use_penalties: bool = True,
        ahead: int = 0,
    ) -> int:
        """The token of the sampler, or of the list."""
        began_at = 0.0 if mask is None else time.thread_time()
        token_id = super().sample(logits, mask, use_penalties=use_penalties, ahead=ahead)
        if mask is not None:
            self._masked.append(time.thread_time() - began_at)
        return token_id if self._told is None else self._told[self.num_seen]

    def sample_for_any_mask(self, logits: RowLogits, *, use_penalties: bool = True) -> int | None:
        """As `sample`; the list's token is the one for every mask."""
        token_id = super().sample_for_any_mask(logits, use_penalties=use_penalties)
        return token_id if self._told is None else self._told[self.num_seen]


def measure_alone(arguments: argparse.Namespace) -> dict[str, float]:
    """The constraint with a vocabulary of any size, on random logits."""
    began_at = time.perf_counter()
    vocabulary = GrammarVocabulary(padded_tokenizer(arguments.vocabulary))
    built_s = time.perf_counter() - began_at
    random = np.random.default_rng(0)
    rows = random.normal(size=(16, arguments.vocabulary)).astype(np.float32) * 3
    start = Start("a", (1,), 10_000, (0,), SAMPLING, constraint=constraint_of_schema())
    times: list[float] = []
    ops = HostOps(Limits(max_rows=1, max_window=1, num_slots=1, num_pages=1, threads=1))
    while len(times) < arguments.tokens:
        constraint = AnswerConstraint(start, vocabulary)
        sampler = Sampler(SAMPLING, ops.new_draw)
        choose = timed(constraint.choose, times)
        for i in range(min(200, arguments.tokens)):
            row = rows[i % len(rows)]
            sampler.note(choose(row, sampler.sample, sampler.sample_for_any_mask))
    choice_us = sample_us(arguments.vocabulary, Sampler(SAMPLING, ops.new_draw))
    ops.close()
    micro = np.array(times) * 1e6 - choice_us
    return {
        "vocabulary_built_s": round(built_s, 2),
        "choice_alone_us": round(choice_us, 1),
        "mask_median_us": round(float(np.median(micro)), 1),
        "mask_p95_us": round(float(np.percentile(micro, 95)), 1),
        "mask_max_us": round(float(micro.max()), 1),
    }


class Choose(Protocol):
    """What chooses a token of a held answer."""

    def __call__(self, logits: RowLogits, sample: Sample, any_mask: AnyMask | None = None) -> int:
        """As `AnswerConstraint.choose`."""


def timed(choose: Choose, times: list[float]) -> Choose:
    """The same, and how long each call took."""

    def wrapped(logits: RowLogits, sample: Sample, any_mask: AnyMask | None = None) -> int:
        began_at = time.thread_time()
        token_id = choose(logits, sample, any_mask)
        times.append(time.thread_time() - began_at)
        return token_id

    return wrapped


def sample_us(size: int, sampler: Sampler) -> float:
    """Time of a choice without a constraint."""
    logits = np.random.default_rng(0).normal(size=size).astype(np.float32) * 3
    times = []
    for _ in range(300):
        began_at = time.thread_time()
        sampler.sample(logits)
        times.append(time.thread_time() - began_at)
    return statistics.median(times) * 1e6


def padded_tokenizer(size: int) -> Tokenizer:
    """The bundled model's tokenizer with made-up words behind its own."""
    known = read_vocabulary(read_model_header(BUNDLED_MODEL).metadata)
    parts = [token for token in known.tokens if token.isascii() and token.isalpha()]
    random = np.random.default_rng(1)
    tokens, seen = list(known.tokens), set(known.tokens)
    while len(tokens) < size:
        left, right = random.integers(0, len(parts), 2)
        word = ("\u0120" if random.random() < 0.5 else "") + parts[left] + parts[right]
        if word not in seen:
            seen.add(word)
            tokens.append(word)
    kinds = [1] * len(tokens)
    for token_id in known.special_ids.values():
        kinds[token_id] = 3
    return Tokenizer(Vocabulary(tokens, kinds, list(known.merges), known.eos_id))


if __name__ == "__main__":
    sys.exit(main())
