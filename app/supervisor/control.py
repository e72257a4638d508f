"""Carries out what the state machine wants: the thread that owns the engine's process.

One thread for everything that touches the process, because on Linux the engine lives only as long as
the thread that started it. What blocks (reading the config, requests, waiting for an end) happens in
helper threads that report back as events.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.engine_http import EngineAddress, EngineHttp, EngineHttpError
from app.engine_status import EngineStatus
from app.supervisor.awake import Wakefulness
from app.supervisor.clock import ClockWatch
from app.supervisor.events import (
    Adopt,
    AllowSleep,
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
    Running,
    Send,
    Spawn,
    Spawned,
    SpawnFailed,
    Terminate,
    Ticked,
    WatchGone,
)
from app.supervisor.family import AdoptedFamily, Family
from app.supervisor.launch import launch, serve_command
from app.supervisor.log_file import LogPump, RotatingLog
from app.supervisor.machine import Machine
from app.supervisor.poller import Poller, Target
from app.supervisor.preparation import (
    ADOPTION_PATIENCE_S,
    CannotStartError,
    Plan,
    find_running,
    port_in_use,
    port_is_free,
    read_plan,
    wait_for_running,
)
from app.supervisor.reasons import reason_of_exit
from app.supervisor.state import EngineState, Reason, ReasonCode

logger = logging.getLogger(__name__)

# What the engine prints when it listens.
_LISTENING = re.compile(r"ready at (http://\S+:\d+)")
_KEYS_VARIABLE = "STRATUM_API_KEYS"
_GONE_EVERY_S = 0.1
# Loading waits for the disk and ending for the system; neither is given up before the machine does.
_ERRANDS = {
    Errand.SHUTDOWN: ("/shutdown", 10.0),
    Errand.UNLOAD: ("/unload", 300.0),
    Errand.LOAD: ("/load", None),
}
_ERRAND_BODY: dict[str, object] = {}
_AFTER_MISTAKE_S = 0.2
# How often the clocks are looked at while the engine runs.
_CLOCK_EVERY_S = 15.0
# How long the rest of a log is waited for after the end.
_LAST_WORDS_S = 1.0


@dataclass(slots=True)
class Listeners:
    """Whom the control thread tells; all are called in it."""

    on_state: Callable[[EngineState], None]
    on_status: Callable[[EngineStatus], None]
    on_refusal: Callable[[Reason], None]
    on_sleep_allowed: Callable[[], None]
    on_finish: Callable[[], None]


@dataclass(slots=True)
class Surroundings:
    """What tests replace.

    Attributes:
        command: of the engine, for a run config.
        patience: how long is waited for what.
    """

    command: Callable[[Path], Sequence[str]] = serve_command
    patience: Patience = field(default_factory=Patience)
    wakefulness: Wakefulness = field(default_factory=Wakefulness)
    adoption_patience_s: float = ADOPTION_PATIENCE_S


class Control:
    """The thread.

    Attributes:
        http: requests to the engine; its address follows the engine.
        config_path: what the next start runs.
        is_watched: whether somebody looks at the state.
    """

    def __init__(
        self,
        data_dir: Path,
        config_path: Path | None,
        listeners: Listeners,
        surroundings: Surroundings,
    ) -> None:
        self.http = EngineHttp()
        self.config_path = config_path
        self.is_watched = True
        self._data_dir = data_dir
        self._listeners = listeners
        self._surroundings = surroundings
        self._log = RotatingLog(data_dir / "logs" / "engine.log")
        self._machine = Machine(surroundings.patience)
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._shown = self._machine.state
        self._clock = ClockWatch()
        self._poller = Poller(self._heard, self._silent)
        self._plan: Plan | None = None
        self._api_key: str | None = None
        self._instance = ""
        self._family: Family | None = None
        self._is_watching_end = False
        self._attempt = 0
        self._thread = threading.Thread(target=self._run, name="engine-control", daemon=True)

    @property
    def log_path(self) -> Path:
        """The engine's log."""
        return self._log.path

    def start(self) -> None:
        """Begin to take events."""
        self._poller.start()
        self._thread.start()

    def post(self, event: Event) -> None:
        """Take an event in; from any thread."""
        self._events.put(event)

    def nudge(self) -> None:
        """Let something that was changed from outside have its effect."""
        self._events.put(None)

    def look_now(self) -> None:
        """Ask the engine at once."""
        self._poller.ask_now()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # -- the loop ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._machine.is_over:
            try:
                self._turn()
            except Exception:
                # Going on is better than to leave: the engine ends with this thread.
                logger.exception("the supervisor made a mistake")
                time.sleep(_AFTER_MISTAKE_S)
        self._surroundings.wakefulness.close()
        self._poller.close()
        self.http.address = None
        self.http.close()
        self._listeners.on_finish()

    def _turn(self) -> None:
        wait_s = self._wait_s()
        try:
            event = self._events.get(timeout=wait_s)
        except queue.Empty:
            event = None
        if self._clock.note(time.time(), time.monotonic(), wait_s or 0.0) and wait_s is not None:
            logger.info("the clock has jumped: the PC was asleep, it seems")
            self._take(Resumed(was_announced=False))
        if event is not None:
            self._take(event)
        if self._machine.due_s is not None and time.monotonic() >= self._machine.due_s:
            self._take(Ticked(self._cpu_s()))
        if self._is_watching_end:
            self._watch_end()
        self._show()

    def _wait_s(self) -> float | None:
        if self._is_watching_end:
            return _GONE_EVERY_S
        if self._machine.due_s is None:
            return _CLOCK_EVERY_S if self._machine.is_polling else None
        return max(0.0, self._machine.due_s - time.monotonic())

    def _take(self, event: Event) -> None:
        for effect in self._machine.handle(event, time.monotonic()):
            self._do(effect)

    def _show(self) -> None:
        state = self._machine.state
        is_polling = self._machine.is_polling and bool(state.base_url)
        address = EngineAddress(state.base_url, self._api_key) if is_polling else None
        self.http.address = address
        target = None if address is None else Target(address, self._instance)
        self._poller.ask(target, self._machine.poll_every_s(is_watched=self.is_watched))
        self._surroundings.wakefulness.note(state, time.monotonic())
        if state != self._shown:
            if state.phase is not self._shown.phase:
                logger.info("engine: %s", state.phase.value)
            self._shown = state
            self._listeners.on_state(state)

    # -- effects -----------------------------------------------------------------------------------

    def _do(self, effect: Effect) -> None:
        match effect:
            case Prepare() | Spawn() | Adopt():
                self._do_start(effect)
            case Send(errand):
                self._send(errand)
            case Terminate() | Kill() | WatchGone():
                self._do_end(effect)
            case LookNow():
                self._poller.ask_now()
            case AllowSleep():
                self._listeners.on_sleep_allowed()
            case Refuse(reason):
                self._listeners.on_refusal(reason)
            case Finish():
                pass  # the loop ends by itself

    def _do_start(self, effect: Prepare | Spawn | Adopt) -> None:
        match effect:
            case Prepare():
                self._attempt = effect.attempt
                arguments = (effect.attempt, effect.seeks_other, self.config_path)
                threading.Thread(
                    target=self._prepare, args=arguments, name="engine-prepare", daemon=True
                ).start()
            case Spawn():
                self._take(self._spawn())
            case Adopt(running):
                self._adopt(running)

    def _do_end(self, effect: Terminate | Kill | WatchGone) -> None:
        if isinstance(effect, WatchGone):
            self._is_watching_end = True
        elif self._family is not None:
            if isinstance(effect, Kill):
                self._family.kill()
            else:
                self._family.terminate()

    def _prepare(self, attempt: int, seeks_other: bool, config_path: Path | None) -> None:
        """Runs in a thread of its own."""
        try:
            plan = read_plan(config_path, os.environ.get(_KEYS_VARIABLE, ""))
            running = self._seek(plan, attempt) if seeks_other else None
            if running is None and not seeks_other:
                running = find_running(self._data_dir, plan.api_key)
        except CannotStartError as error:
            self.post(PrepareFailed(attempt, error.reason))
        except Exception as error:
            logger.exception("the start could not be prepared")
            reason = Reason(ReasonCode.UNKNOWN, detail=f"{type(error).__name__}: {error}")
            self.post(PrepareFailed(attempt, reason))
        else:
            if attempt == self._attempt:
                self._plan = plan
            self.post(Prepared(attempt, running, saves_sessions=plan.config.save_sessions))

    def _seek(self, plan: Plan, attempt: int) -> Running | None:
        patience_s = self._surroundings.adoption_patience_s
        running = wait_for_running(
            plan, self._data_dir, lambda: attempt == self._attempt, patience_s
        )
        if running is None and not port_is_free(plan.config.host, plan.config.port):
            raise CannotStartError(port_in_use(plan))
        return running

    def _spawn(self) -> Event:
        plan = self._plan
        if plan is None:
            return SpawnFailed(Reason(ReasonCode.NO_MODEL))
        self._close_family()
        self._api_key, self._instance = plan.api_key, ""
        try:
            launched = launch(self._surroundings.command(plan.config_path))
        except OSError as error:
            reason = error.strerror or str(error)
            return SpawnFailed(Reason(ReasonCode.PROGRAM_BROKEN, {"reason": reason}, reason))
        self._family = launched.family
        pid = launched.process.pid
        pump = LogPump(launched.output, self._log, lambda line: self._read_line(pid, line))
        pump.start()
        threading.Thread(
            target=self._await_end,
            args=(launched.process, pump),
            name="engine-end",
            daemon=True,
        ).start()
        logger.info("the engine was started (process %d)", pid)
        return Spawned(pid)

    def _adopt(self, running: Running) -> None:
        self._close_family()
        family = AdoptedFamily(running.pid)
        self._family, self._instance = family, running.instance
        self._api_key = self._plan.api_key if self._plan is not None else None
        logger.info("an engine that runs already is taken over (process %d)", running.pid)

    def _close_family(self) -> None:
        if self._family is not None:
            self._family.close()
        self._family = None

    def _send(self, errand: Errand) -> None:
        address = self.http.address or EngineAddress(self._machine.state.base_url, self._api_key)
        threading.Thread(
            target=self._run_errand, args=(errand, address), name="engine-errand", daemon=True
        ).start()

    def _run_errand(self, errand: Errand, address: EngineAddress) -> None:
        """Runs in a thread of its own."""
        path, timeout_s = _ERRANDS[errand]
        http = EngineHttp(address)
        refusal: Reason | None = None
        try:
            http.post(path, _ERRAND_BODY, read_timeout_s=timeout_s)
        except EngineHttpError as error:
            code = ReasonCode.BUSY if error.code == "busy" else ReasonCode.UNKNOWN
            refusal = Reason(code, error.params, error.message, error.code)
            logger.info("%s was refused: %s", path, error)
        finally:
            http.close()
        self.post(ErrandDone(errand, refusal))

    # -- what helper threads hear ------------------------------------------------------------------

    def _heard(self, status: EngineStatus) -> None:
        self._listeners.on_status(status)
        self.post(Heard(status))

    def _silent(self) -> None:
        self.post(Missed(self._cpu_s()))
        family = self._family
        if isinstance(family, AdoptedFamily) and not family.front_lives():
            self.post(Exited(family.pid, None, Reason(ReasonCode.ENDED_OUTSIDE)))

    def _read_line(self, pid: int, line: str) -> None:
        found = _LISTENING.search(line)
        if found is not None:
            self.post(Listening(pid, found[1]))

    def _await_end(self, process: subprocess.Popen[bytes], pump: LogPump) -> None:
        status = process.wait()
        reason = reason_of_exit(status, pump.last_lines(_LAST_WORDS_S))
        if reason.code is ReasonCode.PORT_IN_USE and self._plan is not None:
            reason = replace(reason, params={**reason.params, **port_in_use(self._plan).params})
        logger.info("the engine has ended (exit status %d, %s)", status, reason.code.value)
        self.post(Exited(process.pid, status, reason))

    def _watch_end(self) -> None:
        family = self._family
        if isinstance(family, AdoptedFamily) and not family.front_lives():
            self._take(Exited(family.pid, None, Reason(ReasonCode.ENDED_OUTSIDE)))
        if family is None or not family.lives():
            self._is_watching_end = False
            self._close_family()
            self._take(Gone())

    def _cpu_s(self) -> float | None:
        family = self._family
        return family.cpu_s() if family is not None else None
