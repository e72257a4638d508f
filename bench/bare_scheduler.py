"""The requests of `bench.streams` on a scheduler in this process: no pipe, no server, no client.

The prompt, the sampling and the banned tokens are those that the server gets, because the text
decides what a token costs: one that repeats itself finds its experts in the caches.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.streams import SAMPLING
from engine.core.config import RunConfig
from engine.sequence.scheduler import Event, Scheduler
from engine.worker.loading import load_model
from engine.worker.messages import SamplingParams, Start, Tokens


@dataclass(frozen=True, slots=True)
class BareRun:
    """What some requests took together.

    Attributes:
        decode_s: from the first step's end to the last one's.
        processor_s: of this process in that time.
        token_ids: of each answer.
    """

    decode_s: float
    processor_s: float
    token_ids: tuple[tuple[int, ...], ...]


class BareScheduler:
    """A model, and schedulers for it.

    Args:
        model: its file.
        threads: of the engine; 0 = its default.
        parallel: most requests at once.
        prompt: token ids.
        banned: token ids that must not come, with a bias that keeps them away.
    """

    def __init__(
        self,
        model: Path,
        threads: int,
        parallel: int,
        prompt: tuple[int, ...],
        banned: dict[str, float],
    ) -> None:
        self._loaded = load_model(RunConfig(model=model, threads=threads, parallel=parallel))
        self._prompt = prompt
        self._bias = tuple((int(token), bias) for token, bias in banned.items())

    def run(self, count: int, tokens: int) -> BareRun:
        """Answer so many requests together, with seeds from 0 on."""
        answers: dict[str, list[int]] = {f"r{seed}": [] for seed in range(count)}

        def take(event: Event) -> None:
            if isinstance(event, Tokens):
                answers[event.request_id] += event.token_ids

        loaded = self._loaded
        scheduler = Scheduler(loaded.model, loaded.limits, take, new_sampler=loaded.new_sampler)
        for seed, name in enumerate(answers):
            scheduler.submit(Start(name, self._prompt, tokens, (), self._sampling(seed)))
        with np.errstate(all="ignore"):  # as in the worker
            while scheduler.has_work and not all(answers.values()):
                scheduler.step()
            began_at, spent_at = time.perf_counter(), time.process_time()
            while scheduler.has_work:
                scheduler.step()
            decode_s, spent_s = time.perf_counter() - began_at, time.process_time() - spent_at
        return BareRun(decode_s, spent_s, tuple(map(tuple, answers.values())))

    def close(self) -> None:
        """Give the model back."""
        self._loaded.close()

    def _sampling(self, seed: int) -> SamplingParams:
        return SamplingParams(
            temperature=SAMPLING["temperature"],
            top_k=round(SAMPLING["top_k"]),
            top_p=SAMPLING["top_p"],
            presence_penalty=SAMPLING["presence_penalty"],
            logit_bias=self._bias,
            seed=seed,
        )
