"""Colours code in the idle time of the event loop, some milliseconds at a time."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from app.chat.view.markdown.highlight import HighlightJob
from app.chat.view.transcript.code_view import CodeGroup

_SLICE_S = 0.004
_PAUSE_MS = 4


class Colouring(QObject):
    """Takes code blocks that are seen and complete, and colours one after the other."""

    def __init__(self, on_coloured: Callable[[], None], parent: QObject) -> None:
        super().__init__(parent)
        self._on_coloured = on_coloured
        self._waiting: list[CodeGroup] = []
        self._group: CodeGroup | None = None
        self._num_views = 0
        self._job: HighlightJob | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(_PAUSE_MS)
        self._timer.timeout.connect(self._work)

    def want(self, group: CodeGroup) -> None:
        """Colour this block if that is still to be done."""
        if group.is_coloured or not group.is_complete or group is self._group:
            return
        if group not in self._waiting:
            self._waiting.append(group)
            self._timer.start()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return self._job is None and not self._waiting

    def _work(self) -> None:
        if self._job is None:
            # What has been scrolled past is not worth it; it is asked for again when it is seen.
            self._waiting = [group for group in self._waiting if group.is_seen]
            if not self._waiting:
                self._timer.stop()
                return
            self._group = self._waiting.pop()  # what was seen last first
            self._num_views = len(self._group.views)
            self._job = HighlightJob(self._group.code, self._group.language)
        if self._group is None or not self._job.run(_SLICE_S):
            return
        group, job = self._group, self._job
        self._group = self._job = None
        if group.is_complete and len(group.views) == self._num_views:
            group.put_spans(job.spans)
            self._on_coloured()
