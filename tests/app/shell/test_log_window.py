"""The log's window: follows a file that another program writes, replaces, and cuts in mid-letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.log_window import FIRST_BYTES, LogTail, LogWindow
from tests.app.shell.conftest import PATIENCE_MS


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


def test_only_whole_lines_are_read(log):
    tail = LogTail(log)
    whole = "erste Zeile\n测试\n".encode()
    log.write_bytes(whole[:-3])
    assert tail.read() == ("erste Zeile\n", True)
    with log.open("ab") as file:
        file.write(whole[-3:])
    assert tail.read() == ("测试\n", False)
    assert tail.read() == ("", False)


def test_of_a_large_log_only_the_end_is_read(log):
    log.write_bytes(b"old line\n" * 100_000 + b"the last\n")
    text, is_new = LogTail(log).read()
    assert is_new
    assert text.endswith("the last\n")
    assert len(text) <= FIRST_BYTES


def test_a_rotated_log_begins_anew(log):
    tail = LogTail(log)
    log.write_text("one\ntwo\n", "utf-8")
    tail.read()
    log.rename(log.with_suffix(".1"))
    log.write_text("three\n", "utf-8")
    assert tail.read() == ("three\n", True)


def test_a_log_that_is_not_there_yet_is_no_error(log):
    assert LogTail(log).read() == ("", False)


def test_the_window_follows(qtbot, log):
    log.write_text("one\n", "utf-8")
    window = LogWindow(log)
    qtbot.addWidget(window)
    window.show()
    assert window.text.toPlainText() == "one"
    with log.open("a", encoding="utf-8") as file:
        file.write("two\n")
    qtbot.waitUntil(lambda: window.text.toPlainText() == "one\ntwo", timeout=PATIENCE_MS)
