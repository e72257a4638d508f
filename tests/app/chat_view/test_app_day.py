"""The sped-up day of `bench/app_day.py`, short: the whole app in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.history.opening import open_history
from app.history.records import Conversation, Message, Role
from bench.app_day import COUNTS, Sample, growth_faults
from bench.app_day_rounds import Ledger

REPOSITORY = Path(__file__).resolve().parents[3]


def samples(*, rss_mb=0.0, each=0, at_times=0):
    """Of 30 rounds; what is added to each value in every round, and to counts in every other one."""
    return [
        Sample(
            200 + rss_mb * number,
            **dict.fromkeys(COUNTS, 100 + each * number + at_times * (number % 2)),
        )
        for number in range(30)
    ]


def test_what_grows_in_every_round_is_seen_and_what_comes_and_goes_is_not():
    assert growth_faults(samples(rss_mb=0.1, at_times=7)) == []
    found = growth_faults(samples(rss_mb=1.0, each=1))
    assert found[0] == "Memory grew from 210 to 228 MB."
    assert found[1] == "The number of handles grew from 114 to 124."
    assert len(found) == 1 + len(COUNTS)


def test_a_lost_a_changed_and_a_doubled_message_are_seen(tmp_path):
    def message(name, text):
        return Message(id=name, conversation_id="c", parent_id=None, role=Role.USER, text=text)

    ledger = Ledger()
    for name in ("kept", "lost", "changed"):
        ledger.note(message(name, ""), f"text of {name}")
    store = open_history(tmp_path).store
    store.put_conversation(Conversation("c", "Title"))
    kept = (("kept", "kept"), ("changed", "something"), ("again", "kept"))
    for name, text in kept:
        store.put_message(message(name, f"text of {text}"))
    assert store.close()
    assert ledger.faults(store.path) == [
        "Message lost is not in the file.",
        "Message again was never sent.",
        "Message changed has 17 characters of 15.",
        "“text of kept” is there 2 times.",
    ]


@pytest.mark.slow
def test_a_day_of_use_loses_no_message_and_grows_nothing():
    done = subprocess.run(
        [sys.executable, "-m", "bench.app_day", "--rounds", "15"],
        cwd=REPOSITORY,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    assert "2 killed engines" in done.stdout
