"""The state machine while an engine runs: signs of life, memory that is freed, sleep."""

import pytest

from app.engine_status import Failure, ServerState
from app.supervisor.events import (
    AllowSleep,
    Errand,
    ErrandDone,
    Exited,
    Gone,
    Heard,
    Kill,
    Listening,
    LookNow,
    Missed,
    Prepare,
    Prepared,
    PrepareFailed,
    Refuse,
    Resumed,
    Send,
    Suspending,
    Ticked,
    WatchGone,
)
from app.supervisor.state import Activity, Phase, Reason, ReasonCode
from tests.app.supervisor.life import (
    ANSWERING,
    FREE,
    IDLE,
    LOAD,
    LOADING,
    SEGFAULT,
    START,
    UNLOADED,
    URL,
    Life,
    status,
)


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
