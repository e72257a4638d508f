"""Memory that runs low is noticed beside the work."""

import threading

from engine.worker.memory_guard import MemoryGuard


class FakeWatch:
    """Low as often as it was told, then never again."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.has_run_out = threading.Event()

    def is_low(self):
        if not self.answers:
            self.has_run_out.set()
            return False
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            self.has_run_out.set()
            raise answer
        return answer


def test_an_alarm_wakes_the_worker_and_is_taken_once():
    woken = threading.Event()
    watch = FakeWatch([False, True])
    guard = MemoryGuard(watch, woken.set, look_every_s=0.001, rest_s=0.001)
    assert not guard.take_alarm()
    guard.start()
    assert woken.wait(60)
    assert guard.take_alarm()
    assert watch.has_run_out.wait(60)
    assert not guard.take_alarm()
    guard.close()


def test_after_an_alarm_the_next_look_waits_for_what_was_given_back():
    woken = threading.Event()
    watch = FakeWatch([True, True])
    guard = MemoryGuard(watch, woken.set, look_every_s=0.001, rest_s=1000.0)
    guard.start()
    assert woken.wait(60)
    guard.close()
    guard._thread.join(60)
    assert len(watch.answers) == 1


def test_a_look_that_fails_ends_the_watching_and_nothing_else(caplog):
    watch = FakeWatch([OSError("gone")])
    guard = MemoryGuard(watch, lambda: None, look_every_s=0.001)
    guard.start()
    assert watch.has_run_out.wait(60)
    guard._thread.join(60)
    assert not guard._thread.is_alive()
    assert "cannot be watched any more" in caplog.text
