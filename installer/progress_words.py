"""A download's progress in words, the same in the window and on a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.note import Note
from installer.download.plan import DownloadPlan, Notice
from installer.download.progress import DownloadProgress, Phase
from installer.i18n.texts import Texts


@dataclass(frozen=True, slots=True)
class ProgressWords:
    """What is shown of a snapshot.

    Attributes:
        share: 0 to 1 of the bar; None while that is not known.
        what: what is being done.
        figures: how much, how fast, how long; may be empty.
    """

    share: float | None
    what: str
    figures: str


def progress_words(progress: DownloadProgress, texts: Texts) -> ProgressWords:
    """The words for a snapshot.

    The bar counts bytes that were fetched, and nothing else: it stands still while nothing comes.
    Where nothing is fetched it shows the file that is read or made.
    """
    phase = progress.phase
    figures: list[str] = []
    share: float | None = None
    if progress.bytes_total:
        share = min(1.0, progress.bytes_done / progress.bytes_total)
        figures.append(
            texts.say(
                "download.so_far",
                done_bytes=progress.bytes_done,
                total_bytes=progress.bytes_total,
            )
        )
        if progress.bytes_per_s > 0:
            figures.append(texts.say("download.speed", bytes_per_s=progress.bytes_per_s))
        if progress.eta_s is not None and phase is Phase.DOWNLOADING:
            figures.append(texts.say("download.eta", eta_s=progress.eta_s))
    elif phase is Phase.DONE:
        share = 1.0
    elif progress.file_bytes_total:
        share = min(1.0, progress.file_bytes_done / progress.file_bytes_total)
    if phase in (Phase.CHECKING, Phase.VERIFYING, Phase.PREPARING) and progress.file_bytes_total:
        percent = min(100, round(100 * progress.file_bytes_done / progress.file_bytes_total))
        figures.append(texts.say("download.percent", percent=percent))
    return ProgressWords(share, _what(progress, texts), " · ".join(figures))


def _what(progress: DownloadProgress, texts: Texts) -> str:
    key = f"wait.{progress.reason}"
    reason = texts.say(key if texts.has(key) else "wait.other")
    return texts.say(
        f"phase.{progress.phase.value}",
        file=progress.file,
        reason=reason,
        wait_s=progress.wait_s,
        attempt=progress.attempt,
        max_attempts=progress.max_attempts,
    )


def plan_lines(plan: DownloadPlan, texts: Texts) -> list[str]:
    """All files of a plan, and what there is to say about it."""
    lines = [
        texts.say(f"file.{file.action.value}", file=file.name, num_bytes=file.bytes)
        for file in plan.files
    ]
    return lines + [texts.note(as_note(notice)) for notice in plan.notices]


def as_note(notice: Notice) -> Note:
    """A plan's notice as a note."""
    return Note(notice.code, dict(notice.params))
