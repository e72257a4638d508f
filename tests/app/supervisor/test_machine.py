"""The state machine: a table of what follows from what, without Qt, processes or time."""

import pytest

from app.engine_status import EngineStatus, Failure, Loading, ServerState
from app.supervisor.events import (
    Adopt,
    AllowSleep,
    Asked,
    Command,
    Errand,
    ErrandDone,
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
    Suspending,
    Terminate,
    Ticked,
    WatchGone,
)
from app.supervisor.machine import Machine
from app.supervisor.state import Activity, LoadProgress, Phase, Reason, ReasonCode

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


def test_a_start_goes_through_all_phases_to_ready():
    life = Life()
    assert life.state.phase is Phase.STOPPED
    assert life.take(START) == [Prepare(1)]
    assert life.state.phase is Phase.STARTING
    life.spawn()
    assert (life.state.phase, life.state.pid) == (Phase.STARTING, life.pid)
    assert not life.machine.is_polling
    assert life.take(Listening(life.pid, URL)) == [LookNow()]
    assert (life.state.phase, life.state.base_url) == (Phase.LOADING, URL)
    assert life.machine.is_polling
    life.take(LOADING)
    assert life.state.progress == LoadProgress("weights", 1, 4)
    assert life.state.progress.share == 0.25
    life.take(IDLE)
    assert (life.state.phase, life.state.is_loaded) == (Phase.READY, True)
    assert (life.state.model, life.state.progress) == ("m", None)


@pytest.mark.parametrize(
    ("word", "activity"),
    [
        (ServerState.READING, Activity.READING),
        (ServerState.THINKING, Activity.THINKING),
        (ServerState.ANSWERING, Activity.ANSWERING),
        (ServerState.TOOL_CALL, Activity.TOOL_CALL),
    ],
)
def test_work_on_a_request_is_busy_with_what_it_is(word, activity):
    life = Life().ready()
    life.take(Heard(status(word, queued=2)))
    assert (life.state.phase, life.state.activity, life.state.queued) == (Phase.BUSY, activity, 2)
    life.take(IDLE)
    assert (life.state.phase, life.state.activity) == (Phase.READY, Activity.NONE)


def test_an_engine_that_runs_already_is_adopted_and_not_started_twice():
    life = Life()
    life.take(START)
    running = Running(77, URL, "nonce")
    assert life.take(Prepared(life.attempt, running)) == [Adopt(running), LookNow()]
    life.take(IDLE)
    assert life.state.is_adopted
    assert (life.state.phase, life.state.pid, life.state.base_url) == (Phase.READY, 77, URL)


def test_an_adopted_engine_that_ends_is_not_started_again():
    life = Life()
    life.take(START)
    life.take(Prepared(life.attempt, Running(77, URL, "nonce")))
    life.take(IDLE)
    life.take(Exited(77, None, Reason(ReasonCode.ENDED_OUTSIDE)))
    life.take(Gone())
    assert life.state.phase is Phase.STOPPED
    assert life.state.reason.code is ReasonCode.ENDED_OUTSIDE


def test_an_adopted_engine_that_is_silent_is_said_to_be_and_not_killed():
    life = Life()
    life.take(START)
    life.take(Prepared(life.attempt, Running(77, URL, "nonce")))
    life.take(IDLE)
    assert life.take(Missed(1.0), after=60) == []
    assert life.state.phase is Phase.FAILED
    assert life.state.reason.code is ReasonCode.NO_ANSWER
    life.take(IDLE)
    assert life.state.phase is Phase.READY


def test_a_config_that_cannot_be_used_fails_at_once_and_can_be_tried_again():
    life = Life()
    life.take(START)
    reason = Reason(ReasonCode.CONFIG_BROKEN)
    assert life.take(PrepareFailed(life.attempt, reason)) == []
    assert (life.state.phase, life.state.reason) == (Phase.FAILED, reason)
    assert life.take(START) == [Prepare(2)]


def test_a_program_that_the_system_does_not_start_fails():
    life = Life()
    life.take(START)
    life.take(Prepared(life.attempt))
    life.take(SpawnFailed(Reason(ReasonCode.PROGRAM_BROKEN)))
    assert life.state.phase is Phase.FAILED
    assert life.machine.due_s is None


def test_a_crash_is_followed_by_a_start_after_a_while():
    life = Life().ready()
    assert life.die() == [WatchGone(), Kill()]
    assert (life.state.phase, life.state.reason) == (Phase.STARTING, SEGFAULT)
    assert not life.machine.is_polling
    assert life.take(Gone()) == []
    assert life.tick(0.9) == []
    assert life.tick(0.1) == [Prepare(2)]
    assert life.state.reason == SEGFAULT  # still said while it starts again
    life.spawn()
    life.take(Listening(life.pid, URL))
    assert (life.state.phase, life.state.reason) == (Phase.LOADING, None)


def test_the_second_wait_is_longer_and_the_third_crash_is_the_last():
    life = Life().ready()
    life.crash()
    life.tick(1)
    life.spawn()
    life.crash()
    assert life.tick(1) == []
    assert life.tick(4) == [Prepare(3)]
    life.spawn()
    last = Reason(ReasonCode.OUT_OF_MEMORY)
    life.die(last, -9)
    assert life.state.phase is Phase.STOPPING
    life.take(Gone())
    assert (life.state.phase, life.state.reason) == (Phase.FAILED, last)
    assert life.machine.due_s is None
    # A person may try again, and then three crashes are free once more.
    life.take(START)
    life.spawn()
    life.crash()
    assert life.state.phase is Phase.STARTING


def test_crashes_of_long_ago_do_not_count():
    life = Life().ready()
    for _ in range(5):
        life.crash(after=200)
        assert life.state.phase is Phase.STARTING
        life.tick(5)
        life.spawn()
        life.take(Listening(life.pid, URL))
        life.take(IDLE)


@pytest.mark.parametrize(
    "reason",
    [
        Reason(ReasonCode.CONFIG_BROKEN, engine_code="config"),
        Reason(ReasonCode.MODEL_DAMAGED, engine_code="file_truncated"),
        Reason(ReasonCode.PROGRAM_BROKEN),
    ],
)
def test_what_would_fail_again_is_not_tried_again(reason):
    life = Life().started()
    life.die(reason, 2)
    life.take(Gone())
    assert (life.state.phase, life.state.reason) == (Phase.FAILED, reason)


def test_a_start_that_finds_its_port_taken_looks_for_an_engine_of_ours_there_once():
    taken = Reason(ReasonCode.PORT_IN_USE, {"port": 8080}, engine_code="port_in_use")
    life = Life().started()
    assert life.die(taken, 2) == [WatchGone()]
    assert life.take(Gone()) == [Prepare(2, seeks_other=True)]
    life.spawn()
    life.die(taken, 2)
    life.take(Gone())
    assert (life.state.phase, life.state.reason) == (Phase.FAILED, taken)


def test_a_start_that_says_that_another_one_runs_adopts_that_one():
    life = Life().started()
    life.die(Reason(ReasonCode.UNKNOWN), 0)
    assert life.take(Gone()) == [Prepare(2, seeks_other=True)]
    running = Running(77, URL, "nonce")
    assert life.take(Prepared(2, running)) == [Adopt(running), LookNow()]


def test_an_engine_that_somebody_else_ends_is_stopped_and_no_fault():
    life = Life().ready()
    life.die(Reason(ReasonCode.UNKNOWN), 0)
    life.take(Gone())
    assert life.state.phase is Phase.STOPPED
    assert life.state.reason.code is ReasonCode.ENDED_OUTSIDE


def test_a_stop_asks_then_terminates_then_kills_and_waits_for_the_last_process():
    life = Life().ready()
    assert life.take(STOP) == [Send(Errand.SHUTDOWN), WatchGone()]
    assert life.state.phase is Phase.STOPPING
    assert life.tick(24.9) == []
    assert life.tick(0.1) == [Terminate()]
    assert life.tick(15) == [Kill()]
    assert life.tick(10) == [Kill()]
    assert life.state.reason.code is ReasonCode.WILL_NOT_END
    life.die(status=-9)
    assert life.state.phase is Phase.STOPPING  # a relative may live
    life.take(Gone())
    assert (life.state.phase, life.state.pid, life.state.reason) == (Phase.STOPPED, None, None)


def test_a_stop_waits_longer_where_conversations_are_written():
    life = Life().ready(saves=True)
    life.take(STOP)
    assert life.tick(124.9) == []
    assert life.tick(0.1) == [Terminate()]


def test_what_outlives_the_front_is_killed_soon():
    life = Life().ready()
    life.take(STOP)
    life.die(status=0, after=1)
    assert life.state.phase is Phase.STOPPING
    assert life.tick(1.9) == []
    assert life.tick(0.1) == [Kill()]


def test_a_stop_asked_for_again_is_harder():
    life = Life().ready()
    life.take(STOP)
    assert life.take(STOP) == [Terminate()]
    assert life.take(STOP) == [Kill()]


def test_a_shutdown_that_is_refused_is_followed_by_a_signal():
    life = Life().ready()
    life.take(STOP)
    refusal = Reason(ReasonCode.UNKNOWN)
    assert life.take(ErrandDone(Errand.SHUTDOWN, refusal)) == [Terminate()]
    assert life.take(ErrandDone(Errand.SHUTDOWN, refusal)) == []


def test_a_start_that_is_not_heard_of_yet_is_stopped_by_a_signal():
    life = Life().started()
    assert life.take(STOP) == [WatchGone(), Terminate()]


def test_a_stop_before_the_process_is_there_ends_nothing_and_starts_nothing():
    life = Life()
    life.take(START)
    assert life.take(STOP) == [AllowSleep()]
    assert life.state.phase is Phase.STOPPED
    assert life.take(Prepared(1)) == []  # comes too late
    assert life.state.phase is Phase.STOPPED


def test_a_stop_between_two_starts_is_the_end_of_it():
    life = Life().ready()
    life.crash()
    life.take(STOP)
    assert life.state.phase is Phase.STOPPED
    assert life.tick(10) == []


def test_a_stop_while_a_crash_is_cleared_away_is_the_end_of_it():
    life = Life().ready()
    life.die()
    life.take(STOP)
    life.take(Gone())
    assert (life.state.phase, life.state.reason) == (Phase.STOPPED, None)


def test_a_stop_clears_a_failure():
    life = Life()
    life.take(START)
    life.take(PrepareFailed(1, Reason(ReasonCode.NO_MODEL)))
    life.take(STOP)
    assert (life.state.phase, life.state.reason) == (Phase.STOPPED, None)


def test_a_restart_stops_and_starts():
    life = Life().ready()
    assert life.take(RESTART) == [Send(Errand.SHUTDOWN), WatchGone()]
    assert life.take(RESTART) == []
    life.die(status=0)
    assert life.take(Gone()) == [Prepare(2)]


def test_a_start_while_it_stops_follows_the_stop():
    life = Life().ready()
    life.take(STOP)
    assert life.take(START) == []
    life.die(status=0)
    assert life.take(Gone()) == [Prepare(2)]


def test_the_end_of_an_earlier_process_that_is_told_late_changes_nothing():
    life = Life().ready()
    life.take(RESTART)
    old = life.pid
    life.take(Gone())
    life.spawn()
    assert life.take(Exited(old, 0, SEGFAULT)) == []
    assert life.take(Listening(old, URL)) == []
    assert life.state.phase is Phase.STARTING


@pytest.mark.parametrize("prepare", [Life, lambda: Life().ready()])
def test_quitting_finishes_when_nothing_lives_any_more(prepare):
    life = prepare()
    effects = life.take(QUIT)
    if life.machine.has_process:
        assert effects == [Send(Errand.SHUTDOWN), WatchGone()]
        assert life.take(START) == []
        life.die(status=0)
        effects = life.take(Gone())
    assert effects == [Finish()]
    assert life.machine.is_over
    assert life.state.phase is Phase.STOPPED
    assert life.take(START) == []


def test_quitting_can_be_hurried_by_a_stop_and_by_another_quit():
    life = Life().ready()
    life.take(QUIT)
    assert life.take(STOP) == [Terminate()]
    assert life.take(QUIT) == [Kill()]
    life.die(status=-9)
    assert life.take(Gone()) == [Finish()]


def test_quitting_while_it_stops_does_not_hurry():
    life = Life().ready()
    life.take(STOP)
    assert life.take(QUIT) == []
    life.die(status=0)
    assert life.take(Gone()) == [Finish()]


def test_a_busy_engine_that_does_not_answer_is_not_dead():
    life = Life().ready()
    for cpu_s in range(1, 9):  # it computes, as far as the system can see
        assert life.take(Missed(float(cpu_s)), after=5) == []
    assert life.take(Missed(9.0), after=11) == [WatchGone(), Kill()]  # for too long


def test_an_engine_that_neither_answers_nor_computes_is_started_again():
    life = Life().ready()
    life.take(Missed(1.0), after=1)
    assert life.take(Missed(1.0), after=9) == []
    assert life.take(Missed(1.0), after=1.5) == [WatchGone(), Kill()]
    assert life.state.reason.code is ReasonCode.NO_ANSWER
    life.take(Gone())
    assert life.tick(1) == [Prepare(2)]


def test_an_answer_makes_up_for_silence():
    life = Life().ready()
    life.take(Missed(1.0), after=9)
    life.take(IDLE, after=0.5)
    assert life.take(Missed(1.0), after=9) == []


def test_a_start_that_hangs_is_ended_and_tried_again():
    life = Life().started()
    for _ in range(9):
        assert life.tick(2, cpu_s=0.5) == []
    assert life.tick(4, cpu_s=0.5) == [WatchGone(), Kill()]
    assert life.state.reason.code is ReasonCode.START_HUNG
    assert life.state.phase is Phase.STARTING


def test_a_slow_start_that_computes_is_left_alone():
    life = Life().started()
    for cpu_s in range(1, 45):
        assert life.tick(2, cpu_s=float(cpu_s)) == []


def test_a_model_that_cannot_be_loaded_is_a_failure_of_an_engine_that_runs():
    life = Life().listening()
    failure = Failure("insufficient_ram", "needs 60 GB", {"needed": 60})
    life.take(Heard(status(ServerState.FAILED, failure=failure)))
    assert life.state.phase is Phase.FAILED
    assert life.state.reason.code is ReasonCode.OUT_OF_MEMORY
    assert life.state.base_url == URL
    assert life.take(START) == [Send(Errand.LOAD), LookNow()]
    assert (life.state.phase, life.state.reason) == (Phase.LOADING, None)
    life.take(IDLE)
    assert life.state.phase is Phase.READY


def test_memory_is_freed_and_the_engine_runs_on():
    life = Life().ready()
    assert life.take(FREE) == [Send(Errand.UNLOAD)]
    assert (life.state.phase, life.state.activity) == (Phase.READY, Activity.RELEASING)
    life.take(IDLE)  # it is still at it
    assert life.state.activity is Activity.RELEASING
    assert life.take(FREE) == []
    assert LookNow() in life.take(ErrandDone(Errand.UNLOAD))
    assert (life.state.activity, life.state.is_loaded) == (Activity.NONE, False)
    life.take(UNLOADED)
    assert (life.state.phase, life.state.is_loaded) == (Phase.READY, False)
    assert life.take(LOAD) == [Send(Errand.LOAD)]


def test_memory_is_not_freed_under_a_request():
    life = Life().ready()
    life.take(ANSWERING)
    assert life.take(FREE) == [Refuse(Reason(ReasonCode.BUSY))]
    life.take(IDLE)
    life.take(FREE)
    refusal = Reason(ReasonCode.BUSY, engine_code="busy")  # one has come in between
    assert Refuse(refusal) in life.take(ErrandDone(Errand.UNLOAD, refusal))
    assert life.state.is_loaded


def test_before_sleep_the_model_is_unloaded_and_after_it_loaded_again():
    life = Life().ready()
    assert life.take(Suspending()) == [Send(Errand.UNLOAD)]
    assert AllowSleep() in life.take(ErrandDone(Errand.UNLOAD))
    life.take(UNLOADED)
    assert life.take(Missed(0.0), after=40_000) == []  # it slept as we did
    assert life.take(Resumed(was_announced=True)) == [Send(Errand.LOAD), LookNow()]
    life.take(IDLE)
    assert life.state.is_loaded


def test_a_model_whose_unloading_ends_after_the_sleep_is_loaded_again():
    life = Life().ready()
    life.take(Suspending())
    life.take(Resumed(was_announced=True))
    assert life.take(ErrandDone(Errand.UNLOAD)) == [Send(Errand.LOAD), LookNow()]


def test_what_was_unloaded_before_the_sleep_stays_unloaded():
    life = Life().ready()
    life.take(UNLOADED)
    assert life.take(Suspending()) == [AllowSleep()]
    assert life.take(Resumed(was_announced=True)) == [LookNow()]


def test_sleep_is_not_held_up_by_a_request_or_by_nothing():
    life = Life()
    assert life.take(Suspending()) == [AllowSleep()]
    life = Life().ready()
    life.take(ANSWERING)
    assert life.take(Suspending()) == [AllowSleep()]
    assert life.take(Resumed(was_announced=True)) == [LookNow()]


def test_a_refused_unloading_before_the_sleep_is_nothing_to_tell():
    life = Life().ready()
    life.take(Suspending())
    effects = life.take(ErrandDone(Errand.UNLOAD, Reason(ReasonCode.BUSY)))
    assert effects == [LookNow(), AllowSleep()]
    assert life.take(Resumed(was_announced=True)) == [LookNow()]


@pytest.mark.parametrize(("ops", "reloads"), [("host avx2", False), ("cuda sm_89", True)])
def test_after_a_sleep_that_nobody_announced_only_a_graphics_card_is_loaded_anew(ops, reloads):
    life = Life().ready()
    life.take(Heard(status(ServerState.IDLE, ops=ops)))
    effects = life.take(Resumed(was_announced=False))
    assert effects == ([Send(Errand.UNLOAD)] if reloads else [LookNow()])
    if reloads:
        assert life.take(ErrandDone(Errand.UNLOAD)) == [Send(Errand.LOAD), LookNow()]


def test_time_asleep_is_not_silence():
    life = Life().ready()
    life.take(Missed(1.0), after=5)
    life.take(Resumed(was_announced=False), after=30_000)
    assert life.take(Missed(1.0), after=5) == []


@pytest.mark.parametrize(
    ("event", "watched_s", "unwatched_s"),
    [(IDLE, 2.0, 5.0), (ANSWERING, 0.5, 2.0), (LOADING, 0.5, 2.0), (UNLOADED, 2.0, 5.0)],
)
def test_an_engine_is_asked_as_often_as_there_is_something_to_see(event, watched_s, unwatched_s):
    machine = Life().ready().machine
    machine.handle(event, 2000.0)
    assert machine.poll_every_s(is_watched=True) == watched_s
    assert machine.poll_every_s(is_watched=False) == unwatched_s


@pytest.mark.parametrize(
    "event",
    [
        Gone(),
        Listening(1, URL),
        IDLE,
        Missed(0.0),
        Ticked(0.0),
        Exited(1, 0, SEGFAULT),
        ErrandDone(Errand.UNLOAD),
        Prepared(9),
        PrepareFailed(9, SEGFAULT),
        FREE,
        LOAD,
        Resumed(was_announced=True),
    ],
)
def test_a_stopped_engine_is_moved_by_nothing_but_a_start(event):
    life = Life()
    assert life.take(event) in ([], [AllowSleep()])
    assert life.state.phase is Phase.STOPPED
