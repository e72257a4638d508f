"""The engine's life as a state machine: events go in, effects come out. No Qt, no clock, no process.

    machine = Machine()
    machine.handle(Asked(Command.START), now_s=0.0)   # [Prepare(1)]
    machine.state.phase                               # Phase.STARTING

Only the front process is looked after: the engine itself starts its model process again after a crash.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from app.supervisor.events import (
    Adopt,
    AllowSleep,
    Asked,
    Command,
    Effect,
    Errand,
    ErrandDone,
    Event,
    Exited,
    Finish,
    Gone,
    Heard,
    Kill,
    Listening,
    LookNow,
    Missed,
    Patience,
    Prepare,
    Prepared,
    PrepareFailed,
    Refuse,
    Resumed,
    Send,
    Spawn,
    Spawned,
    SpawnFailed,
    Suspending,
    Terminate,
    Ticked,
    WatchGone,
)
from app.supervisor.pulse import Pulse
from app.supervisor.reasons import is_final
from app.supervisor.seen import state_seen
from app.supervisor.state import Activity, EngineState, Phase, Reason, ReasonCode
from app.supervisor.steps import After, Force, Step

# So often a start that found its port taken is made anew, to adopt an engine of ours that has it.
MAX_ADOPTIONS = 1


@dataclass(slots=True)
class Machine:
    """See the module.

    Attributes:
        state: what people see.
        patience: how long is waited for what.
        is_over: `Finish` was said; nothing happens any more.
    """

    patience: Patience = field(default_factory=Patience)
    state: EngineState = field(default_factory=EngineState)
    is_over: bool = False
    _step: Step = Step.NONE
    _force: Force = Force.ASKED
    _after: After = After.REST
    _why: Reason | None = None  # for after the end
    _attempt: int = 0
    _adoptions: int = 0
    _crashes: list[float] = field(default_factory=list)
    _due_s: float | None = None
    _pulse: Pulse = field(default_factory=Pulse)
    _saves_sessions: bool = False
    _is_asleep: bool = False
    _load_after_sleep: bool = False
    _load_after_unload: bool = False
    _ops: str = ""

    @property
    def is_polling(self) -> bool:
        """Whether `/status` is to be asked."""
        return self._step is Step.ANSWERING

    @property
    def has_process(self) -> bool:
        """Whether a process of the engine may live."""
        return self._step not in {Step.NONE, Step.PREPARING, Step.WAITING}

    @property
    def due_s(self) -> float | None:
        """When `Ticked` is wanted; None: not at all."""
        return self._due_s

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        """Take an event in; what is to be done, in this order."""
        if self.is_over:
            return []
        match event:
            case Asked():
                return self._asked(event, now_s)
            case Prepared() | PrepareFailed() | Spawned() | SpawnFailed() | Listening():
                return self._starting(event, now_s)
            case Heard() | Missed() | Ticked() | ErrandDone():
                return self._living(event, now_s)
            case Exited() | Gone():
                return self._ending(event, now_s)
            case Suspending():
                return self._suspending()
            case Resumed():
                return self._resumed(event, now_s)

    def poll_every_s(self, *, is_watched: bool) -> float:
        """How often the status is to be asked: an idle engine that nobody looks at, seldom."""
        state = self.state
        is_moving = state.phase in {Phase.LOADING, Phase.BUSY}
        if is_moving or state.activity is Activity.RELEASING:
            return 0.5 if is_watched else 2.0
        return 2.0 if is_watched else 5.0

    # -- commands ----------------------------------------------------------------------------------

    def _asked(self, event: Asked, now_s: float) -> list[Effect]:
        match event.command:
            case Command.START:
                return self._ask_start(now_s)
            case Command.STOP:
                return self._ask_end(After.REST, now_s)
            case Command.RESTART:
                if self._step in {Step.NONE, Step.WAITING}:
                    return self._ask_start(now_s)
                return self._ask_end(After.START, now_s)
            case Command.QUIT:
                return self._ask_end(After.FINISH, now_s)
            case Command.FREE:
                return self._ask_free()
            case Command.LOAD:
                return [Send(Errand.LOAD)] if self._step is Step.ANSWERING else []

    def _ask_start(self, now_s: float) -> list[Effect]:
        self._crashes.clear()
        self._adoptions = 0
        match self._step:
            case Step.NONE | Step.WAITING:
                return self._prepare(None)
            case Step.ANSWERING if self.state.phase is Phase.FAILED:
                self._pulse.beat(now_s)
                self.state = replace(self.state, phase=Phase.LOADING, reason=None, progress=None)
                return [Send(Errand.LOAD), LookNow()]
            case Step.ENDING if self._after is After.REST:
                self._after = After.START
            case Step.CLEARING if self._after is not After.FINISH:
                self._after, self._why = After.START, None
                self.state = replace(self.state, phase=Phase.STARTING, reason=None)
        return []

    def _ask_end(self, after: After, now_s: float) -> list[Effect]:
        match self._step:
            case Step.NONE | Step.PREPARING | Step.WAITING:
                self._attempt += 1  # what is being prepared is not wanted any more
                self._why = None
                self._after = after
                return self._come_to_rest(now_s)
            case Step.ENDING:
                # The same once more: harder. Stopping what was to quit or to restart is harder too.
                is_again = after is After.REST or after is self._after is After.FINISH
                if self._after is not After.FINISH:
                    self._after = after
                self._why = None
                return self._escalate(now_s) if is_again else []
            case Step.CLEARING:
                self._after, self._why = after, None
                self.state = replace(self.state, phase=Phase.STOPPING, reason=None)
                return []
            case _:
                self._after, self._why = after, None
                return self._begin_end(now_s)

    def _ask_free(self) -> list[Effect]:
        if self._step is not Step.ANSWERING or self.state.activity is Activity.RELEASING:
            return []
        if self.state.phase is Phase.BUSY:
            return [Refuse(Reason(ReasonCode.BUSY))]
        self._load_after_unload = False
        return self._unload()

    # -- starting ----------------------------------------------------------------------------------

    def _prepare(self, reason: Reason | None, *, seeks_other: bool = False) -> list[Effect]:
        self._attempt += 1
        self._go(Step.PREPARING)
        self._show_fresh(Phase.STARTING, reason)
        return [Prepare(self._attempt, seeks_other)]

    def _starting(
        self, event: Prepared | PrepareFailed | Spawned | SpawnFailed | Listening, now_s: float
    ) -> list[Effect]:
        match event:
            case Prepared():
                return self._prepared(event, now_s)
            case PrepareFailed():
                if self._step is Step.PREPARING and event.attempt == self._attempt:
                    self._go(Step.NONE)
                    self._show_fresh(Phase.FAILED, event.reason)
            case Spawned():
                self._go(Step.STARTING, now_s + self.patience.pulse_s)
                self._pulse = Pulse(now_s, now_s)
                self.state = replace(self.state, pid=event.pid)
            case SpawnFailed():
                self._go(Step.NONE)
                self._show_fresh(Phase.FAILED, event.reason)
            case Listening():
                return self._listening(event, now_s)
        return []

    def _prepared(self, event: Prepared, now_s: float) -> list[Effect]:
        if self._step is not Step.PREPARING or event.attempt != self._attempt:
            return []
        self._saves_sessions = event.saves_sessions
        if event.running is None:
            self._go(Step.SPAWNING)
            return [Spawn()]
        self._go(Step.ANSWERING)
        self._pulse.beat(now_s)
        running = event.running
        self.state = replace(
            self.state, base_url=running.base_url, pid=running.pid, is_adopted=True
        )
        return [Adopt(running), LookNow()]

    def _listening(self, event: Listening, now_s: float) -> list[Effect]:
        if self._step is not Step.STARTING or event.pid != self.state.pid:
            return []
        self._go(Step.ANSWERING)
        self._pulse.beat(now_s)
        self.state = replace(self.state, phase=Phase.LOADING, base_url=event.base_url, reason=None)
        return [LookNow()]

    # -- running -----------------------------------------------------------------------------------

    def _living(self, event: Heard | Missed | Ticked | ErrandDone, now_s: float) -> list[Effect]:
        match event:
            case Heard():
                if self._step is Step.ANSWERING:
                    self._pulse.beat(now_s)
                    self._ops = event.status.ops or ""
                    self.state = state_seen(self.state, event.status)
                return []
            case Missed():
                return self._missed(event, now_s)
            case Ticked():
                return self._ticked(event, now_s)
            case ErrandDone():
                return self._errand_done(event, now_s)

    def _missed(self, event: Missed, now_s: float) -> list[Effect]:
        if self._step is not Step.ANSWERING or self._is_asleep:
            return []
        limits = self.patience.quiet_s, self.patience.silence_s
        if not self._pulse.is_dead(event.cpu_s, limits, now_s):
            return []
        reason = Reason(ReasonCode.NO_ANSWER, {"seconds": round(self._pulse.silent_s(now_s))})
        if self.state.is_adopted:  # not ours to kill without being asked
            self.state = replace(
                self.state, phase=Phase.FAILED, reason=reason, activity=Activity.NONE
            )
            return []
        return self._crashed(reason, now_s)

    def _ticked(self, event: Ticked, now_s: float) -> list[Effect]:
        if self._due_s is None or now_s < self._due_s:
            return []
        match self._step:
            case Step.STARTING:
                self._due_s = now_s + self.patience.pulse_s
                limits = self.patience.start_quiet_s, self.patience.start_s
                if not self._is_asleep and self._pulse.is_dead(event.cpu_s, limits, now_s):
                    seconds = round(self._pulse.silent_s(now_s))
                    reason = Reason(ReasonCode.START_HUNG, {"seconds": seconds})
                    return self._crashed(reason, now_s)
                return []
            case Step.WAITING:
                return self._prepare(self.state.reason)
            case Step.ENDING:
                return self._escalate(now_s)
            case Step.CLEARING:
                self._due_s = None
                return [Kill()]
            case _:
                self._due_s = None
                return []

    def _errand_done(self, event: ErrandDone, now_s: float) -> list[Effect]:
        match event.errand:
            case Errand.SHUTDOWN:
                if event.refusal is not None and self._step is Step.ENDING:
                    return self._escalate(now_s) if self._force is Force.ASKED else []
                return []
            case Errand.UNLOAD:
                return self._unloaded(event.refusal)
            case Errand.LOAD:
                return [LookNow()] if self._step is Step.ANSWERING else []

    def _unload(self) -> list[Effect]:
        self.state = replace(self.state, activity=Activity.RELEASING)
        return [Send(Errand.UNLOAD)]

    def _unloaded(self, refusal: Reason | None) -> list[Effect]:
        if self._step is not Step.ANSWERING:
            return [AllowSleep()]
        is_loaded = self.state.is_loaded and refusal is not None
        self.state = replace(self.state, activity=Activity.NONE, is_loaded=is_loaded)
        if self._load_after_unload and refusal is None:
            self._load_after_unload = False
            return [Send(Errand.LOAD), LookNow()]
        effects: list[Effect] = [LookNow(), AllowSleep()]
        if refusal is not None:
            self._load_after_sleep = False
            if not self._is_asleep:
                effects.append(Refuse(refusal))
        return effects

    # -- ending ------------------------------------------------------------------------------------

    def _begin_end(self, now_s: float) -> list[Effect]:
        can_ask = self._step is Step.ANSWERING
        self._go(Step.ENDING)
        self._force = Force.ASKED
        self.state = replace(
            self.state, phase=Phase.STOPPING, reason=None, progress=None, activity=Activity.NONE
        )
        if not can_ask:
            return [WatchGone(), *self._escalate(now_s)]
        extra_s = self.patience.saving_s if self._saves_sessions else 0.0
        self._due_s = now_s + self.patience.shutdown_s + extra_s
        return [Send(Errand.SHUTDOWN), WatchGone()]

    def _escalate(self, now_s: float) -> list[Effect]:
        match self._force:
            case Force.ASKED:
                self._force = Force.TERMINATED
                self._due_s = now_s + self.patience.terminate_s
                return [Terminate()]
            case Force.TERMINATED:
                self._force = Force.KILLED
                self._due_s = now_s + self.patience.killed_s
                return [Kill()]
            case Force.KILLED:  # the system holds it; it is not said to be stopped before it is
                self._due_s = now_s + self.patience.killed_s
                self.state = replace(
                    self.state, reason=Reason(ReasonCode.WILL_NOT_END, {"pid": self.state.pid})
                )
                return [Kill()]

    def _ending(self, event: Exited | Gone, now_s: float) -> list[Effect]:
        if isinstance(event, Exited):
            return self._exited(event, now_s)
        if self._step in {Step.ENDING, Step.CLEARING}:
            return self._come_to_rest(now_s)
        return []

    def _exited(self, event: Exited, now_s: float) -> list[Effect]:
        if event.pid != self.state.pid:
            return []
        match self._step:
            case Step.ENDING:
                self._due_s = min(self._due_s or now_s, now_s + self.patience.leftovers_s)
                self._force = Force.TERMINATED  # the next step is force, for what is left
                return []
            case Step.STARTING if self._adoptions < MAX_ADOPTIONS and (
                event.status == 0 or event.reason.code is ReasonCode.PORT_IN_USE
            ):  # somebody else has the port: another engine of ours, perhaps
                self._adoptions += 1
                return self._clear(After.ADOPTION, event.reason, now_s)
            case Step.STARTING | Step.ANSWERING:
                is_ours = not self.state.is_adopted
                if is_ours and event.status != 0:
                    return self._crashed(event.reason, now_s)
                return self._clear(After.REST, Reason(ReasonCode.ENDED_OUTSIDE), now_s)
            case _:
                return []

    def _crashed(self, reason: Reason, now_s: float) -> list[Effect]:
        """The engine ended, or is as good as dead: clear away what is left, and go on from there."""
        window_s = self.patience.crash_window_s
        self._crashes = [at_s for at_s in self._crashes if now_s - at_s < window_s]
        self._crashes.append(now_s)
        gives_up = is_final(reason) or len(self._crashes) >= self.patience.max_crashes
        return [
            *self._clear(After.REST if gives_up else After.BACKOFF, reason, now_s),
            Kill(),
        ]

    def _clear(self, after: After, why: Reason | None, now_s: float) -> list[Effect]:
        self._go(Step.CLEARING, now_s + self.patience.leftovers_s)
        self._after, self._why = after, why
        is_rest = after is After.REST
        self._show_fresh(
            Phase.STOPPING if is_rest else Phase.STARTING,
            why if after is After.BACKOFF else None,
            pid=self.state.pid,
        )
        return [WatchGone()]

    def _come_to_rest(self, now_s: float) -> list[Effect]:
        why, self._why = self._why, None
        self._load_after_sleep = self._load_after_unload = False
        self._go(Step.NONE)
        match self._after:
            case After.START:
                return self._prepare(None)
            case After.ADOPTION:
                return self._prepare(None, seeks_other=True)
            case After.BACKOFF:
                number = min(len(self._crashes), len(self.patience.backoff_s)) - 1
                wait_s = self.patience.backoff_s[number] if number >= 0 else 0.0
                self._go(Step.WAITING, now_s + wait_s)
                self._show_fresh(Phase.STARTING, why)
                return []
            case After.FINISH:
                self.is_over = True
                self._show_fresh(Phase.STOPPED, None)
                return [Finish()]
            case After.REST:
                is_fault = why is not None and why.code is not ReasonCode.ENDED_OUTSIDE
                self._show_fresh(Phase.FAILED if is_fault else Phase.STOPPED, why)
                return [AllowSleep()]

    # -- sleep -------------------------------------------------------------------------------------

    def _suspending(self) -> list[Effect]:
        self._is_asleep = True
        state = self.state
        if self._step is Step.ANSWERING and state.activity is Activity.RELEASING:
            return []  # it is under way; its end allows the sleep
        holds = state.is_loaded or state.phase is Phase.LOADING
        if self._step is not Step.ANSWERING or not holds or state.phase is Phase.BUSY:
            return [AllowSleep()]
        self._load_after_sleep = True
        return self._unload()

    def _resumed(self, event: Resumed, now_s: float) -> list[Effect]:
        self._is_asleep = False
        self._pulse.beat(now_s)
        if self._step is not Step.ANSWERING:
            return []
        if self._load_after_sleep:
            self._load_after_sleep = False
            if self.state.activity is Activity.RELEASING:
                self._load_after_unload = True
                return []
            return [Send(Errand.LOAD), LookNow()]
        if (
            not event.was_announced
            and self._ops.startswith("cuda")
            and self.state.phase is Phase.READY
            and self.state.is_loaded
        ):  # a graphics card's memory may not have outlived the sleep
            self._load_after_unload = True
            return self._unload()
        return [LookNow()]

    # -- what people see ---------------------------------------------------------------------------

    def _go(self, step: Step, due_s: float | None = None) -> None:
        self._step, self._due_s = step, due_s

    def _show_fresh(self, phase: Phase, reason: Reason | None, pid: int | None = None) -> None:
        """A state of an engine that does not answer."""
        self.state = EngineState(phase=phase, reason=reason, model=self.state.model, pid=pid)
