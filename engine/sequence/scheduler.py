"""Which tokens are computed in the next pass, for whom, and what becomes of the results.

One step is one pass: a token for every sequence that decodes, and up to `prompt_chunk` rows of
prompts, which take turns. A pass over a prompt that takes long (`pass_budget`) goes without the
decoding sequences: it is left between two layers, again and again, for short passes that give them
their next tokens. At most `parallel` requests run, the others wait in order. The scheduler knows
messages, the model's batches and the rules of answers; it knows no pipe and no clock but the one it
is given, so the worker, the in-process loop and the tests share it.

Prompts are cut at multiples of 64 positions: DeltaNet's chunked form covers whole aligned blocks
within one pass, so a request's results do not depend on who shared its passes.

Requests share the pages of the key/value cache. One that finds none left pauses until another ends;
when all pause, the youngest ends with an error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.core.disk_reads import DiskReads
from engine.core.errors import EngineError, ResourceError
from engine.decode.constraint import AnswerConstraint
from engine.decode.draft.drafting import Computed, Drafting
from engine.decode.rules import AnswerRules
from engine.decode.sampling import Sampler
from engine.decode.verify import Verified, verify
from engine.device.base import DeviceError
from engine.ops.best_logits import FloatArray, RowLogits
from engine.sequence.batch import PassResult
from engine.sequence.language_model import LanguageModel
from engine.sequence.pass_budget import PassBudget
from engine.sequence.pass_parts import Part, chunk_rows
from engine.sequence.pass_runner import PassRunner
from engine.sequence.rows_ahead import RowsAhead
from engine.sequence.running_request import WINDOW_ROWS, RunningRequest
from engine.sequence.session_visit import Visit
from engine.sequence.sessions import SessionFigures, Sessions
from engine.sequence.waiting import WaitingRequests
from engine.worker.messages import (
    Done,
    PromptProgress,
    SamplingParams,
    Start,
    StatusReport,
    Timings,
    Tokens,
)

logger = logging.getLogger(__name__)

Event = PromptProgress | Tokens | Done


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """Sizes that requests are held to.

    Attributes:
        context: tokens of one request, prompt and answer.
        vocab_size: token ids are below this.
        prompt_chunk: prompt rows of one pass.
        parallel: requests that run together.
        prompt_slice_s: how long an answer's next token may wait while a prompt is read.
    """

    context: int
    vocab_size: int
    prompt_chunk: int = 256
    parallel: int = 4
    prompt_slice_s: float = 0.1

    @property
    def max_rows(self) -> int:
        """Most rows of a pass; the model's buffers must hold them."""
        return self.prompt_chunk + self.parallel


class Scheduler:
    """Runs requests on a model, pass by pass.

    Args:
        model: what computes.
        limits: sizes that requests are held to.
        emit: called with every event, in order.
        between_layers: called after each layer; may call `submit`, `cancel` and `force`.
        clock: seconds.
        sessions: keeps conversations warm; None = every request begins anew.
        constrain: makes what holds a request's answer to its form; None = answers are free.
        is_ready: whether `constrain` can do so at once; others are served before that.
        token_bytes: what a token stands for; None = thinking may be ended inside a character.
        drafting: guesses tokens, to be verified several at a time; None = nothing is guessed.
        new_sampler: makes what chooses a request's tokens.
        disk_reads: what has been read from the disk since the model is loaded.
        tune: is given the settings that a request brings along, and none when it is over.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # parts that a caller may leave out
        self,
        model: LanguageModel,
        limits: SchedulerLimits,
        emit: Callable[[Event], None],
        between_layers: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.perf_counter,
        sessions: Sessions | None = None,
        constrain: Callable[[Start], AnswerConstraint] | None = None,
        is_ready: Callable[[Start], bool] = lambda _: True,
        token_bytes: Callable[[int], bytes] | None = None,
        drafting: Drafting | None = None,
        new_sampler: Callable[[SamplingParams], Sampler] = Sampler,
        disk_reads: Callable[[], tuple[DiskReads, ...]] = tuple,
        tune: Callable[[Mapping[str, float]], None] = lambda _: None,
    ) -> None:
        self._disk_reads = disk_reads
        self._tune = tune
        self._model = model
        self._limits = limits
        self._emit = emit
        self._clock = clock
        self._sessions = sessions
        self._constrain = constrain
        self._token_bytes = token_bytes
        self._drafting = drafting
        self._new_sampler = new_sampler
        self._rows_ahead = RowsAhead(model.ngram_rows)
        self._waiting = WaitingRequests(limits.context, limits.vocab_size, is_ready)
        self._running: list[RunningRequest] = []
        self._has_cancelled = False  # among them
        self._budget = PassBudget(limits.prompt_slice_s)
        self._passes = PassRunner(
            model,
            prompt_chunk=limits.prompt_chunk,
            parallel=limits.parallel,
            budget=self._budget,
            rows_ahead=self._rows_ahead,
            between_layers=between_layers,
            serve_windows=self._serve_windows,
            clock=clock,
        )

    @property
    def has_work(self) -> bool:
        """Whether `step` would do something."""
        is_any_held = False
        for request in self._running:  # asked before every token
            is_any_held |= request.is_held
        if not is_any_held:
            return bool(self._running) or self._waiting.next() is not None
        if any(request.is_cancelled or not request.is_paused for request in self._running):
            return True
        if any(request.shortage for request in self._running):
            return False  # pages go to those who have begun
        return len(self._running) < self._limits.parallel and self._waiting.next() is not None

    @property
    def has_requests(self) -> bool:
        """Whether anybody waits for an answer, if only for pages that a paused one holds."""
        return bool(self._running or self._waiting)

    def status(self, memory_bytes: int) -> StatusReport:
        """What is going on."""
        used = sum(request.state.length for request in self._running)
        warm = SessionFigures() if self._sessions is None else self._sessions.figures
        return StatusReport(
            running=len(self._running),
            waiting=len(self._waiting),
            context_used_tokens=used,
            memory_bytes=memory_bytes,
            warm_sessions=warm.sessions,
            warm_tokens=warm.tokens,
            warm_bytes=warm.num_bytes,
            disk=self._disk_reads(),
        )

    # -- commands; also while a pass is under way ------------------------------------------------

    def submit(self, start: Start) -> None:
        """Queue a request; one that can never run ends with an error at once."""
        sentence = self._waiting.objection(start)
        if sentence:
            self._emit(Done(start.request_id, "error", Timings(), sentence))
        else:
            self._waiting.add(start)

    def cancel(self, request_id: str) -> None:
        """End a request at the next boundary; unknown ones are ignored."""
        if self._waiting.cancel(request_id):
            self._emit(Done(request_id, "cancelled", Timings()))
            return
        for request in self._running:
            if request.start.request_id == request_id:
                request.is_cancelled = self._has_cancelled = True

    def force(self, request_id: str, token_ids: Iterable[int]) -> None:
        """Let these tokens follow the next one of an answer.

        Unknown requests are ignored, and tokens that the model does not have.
        """
        token_ids = tuple(token_ids)
        if not self._waiting.are_known(token_ids):
            logger.warning("forced tokens are not in the vocabulary and are left out")
            return
        for request in self._running:
            if request.start.request_id == request_id:
                request.forced.extend(token_ids)
                return
        self._waiting.force(request_id, token_ids)

    def hold(self, request_id: str, *, is_held: bool) -> None:
        """Pause an answer whose tokens nobody takes, or go on; unknown requests are ignored."""
        for request in self._running:
            if request.start.request_id == request_id:
                request.is_held = is_held

    # -- one step --------------------------------------------------------------------------------

    def step(self) -> None:
        """Compute one pass, and short ones between its layers, and send what came out of it."""
        self._end_cancelled()
        self._admit()
        parts = self._choose_parts()
        if parts:
            began_at = self._clock()
            self._run(parts)
            self._end_cancelled()
            if self._drafting is not None:
                rows = [part.num_computed for part in parts if self._passes.has_windows_alone]
                self._drafting.note_step(sum(rows), len(parts), self._clock() - began_at)
        elif self._running and not any(request.is_held for request in self._running):
            youngest = self._running[-1]
            self._end(youngest, "error", youngest.shortage)

    def close(self) -> None:
        """Cancel everything and give the sequences back."""
        for request_id in (*self._waiting.ids(), *(r.start.request_id for r in self._running)):
            self.cancel(request_id)
        self._end_cancelled()

    def _admit(self) -> None:
        if not self._waiting or any(request.shortage for request in self._running):
            return  # pages go to those who have begun
        while len(self._running) < self._limits.parallel:
            start = self._waiting.next()
            if start is None:
                return
            try:
                state = self._model.new_sequence()
            except ResourceError as error:
                if self._running:
                    return  # one of them will give its sequence back
                self._waiting.take(start)
                self._emit(Done(start.request_id, "error", Timings(), error.message))
                continue
            forced = self._waiting.take(start)
            try:
                constraint = self._constraint(start)
            except EngineError as error:
                state.release()
                self._emit(Done(start.request_id, "error", Timings(), error.message))
                continue
            request = RunningRequest(
                start=start,
                state=state,
                rules=AnswerRules(start, self._limits.context, self._token_bytes),
                sampler=self._new_sampler(start.sampling),
                visit=Visit(self._sessions, start.prompt, start.shared_prefix, start.turn_start),
                began_at=self._clock(),
                constraint=constraint,
                forced=forced,
                disk=[self._disk_reads()],
            )
            self._running.append(request)
            if start.tuning:
                self._tune(dict(start.tuning))
            if self._drafting is not None:
                self._drafting.begin(request)
            self._resume(request)
            self._report_prompt(request)

    def _resume(self, request: RunningRequest) -> bool:
        """Go on from what is warm; whether that brought the request any further."""
        has_moved = request.visit.resume(request.state)
        if has_moved and self._drafting is not None:
            self._drafting.resumed(request)
        return has_moved

    def _constraint(self, start: Start) -> AnswerConstraint | None:
        if start.constraint is None or self._constrain is None:
            return None
        return self._constrain(start)

    # -- what a pass computes --------------------------------------------------------------------

    def _choose_parts(self) -> list[Part]:
        """The next pass: all short steps, and prompts; one of the two when these take long."""
        windows = self._windows()
        if len(windows) == len(self._running):
            return windows
        room = self._limits.prompt_chunk - sum(part.num_computed - 1 for part in windows)
        if windows:
            room = min(room, self._budget.most_rows(self._limits.prompt_chunk))
        prompts = self._prompts(room)
        num_rows = sum(part.num_computed for part in (*windows, *prompts))
        if windows and prompts and not self._budget.is_short(num_rows):
            return windows if self._passes.is_window_due() else prompts
        return [*windows, *prompts]

    def _windows(self) -> list[Part]:
        """Short steps of all that are not in the open pass."""
        room = min(self._limits.prompt_chunk, WINDOW_ROWS)  # besides one row for each
        parts: list[Part] = []
        for request in self._running:
            if request.is_paused or request in self._passes.open or not request.is_window:
                continue
            num_rows = min(request.num_pending, room + 1)
            room -= num_rows - 1
            drafts: Sequence[int] = ()
            if self._drafting is not None and num_rows == 1:
                drafts = self._drafting.drafts_of(request, room)
                room -= len(drafts)
            parts.append(Part(request, num_rows, drafts))
        return parts

    def _prompts(self, room: int) -> list[Part]:
        """Pieces of prompts; who was served longest ago comes first."""
        ready: list[RunningRequest] = []
        ahead: list[Visit] = []  # of requests whose prompts are read before
        for request in self._running:
            if request.is_paused or request.is_window:
                continue
            if self._resume(request):  # others have read its beginning meanwhile
                self._report_prompt(request)
            if not request.visit.should_wait(ahead):
                ahead.append(request.visit)
                ready.append(request)
        parts: list[Part] = []
        for request in sorted(ready, key=lambda request: request.served):
            length = request.state.length
            num_rows = chunk_rows(length, request.num_pending, room, self._limits.prompt_chunk)
            if length < len(request.start.prompt):
                num_rows = min(num_rows, request.visit.next_stop(length) - length)
            if num_rows:
                parts.append(Part(request, num_rows))
                room -= num_rows
        return parts

    # -- passes ----------------------------------------------------------------------------------

    def _run(self, parts: Sequence[Part]) -> None:
        try:
            result = self._passes.compute(parts)
        except DeviceError:
            raise  # the card is lost for this process; another one may get on, with or without it
        except EngineError as error:
            if any(part.drafts for part in parts):  # there may be no room for what is only guessed
                rest = [Part(p.request, p.num_rows) for p in parts if not p.request.is_cancelled]
                if rest:
                    self._run(rest)
                return
            if len(parts) == 1:
                self._set_back(parts[0].request, error)
                return
            # Nothing says whose rows could not be computed; alone, each of them fares as it does
            # in the batch, and only those at fault end.
            for part in parts:
                if not part.request.is_cancelled:  # by a command since then
                    self._run([part])
            return
        if result is None:
            return
        firsts = [part.request.state.length for part in parts]
        chosen: list[Verified | EngineError | None] = []
        row = 0  # of the logits, which those parts have that have all their rows
        for part in parts:
            stop = row + (1 + len(part.drafts) if part.is_last else 0)
            chosen.append(self._choose(part, result.rows(row, stop)))
            row = stop
        self._tell_drafting(parts, firsts, chosen, result)
        for part, outcome in zip(parts, chosen, strict=True):
            part.request.visit.note(part.request.state)
            if not part.request.is_cancelled and outcome is not None:
                self._send(part.request, outcome)

    def _choose(
        self, part: Part, logits: FloatArray | Sequence[RowLogits]
    ) -> Verified | EngineError | None:
        """Choose what follows a part, and commit what is part of the answer by now.

        Args:
            part: what was computed.
            logits: of its newest rows.
        """
        request = part.request
        if request.is_cancelled or not part.is_last:
            request.state.commit(part.num_rows)
            if not request.is_cancelled and request.first_token_at is None:
                self._report_prompt(request)
            return None
        if request.first_token_at is None:
            request.first_token_at = self._clock()
            request.disk.append(self._disk_reads())
            self._report_prompt(request, part.num_rows)
        try:
            drawn = request.draw_window(logits, part.drafts) if part.drafts else ()
            verified = verify(request, logits, part.drafts, drawn)
        except EngineError as error:
            request.state.commit(part.num_rows)
            return error
        request.state.commit(part.num_rows + verified.num_accepted)
        if part.drafts and self._drafting is not None:
            self._drafting.note(request, len(part.drafts), verified.num_accepted)
        if verified.reason is None:
            self._rows_ahead.window(request)
        return verified

    def _send(self, request: RunningRequest, outcome: Verified | EngineError) -> None:
        """Send what follows in an answer."""
        if isinstance(outcome, EngineError):
            logger.info("no token could be chosen: %s", outcome)  # the sentence goes to the person
            self._end(request, "error", outcome.message)
            return
        if outcome.token_ids:
            self._emit(Tokens(request.start.request_id, outcome.token_ids, outcome.logprobs))
        if outcome.reason is not None:
            self._end(request, outcome.reason)

    def _tell_drafting(
        self,
        parts: Sequence[Part],
        firsts: Sequence[int],
        chosen: Sequence[Verified | EngineError | None],
        result: PassResult,
    ) -> None:
        """Let the drafters know what is part of the sequences now; `firsts` are their old lengths."""
        drafting = self._drafting
        if drafting is None:
            return
        computed: list[Computed] = []
        for i, (part, outcome) in enumerate(zip(parts, chosen, strict=True)):
            request = part.request
            if request.drafts is None or len(request.tokens) < request.drafts.next_look:
                continue
            if not request.is_cancelled:
                goes_on = isinstance(outcome, Verified) and outcome.reason is None
                computed.append(Computed(request, firsts[i], result, i, goes_on))
        if computed:
            drafting.tell(computed, len(parts) - len(computed))
        for rows in computed:
            drafts = drafting.drafts_of(rows.request, WINDOW_ROWS)
            if drafts:
                self._rows_ahead.window(rows.request, drafts)

    def _serve_windows(self) -> bool:
        """Compute the short steps of others while a pass is open; whether there were any."""
        self._end_cancelled()
        self._admit()
        parts = self._windows()
        if parts:
            self._run(parts)
            self._end_cancelled()
        return bool(parts)

    def _set_back(self, request: RunningRequest, error: EngineError) -> None:
        if isinstance(error, ResourceError) and len(self._running) > 1:
            request.shortage = error.message
            return
        logger.info("a request ends with an error: %s", error)
        self._end(request, "error", error.message)

    # -- ends ------------------------------------------------------------------------------------

    def _end_cancelled(self) -> None:
        if not self._has_cancelled:
            return
        for request in [request for request in self._running if request.is_cancelled]:
            if request not in self._passes.open:  # else when that pass has been left
                self._end(request, "cancelled")
        self._has_cancelled = any(request.is_cancelled for request in self._running)

    def _end(self, request: RunningRequest, reason: str, message: str = "") -> None:
        self._running.remove(request)
        # The sequence is not needed any more; what it has come to is kept warm.
        request.visit.end(request.state, request.tokens, is_sound=reason != "error")
        request.state.release()
        for other in self._running:
            other.shortage = ""
        timings = request.timings(self._clock(), self._disk_reads())
        if request.start.tuning:
            self._tune({})
        if self._drafting is not None:
            self._drafting.end(request)
        self._emit(Done(request.start.request_id, reason, timings, message))

    def _report_prompt(self, request: RunningRequest, more_rows: int = 0) -> None:
        total = len(request.start.prompt)
        read = min(request.state.length + more_rows, total)
        self._emit(PromptProgress(request.start.request_id, read, total, request.visit.num_cached))
