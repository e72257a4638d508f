"""Making one answer: waiting for the engine, asking it, taking in what comes, and how it ends.

    run = AnswerRun(engine, store, message, job)
    run.begin()
    while not run.is_over:
        news = run.tick()       # 30 times a second, on the main thread; blocks nowhere

What has arrived is in the store within a second. An engine that is not there yet is waited for; one that
fails before it said anything is asked again; one that fails later leaves an unfinished answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from app.chat.activity import Activity, ModelFacts, Phase, Wait
from app.chat.engine_side import EngineSide
from app.chat.growing import GrowingAnswer
from app.chat.statistics import added, sampling_used, stats_of
from app.chat.status_watch import StatusWatch
from app.chat.stream import (
    Admitted,
    AnswerReading,
    Began,
    CallGrown,
    Counted,
    Ended,
    Event,
    Finished,
    Grown,
    JsonObject,
    PromptProgress,
    RateWindow,
    Sampled,
    ToolNews,
    Usage,
)
from app.history.records import (
    ConversationSettings,
    Message,
    MessageState,
    MessageStats,
    Problem,
    Sampling,
)
from app.history.store import HistoryStore
from engine.core.errors import EngineError

MakeBody = Callable[[ModelFacts, bool], JsonObject]

# Handed to the store so often; it writes within half a second more.
SAVE_EVERY_S = 0.3
# After this the stream of a cancelled answer is not waited for any more.
STOP_PATIENCE_S = 5.0
# A model that is silent for so long may be writing a call, which the stream does not show.
SILENCE_S = 1.0
# Fewer tokens than this are left: the context was the reason for the end.
CONTEXT_MARGIN = 16


@dataclass(frozen=True, slots=True)
class Retry:
    """What to do about an error that came before anything of the answer.

    Attributes:
        delay_s: until the next try.
        most: tries, after which it is told to the person.
        wait: what is shown meanwhile.
    """

    delay_s: float
    most: int
    wait: Wait


RETRIES = {
    "engine_not_running": Retry(0.5, 10**9, Wait.STOPPED),
    "engine_unreachable": Retry(1.0, 60, Wait.RESTARTING),
    "engine_timeout": Retry(1.0, 3, Wait.RESTARTING),
    "engine_cut_off": Retry(1.0, 3, Wait.RESTARTING),
    "engine_failed": Retry(1.0, 2, Wait.RESTARTING),
    "not_an_engine": Retry(2.0, 2, Wait.STARTING),
    "shutting_down": Retry(1.0, 120, Wait.RESTARTING),
    "model_loading": Retry(1.0, 3600, Wait.LOADING),
    "queue_full": Retry(2.0, 300, Wait.BUSY),
    "queue_timeout": Retry(2.0, 300, Wait.BUSY),
}


@dataclass(frozen=True, slots=True)
class News:
    """What has changed since the last tick.

    Attributes:
        text, thinking: new parts.
        is_message_changed: anything else of the message.
        ended: the message as it stays, when the answer is over.
    """

    text: str = ""
    thinking: str = ""
    is_message_changed: bool = False
    ended: Message | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What to ask for.

    Attributes:
        make_body: makes the request, in a thread, from the model's facts; with True as its second
            argument the request goes on with the answer.
        settings: that hold for it.
        continues: go on with the message's text.
    """

    make_body: MakeBody
    settings: ConversationSettings
    continues: bool = False


class AnswerRun:
    """See above. Used on one thread only."""

    def __init__(
        self,
        engine: EngineSide,
        store: HistoryStore,
        message: Message,
        job: Job,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_over = False
        self.answer = GrowingAnswer(message, clock)
        self._engine, self._store, self._job, self._clock = engine, store, job, clock
        self._continues = job.continues
        self._stats_before = message.stats if job.continues else None
        self._began_s = clock()
        self._reading: AnswerReading | None = None
        self._facts = engine.facts
        self._tries: dict[str, int] = {}
        self._retry_at: float | None = None
        self._last_error: EngineError | None = None
        self._wait = Wait.NOTHING
        self._phase = Phase.WAITING_FOR_ENGINE
        self._stop_at: float | None = None
        self._wants_answer = False
        self._has_news = False  # of this try
        self._finish = ""
        self._notes: tuple[str, ...] = ()
        self._progress = PromptProgress(0, 0, 0)
        self._num_tokens = 0
        self._sampling = Sampling()
        self._tokens_before_round = 0
        self._usage: Usage | None = None
        self._stats: MessageStats | None = None
        self._has_second_try = False
        self._text_rate, self._prompt_rate = RateWindow(), RateWindow()
        self._unsaved: tuple[list[str], list[str]] = ([], [])
        self._saved_s = clock()
        self._heard_s = clock()
        self._watch = StatusWatch(engine.http)

    # -- asking ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Ask, as soon as the engine can be asked."""
        if self._engine.link.can_answer:
            self._ask()
        else:
            self._wait_for_engine()

    def _ask(self) -> None:
        self._retry_at = None
        self._has_news = False
        self._finish = ""
        self._phase, self._wait = Phase.QUEUED, Wait.NOTHING
        continues = self._continues

        def make_body() -> JsonObject:
            # Asked for each time: another model may have been loaded since.
            facts = self._engine.read_facts()
            self._facts = facts
            return self._job.make_body(facts, continues)

        self._reading = AnswerReading(self._engine.http, make_body)
        if self._wants_answer:
            self._reading.answer_now()
        self._reading.start()

    def _wait_for_engine(self, delay_s: float | None = None, wait: Wait = Wait.NOTHING) -> None:
        self._reading = None
        self._phase = Phase.WAITING_FOR_ENGINE
        link = self._engine.link
        self._wait = link.wait if link.wait is not Wait.NOTHING else wait
        self._retry_at = self._clock() + delay_s if delay_s is not None else None

    def _look_again(self) -> Message | None:
        """While waiting: ask when the engine can be asked, give up when it never will."""
        link = self._engine.link
        if link.problem is not None and not link.can_answer:
            return self._end(MessageState.UNFINISHED, link.problem)
        if link.wait is not Wait.NOTHING:
            self._wait = link.wait
        is_due = self._retry_at is None or self._clock() >= self._retry_at
        if link.can_answer and is_due:
            self._ask()
        return None

    # -- the person's wishes ---------------------------------------------------------------------

    def stop(self) -> None:
        """End it and keep what there is; the end comes with a later `tick`."""
        if self._stop_at is None:
            self._stop_at = self._clock()
            self._phase = Phase.STOPPING
            if self._reading is not None:
                self._reading.cancel()

    def end_at_once(self) -> Message:
        """End it without waiting for the engine, for the app's end; the message as it stays."""
        ended = self.tick().ended
        if self._reading is not None:
            self._reading.cancel()
        return ended if ended is not None else self._end(MessageState.STOPPED)

    def answer_now(self) -> None:
        """End the thinking."""
        self._wants_answer = True
        if self._reading is not None:
            self._reading.answer_now()

    def consent(self, call_id: str, *, allow: bool, always: bool) -> bool:
        """Answer the question about a call; False when this call is not asked for."""
        if self._reading is None or not self.answer.answer_call(call_id, allow=allow):
            return False
        self._reading.consent(call_id, allow=allow, always=always)
        self._phase = Phase.RUNNING_TOOL
        self._store.put_message(self.answer.without_growth())
        return True

    # -- taking in -------------------------------------------------------------------------------

    def tick(self) -> News:
        """Take in what has come since the last time."""
        if self.is_over:
            return News()
        texts: tuple[list[str], list[str]] = ([], [])
        is_changed, ended = False, None
        for event in self._reading.take() if self._reading is not None else ():
            self._heard_s = self._clock()
            if isinstance(event, Grown):
                self._grow(event, texts)
            elif isinstance(event, Ended):
                ended = self._after(event.error)
            else:
                is_changed = self._take_in(event) or is_changed
        if ended is None and self._reading is None and self._stop_at is None:
            ended = self._look_again()
        if ended is None and self._stop_at is not None:
            is_late = self._clock() - self._stop_at > STOP_PATIENCE_S
            if self._reading is None or is_late:
                ended = self._end(MessageState.STOPPED)
        if ended is None:
            self._save_now_and_then()
            self._look_at_silence()
        text, thinking = "".join(texts[0]), "".join(texts[1])
        return News(text, thinking, is_changed or ended is not None, ended)

    def _grow(self, event: Grown, texts: tuple[list[str], list[str]]) -> None:
        part = "".join(event.pieces)
        self.answer.grow(part, is_thinking=event.is_thinking)
        texts[event.is_thinking].append(part)
        self._unsaved[event.is_thinking].append(part)
        self._has_news = True
        self._watch.reset()
        self._set_phase(Phase.THINKING if event.is_thinking else Phase.ANSWERING)

    def _take_in(self, event: Event) -> bool:
        """Everything but text and the end; whether the message has changed by it."""
        match event:
            case Admitted():
                self._set_phase(Phase.QUEUED)
            case Began():
                self._set_phase(Phase.READING)
            case PromptProgress():
                self._note_progress(event)
            case Counted(num_tokens):
                self._num_tokens = num_tokens
                self._text_rate.add(self._clock(), num_tokens)
            case ToolNews(phase):
                self._take_news(event, phase)
                return True
            case CallGrown():
                self.answer.take_call(event)
                self._has_news = True
                self._set_phase(Phase.WRITING_CALL)
                return True
            case Sampled(values):
                self._sampling = sampling_used(values)
            case Finished(reason):
                self._finish = reason
            case Usage():
                self._usage = event
        return False

    def _note_progress(self, event: PromptProgress) -> None:
        if event.total != self._progress.total:
            self._tokens_before_round = self._num_tokens
            self._prompt_rate = RateWindow()
            # Zero is where the remembered part ends.
            self._prompt_rate.add(self._clock(), event.cached)
        self._progress = event
        self._prompt_rate.add(self._clock(), event.read)
        self._set_phase(Phase.READING)

    def _take_news(self, event: ToolNews, phase: str) -> None:
        self._has_news = self._has_news or phase != "start"
        if phase == "limit":
            self._notes = (*self._notes, "tool_limit")
            return
        self._watch.reset()
        self.answer.take_news(event)
        if phase == "ask":
            self._set_phase(Phase.ASKING)
        elif phase in ("call", "result"):
            self._set_phase(Phase.RUNNING_TOOL)
        self._hand_over()
        self._store.put_message(self.answer.without_growth())

    def _set_phase(self, phase: Phase) -> None:
        if self._phase is not Phase.STOPPING:
            self._phase = phase

    # -- the end ---------------------------------------------------------------------------------

    def _after(self, error: EngineError | None) -> Message | None:
        """What follows the end of a stream: the end of the answer, or another try."""
        if self._usage is not None:
            self._stats = added(self._stats, self._stats_now(self._usage))
            self._usage = None
        if self._stop_at is not None:
            return self._end(MessageState.STOPPED)
        if error is not None:
            return self._after_error(error)
        needs_answer = not self.answer.has_text and not self.answer.has_calls
        if needs_answer and self.answer.has_thinking:
            if self._finish == "stop" and not self._has_second_try:
                # It ended in the middle of its thinking; without thinking it will answer.
                self._has_second_try = True
                self._continues = True
                self._ask()
                return None
            self._notes = (*self._notes, "ended_in_thinking")
        if self._finish == "length":
            self._note_why_cut()
            return self._end(MessageState.CUT)
        return self._end(MessageState.COMPLETE)

    def _after_error(self, error: EngineError) -> Message | None:
        retry = RETRIES.get(error.code)
        if retry is not None and not self._has_news:
            self._tries[error.code] = self._tries.get(error.code, 0) + 1
            if self._tries[error.code] <= retry.most:
                self._wait_for_engine(retry.delay_s, retry.wait)
                return None
        problem = Problem(error.code, error.message, dict(error.params))
        return self._end(MessageState.UNFINISHED, problem)

    def _end(self, state: MessageState, problem: Problem | None = None) -> Message:
        self.is_over = True
        self._unsaved = ([], [])  # part of the whole message
        self._phase = Phase.IDLE
        stats = added(self._stats_before, self._stats or self._stats_so_far())
        message = self.answer.ended(state, stats, problem, self._notes)
        self._store.put_message(message)
        return message

    def _stats_now(self, usage: Usage) -> MessageStats:
        in_round = self._num_tokens - self._tokens_before_round
        used = self._progress.total + max(in_round, 0) if self._progress.total else 0
        return stats_of(usage, self._facts, self._job.settings, used, self._sampling)

    def _note_why_cut(self) -> None:
        """The engine says only that it is cut; without a cap and with room left it went in circles."""
        cap = self._job.settings.max_tokens
        generated = self._stats.generated_tokens if self._stats is not None else 0
        if self._is_context_full():
            self._notes = (*self._notes, "out_of_context")
        elif self._stats is not None and (cap is None or generated < cap):
            self._notes = (*self._notes, "repeat")

    def _stats_so_far(self) -> MessageStats | None:
        """For an answer whose end brought no counts."""
        if not (self._num_tokens or self._progress.total):
            return None
        return MessageStats(
            prompt_tokens=self._progress.total,
            cached_tokens=self._progress.cached,
            generated_tokens=self._num_tokens,
            generated_per_s=self._text_rate.per_s(self._clock()),
            context_used=self._progress.total + self._num_tokens - self._tokens_before_round,
            context_size=self._facts.context_size,
            model=self._facts.name,
            effort=(self._job.settings.effort or self._facts.default_effort).value,
            sampling=self._sampling,
        )

    def _is_context_full(self) -> bool:
        size, stats = self._facts.context_size, self._stats
        if not size or stats is None:
            return False
        return stats.context_used >= size - CONTEXT_MARGIN

    # -- saving and watching ---------------------------------------------------------------------

    def _save_now_and_then(self) -> None:
        if self._clock() - self._saved_s >= SAVE_EVERY_S:
            self._hand_over()

    def _hand_over(self) -> None:
        texts, thinking = self._unsaved
        self._saved_s = self._clock()
        if texts or thinking:
            self._store.grow(self.answer.message_id, "".join(texts), "".join(thinking))
            self._unsaved = ([], [])

    def _look_at_silence(self) -> None:
        if self._phase not in (Phase.THINKING, Phase.ANSWERING, Phase.WRITING_CALL):
            return
        if not self._job.settings.uses_tools or self._clock() - self._heard_s < SILENCE_S:
            return
        if self._watch.is_writing_call():
            self._set_phase(Phase.WRITING_CALL)
            self._num_tokens = max(self._num_tokens, self._watch.num_tokens)

    def activity(self) -> Activity:
        """What happens now."""
        now = self._clock()
        link = self._engine.link
        phase, wait = self._phase, self._wait
        if phase is Phase.QUEUED and link.wait is Wait.LOADING:
            phase, wait = Phase.WAITING_FOR_ENGINE, Wait.LOADING
        call = self.answer.open_call
        is_waiting = phase is Phase.WAITING_FOR_ENGINE
        return Activity(
            phase=phase,
            message_id=self.answer.message_id,
            wait=wait if is_waiting else Wait.NOTHING,
            load_share=link.load_share if is_waiting else 0.0,
            prompt_tokens=self._progress.total,
            prompt_read=self._progress.read,
            prompt_per_s=round(self._prompt_rate.per_s(now), 1),
            generated_tokens=self._num_tokens,
            tokens_per_s=round(self._text_rate.per_s(now), 1),
            thinking_s=round(self.answer.thinking_s, 1),
            elapsed_s=round(now - self._began_s, 1),
            tool=call.name if call is not None else "",
            context_size=self._facts.context_size,
        )


def growing_again(message: Message) -> Message:
    """An answer that ended, as the beginning of its continuation."""
    return replace(message, state=MessageState.GROWING, problem=None, notes=())
