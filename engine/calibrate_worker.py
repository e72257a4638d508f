"""Calibration's measurements: answers to fixed prompts from a worker of its own.

The worker is the one that the server uses, so what is measured is what will run. A model is loaded
once for each set of load settings in a row; settings of a request go with the request.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.calibrate import (
    LONGEST_ROUND_S,
    MIN_TOKENS,
    SHORTEST_ROUND_S,
    Trial,
)
from engine.core.calibration import SettingValue
from engine.core.config import RunConfig
from engine.core.errors import EngineError
from engine.core.gguf_header import read_model_header
from engine.text.prompt import ChatFormat
from engine.text.template import TemplateOptions, ThinkingLevel
from engine.worker.answer_limits import ordered_stop_ids
from engine.worker.client import WorkerClient
from engine.worker.messages import Load, Progress, SamplingParams, Start

# Code, an explanation and a list: kinds of text whose tokens take different experts.
PROMPTS = (
    "Write a Python function that merges two sorted lists, with a docstring and a short test.",
    "Explain how a refrigerator moves heat from its inside to the room.",
    "List twenty everyday objects, each with its colour and what it is used for.",
)

WARM_UP_TOKENS = 16
NEVER = -1e4  # a bias that no logit makes up for
LEAST_RATED_TOKENS = 8  # an answer of fewer tells nothing

LoadCallback = Callable[[Mapping[str, SettingValue], Progress], None]


class WorkerSpeedometer:
    """Measures with one worker process at a time."""

    def __init__(
        self,
        config: RunConfig,
        prompts: Sequence[Sequence[int]],
        stop_ids: Sequence[int],
        *,
        command: Sequence[str] | None = None,
        on_load: LoadCallback | None = None,
    ) -> None:
        self._config = config
        self._prompts = [tuple(prompt) for prompt in prompts]
        # An answer goes on where it would end: each round has the same number of tokens.
        self._sampling = SamplingParams(
            temperature=0, logit_bias=tuple((token_id, NEVER) for token_id in stop_ids)
        )
        self._command = command
        self._on_load = on_load
        self._client: WorkerClient | None = None
        self._loaded: dict[str, SettingValue] | None = None
        self._tokens_per_s = 0.0
        self._numbers = itertools.count()

    async def measure(self, trial: Trial, max_tokens: int) -> Sequence[float]:
        """Tokens per second of each answer: every prompt once, again while the round is short.

        Raises:
            EngineError: the worker cannot load the model, or dies.
        """
        client = await self._client_with(trial)
        if self._tokens_per_s:
            fitting = int(self._tokens_per_s * LONGEST_ROUND_S / len(self._prompts))
            max_tokens = min(max_tokens, max(MIN_TOKENS, fitting))
        rates: list[float] = []
        began_at = time.monotonic()
        while not rates or time.monotonic() - began_at < SHORTEST_ROUND_S:
            rates += [
                await self._rate(client, trial, prompt, max_tokens) for prompt in self._prompts
            ]
        return rates

    async def close(self) -> None:
        """End the worker; when this returns it is gone."""
        client, self._client, self._loaded = self._client, None, None
        if client is not None:
            await client.stop()

    async def _client_with(self, trial: Trial) -> WorkerClient:
        loaded = dict(trial.loaded)
        if self._client is not None and self._client.is_ready and loaded == self._loaded:
            return self._client
        await self.close()
        client = self._client = WorkerClient(self._command)
        config = self._config.model_copy(update=loaded)
        await client.start(Load(config.model_dump(mode="json")), self._note_progress(loaded))
        self._loaded = loaded
        rate = await self._rate(client, trial, self._prompts[0], WARM_UP_TOKENS)
        if not self._tokens_per_s:  # the very first answers read what is not in memory yet
            rate = await self._rate(client, trial, self._prompts[0], WARM_UP_TOKENS)
        self._tokens_per_s = rate
        return client

    def _note_progress(self, loaded: Mapping[str, SettingValue]) -> Callable[[Progress], None]:
        def note(progress: Progress) -> None:
            if self._on_load is not None:
                self._on_load(loaded, progress)

        return note

    async def _rate(
        self, client: WorkerClient, trial: Trial, prompt: tuple[int, ...], max_tokens: int
    ) -> float:
        handle = client.submit(
            Start(
                f"calibrate-{next(self._numbers)}",
                prompt=prompt,
                max_tokens=max_tokens,
                stop_ids=(),
                sampling=self._sampling,
                tuning=tuple((key, float(value)) for key, value in trial.tuned.items()),
            )
        )
        async for _ in handle:
            pass
        done = handle.done
        if done is None or done.reason == "error":
            raise EngineError(done.message if done is not None else "The worker said nothing.")
        timings = done.timings
        if timings.generated_tokens <= LEAST_RATED_TOKENS or timings.generated_ms <= 0:
            raise EngineError(
                f"The model's answers are too short to be measured ({timings.generated_tokens} "
                "tokens). Choose a larger context.",
                code="answers_too_short",
            )
        # The first token comes with the prompt.
        return (timings.generated_tokens - 1) / timings.generated_ms * 1000


def measured_prompts(model: Path) -> tuple[list[list[int]], tuple[int, ...]]:
    """The token ids of the fixed prompts, without thinking, and the ids that would end an answer.

    Raises:
        ModelFileError: the file is no chat model that we can read.
    """
    header = read_model_header(model)
    chat = ChatFormat.from_metadata(header.metadata, header.paths[0].name)
    options = TemplateOptions(ThinkingLevel.NONE)
    prompts = [
        chat.prompt([{"role": "user", "content": text}], None, options).token_ids
        for text in PROMPTS
    ]
    return prompts, ordered_stop_ids(chat.tokenizer)
