"""A machine with a clock beside it, and the events that tests send it."""

from app.engine_status import EngineStatus, Loading, ServerState
from app.supervisor.events import (
    Asked,
    Command,
    Exited,
    Gone,
    Heard,
    Listening,
    Patience,
    Prepare,
    Prepared,
    Spawn,
    Spawned,
    Ticked,
)
from app.supervisor.machine import Machine
from app.supervisor.state import Reason, ReasonCode

URL = "http://127.0.0.1:8080"
PATIENCE = Patience(
    start_quiet_s=20,
    start_s=100,
    quiet_s=10,
    silence_s=50,
    pulse_s=2,
    shutdown_s=25,
    saving_s=100,
    terminate_s=15,
    killed_s=10,
    leftovers_s=2,
    backoff_s=(1, 5),
    crash_window_s=300,
    max_crashes=3,
)
START, STOP, QUIT = Asked(Command.START), Asked(Command.STOP), Asked(Command.QUIT)
RESTART, FREE, LOAD = Asked(Command.RESTART), Asked(Command.FREE), Asked(Command.LOAD)
SEGFAULT = Reason(ReasonCode.UNKNOWN, {"exit_status": -11})


def status(state, **fields):
    loaded = state not in {ServerState.UNLOADED, ServerState.LOADING, ServerState.FAILED}
    return EngineStatus(state, instance="n", model="m", is_loaded=loaded, **fields)


IDLE = Heard(status(ServerState.IDLE))
ANSWERING = Heard(status(ServerState.ANSWERING))
LOADING = Heard(status(ServerState.LOADING, loading=Loading("weights", 1, 4)))
UNLOADED = Heard(status(ServerState.UNLOADED))


class Life:
    """A machine, and the clock beside it."""

    def __init__(self):
        self.machine = Machine(PATIENCE)
        self.now = 1000.0
        self.attempt = 0
        self.pid = 100

    @property
    def state(self):
        return self.machine.state

    def take(self, event, after=0.0):
        self.now += after
        effects = self.machine.handle(event, self.now)
        for effect in effects:
            if isinstance(effect, Prepare):
                self.attempt = effect.attempt
        return effects

    def tick(self, after, cpu_s=None):
        return self.take(Ticked(cpu_s), after)

    def spawn(self, *, saves=False):
        """From PREPARING to a process that has said nothing yet."""
        assert self.take(Prepared(self.attempt, saves_sessions=saves)) == [Spawn()]
        self.pid += 1
        assert self.take(Spawned(self.pid)) == []
        return self

    def started(self, **options):
        self.take(START)
        return self.spawn(**options)

    def listening(self, **options):
        self.started(**options)
        self.take(Listening(self.pid, URL))
        return self

    def ready(self, **options):
        self.listening(**options)
        self.take(IDLE)
        return self

    def die(self, reason=SEGFAULT, status=-11, after=0.0):
        return self.take(Exited(self.pid, status, reason), after)

    def crash(self, after=0.0):
        """The process dies, the rest is cleared away, and the next start is waited for."""
        self.die(after=after)
        self.take(Gone())
