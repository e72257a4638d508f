"""Sentences, one question, and progress on a terminal; or as JSON lines, for programs."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from engine.core.note import as_plain
from installer.download.progress import DownloadProgress, Phase
from installer.engine_run import RunProgress
from installer.i18n.texts import Texts
from installer.progress_words import progress_words
from installer.tune import TuneProgress

_BAR_STEPS = 1000
# Without a terminal: often enough that nobody takes it for hung, rarely enough for a log.
_LINE_PERIOD_S = 15.0
_JSON_PERIOD_S = 1.0


def say(line: str) -> None:
    """A line on standard output."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def answer_is_yes(question: str) -> bool:
    """Ask; only a typed yes is one. What was typed before the question came is no answer to it."""
    _forget_typed_ahead()
    sys.stdout.write(question)
    sys.stdout.flush()
    answer = sys.stdin.readline().strip().lower()
    return answer in {"y", "yes", "j", "是"}


def _forget_typed_ahead() -> None:
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415  # exists there only

        while msvcrt.kbhit():
            msvcrt.getwch()
        return
    import termios  # noqa: PLC0415  # exists there only

    with contextlib.suppress(OSError, ValueError, termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


class TerminalProgress:
    """One bar on standard error while something goes on; lines where that is no terminal."""

    def __init__(self, texts: Texts, *, as_json: bool = False) -> None:
        self._texts = texts
        self._as_json = as_json
        console = Console(stderr=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        if console.is_terminal and not as_json:
            self._bar = Progress(
                BarColumn(bar_width=28),
                TextColumn("{task.description}", markup=False),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=None)
        self._last = 0.0
        self._last_phase: tuple[str, str] = ("", "")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, progress: DownloadProgress) -> None:
        """Show a snapshot of a download."""
        if self._as_json:
            plain = as_plain(progress)
            if isinstance(plain, dict):
                self._json_line({"event": "download", **plain}, is_end=progress.phase is Phase.DONE)
            return
        words = progress_words(progress, self._texts)
        text = " · ".join(part for part in (words.what, words.figures) if part)
        self._show(text, words.share, (progress.phase.value, progress.file))

    def show_tuning(self, progress: TuneProgress) -> None:
        """Show a step of a measurement."""
        if self._as_json:
            self._json_line(
                {
                    "event": "tune",
                    "done": progress.done,
                    "total": progress.total,
                    "line": progress.line,
                },
                is_end=True,
            )
            return
        if not progress.total and progress.line:
            return  # the engine's log; the window shows it when it is asked for
        share = progress.done / progress.total if progress.total else None
        text = progress.line or self._texts.say("tune.running_unknown")
        self._show(text, share, ("tune", text))

    def show_card_check(self, progress: RunProgress) -> None:
        """Show a step of the check of a graphics card."""
        if self._as_json:
            step = {"event": "card", "done": progress.done, "total": progress.total}
            self._json_line({**step, "line": progress.line}, is_end=False)
        elif progress.total:
            share = progress.done / progress.total
            self._show(progress.name, share, ("card", progress.name))

    def _show(self, text: str, share: float | None, phase: tuple[str, str]) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task,
                description=text,
                total=_BAR_STEPS if share is not None else None,
                completed=round((share or 0.0) * _BAR_STEPS),
            )
            return
        now = time.monotonic()
        if phase != self._last_phase or now - self._last >= _LINE_PERIOD_S:
            self._last, self._last_phase = now, phase
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def _json_line(self, content: dict[str, object], *, is_end: bool) -> None:
        now = time.monotonic()
        if is_end or now - self._last >= _JSON_PERIOD_S:
            self._last = now
            sys.stderr.write(json.dumps(content, ensure_ascii=False) + "\n")
            sys.stderr.flush()
