"""A model whose next token follows from all before it, and a scheduler's run over it, for tests."""

import zlib
from collections.abc import Callable

import numpy as np

from engine.core.errors import ResourceError
from engine.sequence.batch import Batch, LogitsWanted, PassResult, logit_rows
from engine.sequence.scheduler import Scheduler, SchedulerLimits
from engine.worker.messages import Done, PromptProgress, SamplingParams, Start, Tokens
from tests.support.fake_sequence import FakeSequence

VOCAB = 50
STOP_ID = 49
NUM_LAYERS = 4
LIMITS = SchedulerLimits(context=400, vocab_size=VOCAB, prompt_chunk=128, parallel=3)


class FakeModel:
    """Logits are drawn from the hash of all tokens so far: any mix-up changes the answer."""

    ngram_rows = None

    def __init__(self, max_sequences: int = 3, max_tokens: int = 10**9) -> None:
        self.alive: list[FakeSequence] = []
        self.passes: list[list[int]] = []  # rows per sequence of each finished pass
        self.num_abandoned = 0
        self.max_sequences = max_sequences
        self.max_tokens = max_tokens
        self.bad_tokens: set[int] = set()

    def new_sequence(self) -> FakeSequence:
        if len(self.alive) >= self.max_sequences:
            raise ResourceError("No place for another sequence.")
        self.alive.append(FakeSequence(self))
        return self.alive[-1]

    def new_lane(self, max_rows: int) -> "FakeLane":
        return FakeLane(self, max_rows)

    def layers(self, batch: Batch):
        finished = False
        assert not any(entry.state.is_released for entry in batch.entries)
        try:
            used = sum(sequence.length for sequence in self.alive)
            if used + batch.num_rows > self.max_tokens:
                raise ResourceError("The cache is full.")
            yield from range(NUM_LAYERS)
            starts = np.cumsum([0] + [len(entry.token_ids) for entry in batch.entries])
            rows = logit_rows([entry.logits for entry in batch.entries], starts)
            logits = np.zeros((len(rows), VOCAB), np.float32)
            wanted = [e for e in batch.entries if e.logits is LogitsWanted.LAST]
            for i, entry in enumerate(wanted):
                logits[i] = logits_after([*entry.state.tokens, *entry.token_ids])
                if self.bad_tokens & set(entry.token_ids):
                    logits[i] = np.nan
            for entry in batch.entries:
                entry.state.pending = list(entry.token_ids)
            self.passes.append([len(entry.token_ids) for entry in batch.entries])
            finished = True
            return PassResult(logits, rows, np.zeros((int(starts[-1]), 1, 1), np.float32), starts)
        finally:
            self.num_abandoned += not finished


class FakeLane:
    """Passes that are computed while one of the model's is left open."""

    def __init__(self, model: FakeModel, max_rows: int) -> None:
        self.model = model
        self.max_rows = max_rows

    def layers(self, batch: Batch):
        assert batch.num_rows <= self.max_rows
        return self.model.layers(batch)


def logits_after(tokens: list[int]) -> np.ndarray:
    seed = zlib.crc32(np.array(tokens, np.int64).tobytes())
    logits = np.random.default_rng(seed).normal(size=VOCAB).astype(np.float32) * 3
    logits[STOP_ID] = -50
    return logits


def greedy_answer(prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(logits_after(tokens).argmax()))
    return tokens[len(prompt) :]


def start(
    request_id: str, prompt: list[int], sampling: SamplingParams | None = None, **more: object
) -> Start:
    fields: dict[str, object] = {"max_tokens": 20, "stop_ids": (STOP_ID,)} | more
    sampling = sampling or SamplingParams(temperature=0)
    return Start(request_id, tuple(prompt), sampling=sampling, **fields)  # type: ignore[arg-type]


def prompt_of(length: int, seed: int = 0) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(0, VOCAB - 1, length)]


class Run:
    """A scheduler with everything that it has sent."""

    def __init__(
        self,
        model: FakeModel | None = None,
        limits: SchedulerLimits = LIMITS,
        is_ready: Callable[[Start], bool] = lambda _: True,
    ) -> None:
        self.model = model or FakeModel()
        self.events: list[PromptProgress | Tokens | Done] = []
        self.num_layers_seen = 0
        self.at_layer: dict[int, object] = {}
        self.scheduler = Scheduler(
            self.model,
            limits,
            self.events.append,
            self._between_layers,  # type: ignore[arg-type]
            is_ready=is_ready,
        )

    def _between_layers(self) -> None:
        self.num_layers_seen += 1
        action = self.at_layer.get(self.num_layers_seen)
        if callable(action):
            action()

    def finish(self) -> "Run":
        for _ in range(2000):
            if not self.scheduler.has_work:
                assert not self.model.alive
                return self
            self.scheduler.step()
        raise AssertionError("the scheduler does not come to an end")

    def ids(self, request_id: str) -> list[int]:
        tokens = [e for e in self.events if isinstance(e, Tokens) and e.request_id == request_id]
        return [token_id for event in tokens for token_id in event.token_ids]

    def done(self, request_id: str) -> Done:
        found = [e for e in self.events if isinstance(e, Done) and e.request_id == request_id]
        assert len(found) == 1
        return found[0]


def run(*starts: Start, **more: object) -> Run:
    result = Run(**more)  # type: ignore[arg-type]
    for one in starts:
        result.scheduler.submit(one)
    return result.finish()
