"""The engine's log: bounded, UTF-8, and never in the way of the pipe."""

import os

from app.supervisor.log_file import LogPump, RotatingLog


def test_a_full_log_is_put_aside_and_only_so_many_are_kept(tmp_path):
    log = RotatingLog(tmp_path / "logs ü" / "engine.log", max_bytes=100, num_kept=2)
    for number in range(40):
        log.write_line(f"line {number:03d} 測")
    log.close()
    names = sorted(path.name for path in (tmp_path / "logs ü").iterdir())
    assert names == ["engine.1.log", "engine.2.log", "engine.log"]
    assert all(path.stat().st_size <= 100 for path in (tmp_path / "logs ü").iterdir())
    text = "".join(
        path.read_text(encoding="utf-8") for path in (log.older(2), log.older(1), log.path)
    )
    numbers = [int(line.split()[1]) for line in text.splitlines()]
    assert numbers == list(range(numbers[0], 40))
    assert len(numbers) > 10


def test_a_log_that_was_there_is_gone_on_with(tmp_path):
    path = tmp_path / "engine.log"
    path.write_text("old\n", encoding="utf-8")
    log = RotatingLog(path)
    log.write_line("new")
    log.close()
    assert path.read_text(encoding="utf-8") == "old\nnew\n"


def test_a_log_that_cannot_be_written_costs_lines_and_no_error(tmp_path, caplog):
    (tmp_path / "logs").write_text("a file where the folder should be")
    log = RotatingLog(tmp_path / "logs" / "engine.log")
    log.write_line("one")
    log.write_line("two")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_the_pipe_is_read_to_its_end_whatever_comes_through_it(tmp_path):
    source, sink = os.pipe()
    log = RotatingLog(tmp_path / "engine.log")
    heard = []
    pump = LogPump(os.fdopen(source, "rb"), log, heard.append)
    pump.start()
    with os.fdopen(sink, "wb") as pipe:
        pipe.write("gr\xfc\xdfe 測試\r\n".encode())
        pipe.write(b"\xff\xfe broken\n")
        pipe.write(b"x" * 200_000 + b"\n")
        pipe.write(b"no end")
    assert pump.last_lines(10)[-1] == "no end"
    assert heard[0] == "gr\xfc\xdfe 測試"
    assert "broken" in heard[1]
    assert sum(len(line) for line in heard[2:-1]) == 200_000
    lines = log.path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("--- ")
    assert lines[0].endswith(" start ---")
    assert lines[1:] == heard
