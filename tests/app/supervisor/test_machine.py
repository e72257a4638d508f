"""The state machine: a table of what follows from what, without Qt, processes or time."""

import pytest

from app.engine_status import ServerState
from app.supervisor.events import (
    Adopt,
    AllowSleep,
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
    Prepare,
    Prepared,
    PrepareFailed,
    Running,
    Send,
    SpawnFailed,
    Terminate,
    WatchGone,
)
from app.supervisor.state import Activity, LoadProgress, Phase, Reason, ReasonCode
from tests.app.supervisor.life import (
    IDLE,
    LOADING,
    QUIT,
    RESTART,
    SEGFAULT,
    START,
    STOP,
    URL,
    Life,
    status,
)


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
