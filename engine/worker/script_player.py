"""Plays a script as a worker: same messages, same rules for stops and caps, no model.

One thread, one clock: every running request is a generator that yields how long to wait before its
next message; the loop sleeps until the nearest one or until a command comes.
"""

from __future__ import annotations

import logging
import os
import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.errors import EngineError
from engine.core.gguf_header import read_model_header
from engine.decode.rules import AnswerRules
from engine.text.tokenizer import Tokenizer
from engine.worker.channel import Channel
from engine.worker.messages import (
    Cancel,
    Done,
    Failed,
    Force,
    Hold,
    Load,
    Message,
    Progress,
    PromptProgress,
    Quit,
    Ready,
    Start,
    StatusQuery,
    StatusReport,
    Timings,
    TokenLogprobs,
    Tokens,
)
from engine.worker.scripted import Answer, Fault, FaultKind, Script, load_script

logger = logging.getLogger(__name__)

DEFAULT_PARALLEL = 4
GARBAGE = b"Segmentation fault (not really): {\xff\xfe\n"
SCRIPTED_LOGPROB = -0.5  # of every token; scripts have no logits


def run_scripted_worker(channel: Channel, path: Path) -> int:
    """Serve the front with this script; the result is the exit status."""
    try:
        script = load_script(path)
        header = read_model_header(script.model_path)
        tokenizer = Tokenizer.from_metadata(header.metadata)
    except EngineError as error:
        channel.send(Failed(error.code, error.message, error.params))
        return error.exit_status
    return ScriptPlayer(channel, script, tokenizer).run()


@dataclass(slots=True)
class _Playing:
    """One request that is being answered."""

    start: Start
    answer: Answer
    rules: AnswerRules
    began_at: float
    first_token_at: float = 0.0
    due_at: float = 0.0
    steps: Iterator[float] = field(default_factory=lambda: iter(()))
    forced: deque[int] = field(default_factory=deque)
    is_held: bool = False


class ScriptPlayer:
    """The scripted worker's loop."""

    def __init__(
        self,
        channel: Channel,
        script: Script,
        tokenizer: Tokenizer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channel = channel
        self._script = script
        self._tokenizer = tokenizer
        self._clock = clock
        self._parallel = script.parallel or DEFAULT_PARALLEL
        self._num_uses = [0] * len(script.answers)
        self._waiting: deque[Start] = deque()
        self._playing: dict[str, _Playing] = {}
        self._forced_early: dict[str, deque[int]] = {}
        self._config: dict[str, object] = {}

    def run(self) -> int:
        """Play until told to quit; the result is the exit status."""
        while True:
            try:
                command = self._channel.commands.get(timeout=self._wait_s())
            except queue.Empty:
                command = None
            if command is not None:
                status = self._obey(command)
                if status is not None:
                    return status
            self._advance()

    def _wait_s(self) -> float | None:
        if self._waiting and len(self._playing) < self._parallel:
            return 0.0
        due = [playing.due_at for playing in self._playing.values() if not playing.is_held]
        return max(0.0, min(due) - self._clock()) if due else None

    def _obey(self, command: Message) -> int | None:
        match command:
            case Load(config):
                self._config = config
                return self._load()
            case Start():
                self._waiting.append(command)
            case Cancel(request_id):
                self._cancel(request_id)
            case Force(request_id, token_ids):
                self._force(request_id, token_ids)
            case Hold(request_id, is_held):
                if request_id in self._playing:
                    self._playing[request_id].is_held = is_held
            case StatusQuery():
                used = sum(
                    len(playing.start.prompt) + playing.rules.num_generated
                    for playing in self._playing.values()
                )
                running, waiting = len(self._playing), len(self._waiting)
                self._channel.send(StatusReport(running, waiting, used, 0))
            case Quit():
                return 0
            case _:
                logger.warning("a message of kind %s is not for the worker", command.kind)
        return None

    def _load(self) -> int | None:
        load = self._script.load
        total_bytes = load.steps * 1000
        for step in range(load.steps + 1):
            self._channel.send(Progress("weights", step * 1000, total_bytes))
            if step < load.steps:
                time.sleep(load.delay_ms / 1000 / load.steps)
        if load.is_crash:
            os._exit(70)
        if load.fail_code is not None:
            self._channel.send(Failed(load.fail_code, load.fail_message, {}))
            return 1
        self._channel.send(Ready(self._script.context, "scripted", "fp_scripted"))
        return None

    def _force(self, request_id: str, token_ids: Sequence[int]) -> None:
        if request_id in self._playing:
            self._playing[request_id].forced.extend(token_ids)
        elif any(start.request_id == request_id for start in self._waiting):
            self._forced_early.setdefault(request_id, deque()).extend(token_ids)

    def _cancel(self, request_id: str) -> None:
        self._forced_early.pop(request_id, None)
        for start in list(self._waiting):
            if start.request_id == request_id:
                self._waiting.remove(start)
                self._channel.send(Done(request_id, "cancelled", Timings()))
        if request_id in self._playing:
            self._end(self._playing[request_id], "cancelled")

    def _advance(self) -> None:
        while self._waiting and len(self._playing) < self._parallel:
            self._begin(self._waiting.popleft())
        now = self._clock()
        for playing in list(self._playing.values()):
            if playing.is_held or playing.due_at > now:
                continue
            try:
                playing.due_at = self._clock() + next(playing.steps)
            except StopIteration:
                self._playing.pop(playing.start.request_id, None)

    def _begin(self, start: Start) -> None:
        answer = self._choose_answer(start)
        if answer is None:
            sentence = "The script has no answer left for this request."
            self._channel.send(Done(start.request_id, "error", Timings(), sentence))
            return
        rules = AnswerRules(start, self._script.context, self._tokenizer.token_bytes)
        playing = _Playing(start, answer, rules, self._clock())
        playing.forced = self._forced_early.pop(start.request_id, deque())
        playing.steps = self._steps(playing)
        self._playing[start.request_id] = playing

    def _choose_answer(self, start: Start) -> Answer | None:
        prompt = ""
        for i, answer in enumerate(self._script.answers):
            if answer.times and self._num_uses[i] >= answer.times:
                continue
            settings = {**self._config, **dict(start.tuning)}
            if any(settings.get(key) != value for key, value in answer.settings.items()):
                continue
            if answer.when is not None:
                prompt = prompt or self._tokenizer.decode(start.prompt)
                if answer.when not in prompt:
                    continue
            self._num_uses[i] += 1
            return answer
        return None

    def _steps(self, playing: _Playing) -> Iterator[float]:
        """Send an answer piece by piece; yields the seconds to wait in between."""
        start, answer = playing.start, playing.answer
        num_prompt, fault = len(start.prompt), answer.fault
        cached = min(answer.cached_tokens, num_prompt)
        if answer.prompt_delay_ms:  # what the cache had is known before the rest is read
            self._channel.send(PromptProgress(start.request_id, cached, num_prompt, cached))
        for step in range(1, answer.prompt_steps + 1):
            yield answer.prompt_delay_ms / 1000 / answer.prompt_steps
            read = cached + (num_prompt - cached) * step // answer.prompt_steps
            self._channel.send(PromptProgress(start.request_id, read, num_prompt, cached))
        playing.first_token_at = self._clock()
        scripted = deque(self._token_ids(answer))
        if answer.finish == "stop" and start.stop_ids:
            scripted.append(start.stop_ids[0])
        group: list[int] = []
        was_forced = False
        while scripted or playing.forced:
            if fault is not None and playing.rules.num_generated >= fault.after:
                self._flush(playing, group)
                yield from self._fail(playing, fault)
                return
            if not group:
                yield answer.delay_ms / 1000
            is_forced = bool(playing.forced)
            token_id = playing.forced.popleft() if is_forced else scripted.popleft()
            outcome = playing.rules.accept(token_id, is_forced=is_forced)
            if outcome.is_kept:
                group.append(token_id)
            if outcome.reason is not None:
                self._flush(playing, group)
                self._end(playing, outcome.reason)
                return
            playing.forced.extendleft(reversed(outcome.append))
            playing.rules.drop_late(playing.forced)
            if is_forced and not was_forced and answer.after_force is not None:
                scripted = deque(self._tokenizer.encode(answer.after_force, parse_special=True))
                scripted.extend(start.stop_ids[:1])
                was_forced = True
            if len(group) >= answer.group:
                self._flush(playing, group)
        self._flush(playing, group)
        if fault is not None:
            yield from self._fail(playing, fault)
            return
        self._end(playing, answer.finish)

    def _token_ids(self, answer: Answer) -> Sequence[int]:
        if answer.token_ids is not None:
            return answer.token_ids
        pieces = answer.pieces if answer.pieces is not None else (answer.text or "",)
        return [
            token_id
            for piece in pieces
            for token_id in self._tokenizer.encode(piece, parse_special=True)
        ]

    def _flush(self, playing: _Playing, group: list[int]) -> None:
        if not group:
            return
        logprobs: tuple[TokenLogprobs, ...] = ()
        num_top = playing.start.sampling.top_logprobs
        if num_top >= 0:
            logprobs = tuple(
                TokenLogprobs(
                    token_id,
                    SCRIPTED_LOGPROB,
                    tuple(
                        ((token_id + i) % self._tokenizer.vocab_size, SCRIPTED_LOGPROB - i)
                        for i in range(num_top)
                    ),
                )
                for token_id in group
            )
        self._channel.send(Tokens(playing.start.request_id, tuple(group), logprobs))
        group.clear()

    def _fail(self, playing: _Playing, fault: Fault) -> Iterator[float]:
        match fault.kind:
            case FaultKind.CRASH:
                os._exit(fault.exit_status)
            case FaultKind.HANG:
                while True:
                    time.sleep(3600)
            case FaultKind.GARBAGE:
                self._channel.send_raw(GARBAGE)
                yield 0.0
            case FaultKind.ERROR:
                self._end(playing, "error", fault.message)

    def _end(self, playing: _Playing, reason: str, message: str = "") -> None:
        now = self._clock()
        first_at = playing.first_token_at or now
        timings = Timings(
            prompt_tokens=len(playing.start.prompt),
            cached_tokens=min(playing.answer.cached_tokens, len(playing.start.prompt)),
            prompt_ms=(first_at - playing.began_at) * 1000,
            generated_tokens=playing.rules.num_generated,
            generated_ms=(
                (now - first_at) * 1000
                if playing.answer.generated_ms is None
                else playing.answer.generated_ms
            ),
        )
        self._channel.send(Done(playing.start.request_id, reason, timings, message))
        self._playing.pop(playing.start.request_id, None)
