"""The measurement as a child: its lines, its end, and its stop."""

from __future__ import annotations

import sys
import textwrap
import threading
from pathlib import Path

import pytest

from engine.core.language import Language
from installer.errors import StoppedError
from installer.i18n.texts import Texts
from installer.tune import TuneError, TuneProgress, TuneRun, parse_progress
from installer.tune_words import tuning_words


def run_of(tmp_path: Path, code: str) -> TuneRun:
    """A measurement whose engine is a script."""
    script = tmp_path / "fake engine.py"
    script.write_text("import sys, json, time\n" + textwrap.dedent(code), "utf-8")
    return TuneRun(tmp_path / "config.json", (sys.executable, str(script)))


def test_lines_of_progress_and_the_report_arrive(tmp_path):
    run = run_of(
        tmp_path,
        """
        print(json.dumps({"done": 1, "total": 2, "name": "threads", "line": "快"}), file=sys.stderr)
        print("a sentence", file=sys.stderr)
        print(json.dumps({"settings": {"threads": 4}, "arguments": sys.argv[1:]}))
        """,
    )
    seen: list[TuneProgress] = []
    report = run.run(seen.append)
    assert seen == [TuneProgress(1, 2, "threads", "快"), TuneProgress(line="a sentence")]
    assert report["settings"] == {"threads": 4}
    assert report["arguments"] == [
        "calibrate",
        "--config",
        str(tmp_path / "config.json"),
        "--json",
    ]


def test_a_failure_is_a_sentence_with_the_childs_last_words(tmp_path):
    run = run_of(tmp_path, "sys.exit('the model is not there')")
    with pytest.raises(TuneError, match="the model is not there"):
        run.run(lambda _progress: None)


def test_an_end_without_a_report_is_a_failure(tmp_path):
    with pytest.raises(TuneError, match="without a report"):
        run_of(tmp_path, "print('nothing')").run(lambda _progress: None)


def test_stop_ends_the_child_at_once(tmp_path):
    run = run_of(tmp_path, "print('begun', file=sys.stderr, flush=True); time.sleep(600)")
    with pytest.raises(StoppedError):
        run.run(lambda _progress: threading.Thread(target=run.stop).start())


def test_a_stop_before_the_start_starts_nothing(tmp_path):
    run = run_of(tmp_path, "raise SystemExit(1)")
    run.stop()
    with pytest.raises(StoppedError):
        run.run(lambda _progress: None)


@pytest.mark.parametrize("line", ["", "[1]", "{", '"text"', "null"])
def test_a_line_that_is_no_object_is_a_sentence(line):
    assert parse_progress(line) == TuneProgress(line=line)


def test_odd_numbers_in_a_line_are_no_progress():
    assert parse_progress('{"done": "x", "total": null}') == TuneProgress()


@pytest.mark.parametrize("report", [{}, {"settings": None, "findings": 3}, {"findings": [1]}])
def test_an_odd_report_is_nothing_measured(report):
    texts = Texts(Language.ENGLISH)
    assert tuning_words(report, texts).summary == texts.say("tune.done_nothing")


def test_a_report_names_what_was_kept_and_what_stays():
    report = {
        "settings": {"threads": 6},
        "findings": [
            {"key": "threads", "value": 6, "default": 8, "gain": 0.031, "is_kept": True},
            {"key": "prompt_chunk", "value": 512, "default": 256, "gain": 0.029, "is_kept": False},
        ],
    }
    words = tuning_words(report, Texts(Language.ENGLISH))
    assert "processor threads" in words.summary
    assert words.lines[0].endswith("3.1 % faster than 8, and is kept")
    assert words.lines[1] == "prompt tokens at a time: 256 stays"
