"""One answer of a request: the worker's messages become steps.

Starts the worker's part, reads its tokens as text, thinking and calls (`engine.text`), and ends the
worker's part whenever nobody wants more. Knows no queue and no protocol.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace

from engine.core.disk_reads import widest
from engine.core.errors import EngineError
from engine.server.active import ActiveRequest, Phase, unless_ended
from engine.server.answer_memory import WrittenAnswer
from engine.server.context import output_room
from engine.server.errors import ApiError, load_error
from engine.server.front import Front, new_id
from engine.server.logprobs import LogprobAligner
from engine.server.steps import Began, ChoiceEnd, Delta, GenerationPlan, PromptRead, Step
from engine.text.answer import AnswerStream
from engine.text.events import ContentDelta, Event, FinishReason
from engine.text.parser import Phase as AnswerPhase
from engine.text.turns import prompt_borders
from engine.worker.answer_limits import (
    close_ids,
    ordered_stop_ids,
    thinking_end_ids,
    with_call_rules,
    with_thinking_rules,
)
from engine.worker.death import WorkerDied
from engine.worker.handle import RequestHandle, RequestMessage
from engine.worker.messages import (
    Done,
    PromptProgress,
    Ready,
    Start,
    Timings,
    TokenLogprobs,
    Tokens,
)

logger = logging.getLogger(__name__)

REASONS = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "context": FinishReason.LENGTH,
    "repeat": FinishReason.LENGTH,
    "cancelled": FinishReason.CANCELLED,
}


class Choice:
    """One answer of a request."""

    def __init__(
        self, front: Front, active: ActiveRequest, plan: GenerationPlan, index: int
    ) -> None:
        tokenizer = front.model.tokenizer
        self._front = front
        self._active = active
        self._plan = plan
        self._index = index
        self._answer = AnswerStream(
            tokenizer,
            plan.tools.specs,
            starts_in_thinking=plan.starts_in_thinking,
            stops=plan.stops,
            new_call_id=lambda: new_id("call_"),
            is_raw=plan.is_raw,
            ends_with_call=not plan.tools.parallel,
        )
        self._aligner = LogprobAligner(tokenizer) if plan.sampling.top_logprobs >= 0 else None
        self._borders = prompt_borders(plan.prompt, tokenizer)
        self._ids: list[int] = []  # as generated
        self._generated = 0
        self._is_over = False  # a stop string, or the one call that is wanted, ended it
        self._first_part: Timings | None = None  # of an answer that goes on behind its thinking
        self._is_finished = False  # nothing more is to be read out of it
        self._started_s = time.monotonic()

    async def steps(self) -> AsyncGenerator[Step, None]:
        """From the start at the worker to the end of this choice."""
        handle = await self._begin(self._start)
        if handle is None:  # cancelled by its owner before it began
            yield Began(self._index, "")
            yield self._end(FinishReason.CANCELLED, Timings())
            return
        self._active.note_begin()
        ready = self._front.worker.ready
        yield Began(self._index, ready.fingerprint if ready is not None else "")
        done: Done | None = None
        while handle is not None:
            done = None
            self._listen(handle)
            try:
                async for message in handle:
                    if isinstance(message, Done):
                        done = message
                    for step in self._take(message):
                        yield step
                    if self._is_over:
                        handle.cancel()
            finally:
                self._active.on_end = None
                self._active.on_answer_now = None
                handle.cancel()
                if done is None:  # the client went away with what it has
                    self._remember()
            handle = None
            if done is not None and self._ended_in_thinking(done):
                # It may end with a call that was meant. Where it does not, the answer goes on, once.
                for step in self._deltas(self._answer.finish(FinishReason.STOP).events):
                    yield step
                handle, done = await self._go_on(done)
        for step in await self._finish(done):
            yield step

    def _listen(self, handle: RequestHandle) -> None:
        """Be told while the worker answers that the owner wants something else."""
        self._active.on_end = lambda: self._end_from_outside(handle)
        self._active.on_answer_now = lambda: self._answer_now(handle)
        if self._active.is_thinking_unwanted:
            self._answer_now(handle)

    def _take(self, message: RequestMessage) -> Iterator[Step]:
        """The steps of one message of the worker's."""
        if isinstance(message, Tokens):
            yield from self._read(message)
        elif isinstance(message, PromptProgress) and self._first_part is None:
            yield self._note_progress(message)

    def _ended_in_thinking(self, done: Done) -> bool:
        """Whether the turn ended in mid-thought where the thinking may hold a call that was meant."""
        return (
            done.reason == "stop"
            and self._may_strand_calls
            and self._first_part is None
            and not self._is_over
            and self._answer.phase is AnswerPhase.THINKING
        )

    @property
    def _may_strand_calls(self) -> bool:
        """Whether calls can be found inside the thinking (spec/tools_format.md, M1)."""
        return self._plan.starts_in_thinking and bool(self._plan.tools.specs)

    async def _go_on(self, done: Done) -> tuple[RequestHandle | None, Done]:
        """The worker's second part, if there is one, and how the answer has ended otherwise."""
        self._is_finished = not self._close_thinking(done)
        if self._is_finished:
            return None, done
        handle = await self._begin(self._start_behind_thinking)
        if handle is None:
            done = Done(done.request_id, "cancelled", Timings())
        return handle, done

    def _close_thinking(self, done: Done) -> bool:
        """Write the end of thinking that the model has left out (M19); False where that is not due."""
        close = close_ids(self._front.model.tokenizer)
        room = min(self._plan.max_tokens, self._front.context - len(self._plan.prompt))
        if not self._answer.outcome.needs_retry or self._generated + len(close) >= room:
            return False
        self._first_part = done.timings
        del self._ids[self._generated :]  # the turn's end
        for _ in self._read_together(close):
            pass  # nothing of it is shown
        return True

    def _end_from_outside(self, handle: RequestHandle) -> None:
        handle.cancel()
        if self._active.abort_error is not None:  # not waited for: the worker may hang
            handle.put(Done(handle.request_id, "cancelled", Timings()))

    def _answer_now(self, handle: RequestHandle) -> None:
        if self._answer.phase is AnswerPhase.THINKING:  # the worker drops it if that just ended
            end_ids = thinking_end_ids(self._front.model.tokenizer)
            self._front.worker.force(handle.request_id, end_ids)

    async def _begin(self, make_start: Callable[[Ready], Start]) -> RequestHandle | None:
        """Wait for the model and start there; None when the owner cancelled meanwhile."""
        worker = self._front.worker
        while True:
            try:
                ready = await unless_ended(self._active, worker.load())
                if ready is None:
                    return None
                return worker.submit(make_start(ready))
            except WorkerDied as error:
                # It died this very moment, and the supervisor is about to start the next one.
                if self._front.is_stopping:
                    raise ApiError(503, "shutting_down", "The server is stopping.") from error
                await asyncio.sleep(0.05)
            except EngineError as error:
                raise load_error(error) from error

    def _start(self, ready: Ready) -> Start:
        plan, tokenizer = self._plan, self._front.model.tokenizer
        room = output_room(len(plan.prompt), None, ready.context, fit=True).max_tokens
        sampling = replace(
            plan.sampling, seed=(plan.sampling.seed + self._index) & 0x7FFF_FFFF_FFFF_FFFF
        )
        start = Start(
            request_id=f"{self._active.request_id}-{self._index}",
            prompt=plan.prompt,
            max_tokens=min(plan.max_tokens, room),
            stop_ids=ordered_stop_ids(tokenizer),
            sampling=sampling,
            repeat_stop_tokens=self._front.config.repeat_stop_tokens,
            shared_prefix=self._borders.system_stop,
            turn_start=self._borders.turn_start,
            constraint=plan.constraint,
        )
        if plan.tools.specs or plan.constraint is not None:
            start = with_call_rules(start, tokenizer)
        if plan.starts_in_thinking:
            start = with_thinking_rules(
                start, tokenizer, plan.budget, is_rescued=not self._may_strand_calls
            )
        return start

    def _start_behind_thinking(self, ready: Ready) -> Start:
        """What is left of the answer, whose thinking was closed by us; the worker knows all before it."""
        start = self._start(ready)
        return replace(
            start,
            request_id=f"{start.request_id}-again",
            prompt=(*start.prompt, *self._ids),
            max_tokens=start.max_tokens - self._generated,
            think_close_id=-1,
            think_budget=0,
            budget_ids=(),
        )

    def _note_progress(self, message: PromptProgress) -> PromptRead:
        self._active.prompt_read = message.read
        self._active.cached_tokens = message.cached
        elapsed_ms = round((time.monotonic() - self._started_s) * 1000)
        return PromptRead(self._index, message.read, message.total, message.cached, elapsed_ms)

    def _read(self, message: Tokens) -> Iterator[Step]:
        """The steps of new tokens; those after the end of the answer are dropped."""
        if self._aligner is None:
            yield from self._read_together(message.token_ids)
            return
        logprobs: tuple[TokenLogprobs | None, ...] = message.logprobs
        if len(logprobs) != len(message.token_ids):
            logprobs = (None,) * len(message.token_ids)
        for token_id, logprob in zip(message.token_ids, logprobs, strict=True):
            if self._is_over:
                return
            was_answering = self._answer.phase is AnswerPhase.ANSWERING
            self._ids.append(token_id)
            update = self._answer.push((token_id,))
            self._generated += update.num_tokens
            self._active.note_tokens(update.num_tokens)
            self._active.phase = Phase(self._answer.phase.value)
            is_content = was_answering and self._answer.phase is AnswerPhase.ANSWERING
            if self._aligner is not None and logprob is not None and is_content:
                self._aligner.push(logprob)
            self._is_over = update.is_over
            yield from self._deltas(update.events)

    def _read_together(self, token_ids: tuple[int, ...]) -> Iterator[Step]:
        """The same where no token's log probability is wanted: the tokens' text is one step."""
        if self._is_over:
            return
        update = self._answer.push(token_ids)
        self._ids += token_ids[: update.num_tokens + update.is_turn_end]
        self._generated += update.num_tokens
        self._active.note_tokens(update.num_tokens)
        self._active.phase = Phase(self._answer.phase.value)
        self._is_over = update.is_over
        yield from self._deltas(update.events)

    def _deltas(self, events: tuple[Event, ...]) -> Iterator[Delta]:
        for event in events:
            entries: tuple[dict[str, object], ...] = ()
            if self._aligner is not None and isinstance(event, ContentDelta):
                entries = tuple(self._aligner.take(event.text))
            yield Delta(self._index, event, entries)

    async def _finish(self, done: Done | None) -> list[Step]:
        if self._active.abort_error is not None:
            raise self._active.abort_error
        is_complete = self._answer.is_complete
        if done is None or (done.reason == "error" and not is_complete):
            raise await self._worker_error(done)
        if done.reason == "repeat":
            logger.warning(
                "%s: the answer went round in circles and was ended", self._active.request_id
            )
        reason = FinishReason.STOP if is_complete else REASONS.get(done.reason, FinishReason.STOP)
        timings = self._timings(done)
        self._active.cached_tokens = timings.cached_tokens
        steps: list[Step] = []
        if not (self._is_over or self._is_finished):
            steps += self._deltas(self._answer.finish(reason).events)
        self._remember()
        if self._aligner is not None:
            cut = tuple(self._aligner.finish())
            if cut:
                steps.append(Delta(self._index, ContentDelta(""), cut))
        return [*steps, self._end(reason, timings)]

    def _timings(self, done: Done) -> Timings:
        """Of the whole answer, whose second part had a prompt that was no prompt of the client's."""
        first, last = self._first_part, done.timings
        if first is None:
            return last
        return replace(
            first,
            generated_tokens=self._generated,
            generated_ms=first.generated_ms + last.prompt_ms + last.generated_ms,
            draft_tokens=first.draft_tokens + last.draft_tokens,
            draft_accepted=first.draft_accepted + last.draft_accepted,
            drafters=(*first.drafters, *last.drafters),
            disk_answer=widest(first.disk_answer, last.disk_prompt, last.disk_answer),
        )

    def _remember(self) -> None:
        """Keep the answer's exact ids for the prompt in which it comes back as text."""
        if self._plan.is_raw:
            return
        calls = tuple((call.name, call.arguments) for call in self._answer.calls)
        self._front.answers.note(
            self._plan.prompt,
            self._borders.turn_start,
            self._ids,
            WrittenAnswer(
                self._plan.answer_start + self._answer.content, self._answer.reasoning, calls
            ),
        )

    async def _worker_error(self, done: Done | None) -> ApiError:
        """503 when the worker died (another one is being started), else 500."""
        await asyncio.sleep(0)  # the supervisor learns of the death in the same moment
        message = done.message if done is not None else "The model process ended."
        if self._front.worker.ready is None or done is None:
            return ApiError(503, "engine_failed", message)
        return ApiError(500, "engine_failed", message, headers={"x-should-retry": "false"})

    def _end(self, reason: FinishReason, timings: Timings) -> ChoiceEnd:
        finish = self._answer.finish_reason(reason)
        name = "stop" if finish is FinishReason.CANCELLED else finish.value
        self._active.finish = "cancelled" if finish is FinishReason.CANCELLED else name
        self._active.timings = timings
        metrics, outcome = self._front.metrics, self._answer.outcome
        metrics.count_timings(timings)
        metrics.tool_call_broken.add(outcome.tool_call_broken)
        metrics.tool_call_stranded.add(outcome.tool_call_stranded)
        return ChoiceEnd(
            self._index,
            name,
            self._generated,
            self._answer.num_reasoning_tokens,
            timings,
            stopped=self._answer.stopped,
            is_cancelled=finish is FinishReason.CANCELLED,
        )
