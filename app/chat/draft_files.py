"""Files and pictures on their way into a draft: read, checked and counted in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.background import Operation, Task, in_background
from app.chat.attachments import ReadFile, read_file
from app.chat.engine_side import EngineSide
from app.chat.pictures import cannot_see, check_picture
from app.chat.request_body import file_text
from app.engine_http import EngineHttp
from app.history.pending import Content
from app.history.records import Attachment, AttachmentKind, Problem, new_id
from app.history.store import HistoryStore
from engine.core.errors import EngineError

logger = logging.getLogger(__name__)

# Characters that the engine counts in one request.
COUNTED_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class _Ready:
    attachment: Attachment
    content: Content


class DraftFiles(QObject):
    """Reads files for one conversation.

    Signals:
        ready(attachment): its content is in the store.
        refused(problem): a file cannot be attached.
        pending_changed(count): how many are being read.
        counted(attachment_id, num_tokens): what a file costs, when the engine could be asked.
    """

    ready = Signal(object)
    refused = Signal(object)
    pending_changed = Signal(int)
    counted = Signal(str, int)

    def __init__(
        self,
        store: HistoryStore,
        engine: EngineSide,
        conversation_id: str,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._engine = store, engine
        self._conversation_id = conversation_id
        self._operations: set[Operation] = set()

    @property
    def num_pending(self) -> int:
        """Files that are being read."""
        return len(self._operations)

    def add_file(self, path: Path) -> None:
        """Read a file."""
        engine, conversation_id = self._engine, self._conversation_id

        def work(task: Task[None]) -> _Ready:
            read = read_file(path, task.check)
            if read.data is not None:
                _check_eyes(engine, read.name)
            return _ready(read, conversation_id)

        self._begin(work)

    def add_picture(self, data: bytes, name: str) -> None:
        """Take a picture that was pasted or dropped."""
        engine, conversation_id = self._engine, self._conversation_id

        def work(_task: Task[None]) -> _Ready:
            sees_pictures = _sees_pictures(engine)
            found_name, media_type = check_picture(data, name, sees_pictures=sees_pictures)
            read = ReadFile(found_name, media_type, len(data), data=data)
            return _ready(read, conversation_id)

        self._begin(work)

    def _begin(self, work: Callable[[Task[None]], _Ready]) -> None:
        operation = in_background(self, work, on_success=self._take, on_failure=self._say)
        self._operations.add(operation)
        operation.finished.connect(lambda: self._forget(operation))
        self.pending_changed.emit(self.num_pending)

    def _forget(self, operation: Operation) -> None:
        self._operations.discard(operation)
        self.pending_changed.emit(self.num_pending)

    def _take(self, ready: _Ready) -> None:
        self._store.put_attachment(ready.attachment.id, ready.content)
        self.ready.emit(ready.attachment)
        text = ready.content.text
        if text is not None:
            self._count(ready.attachment, text)

    def _say(self, error: EngineError) -> None:
        self.refused.emit(Problem(error.code, error.message, dict(error.params)))

    def _count(self, attachment: Attachment, text: str) -> None:
        http = self._engine.http

        def work(_task: Task[None]) -> int:
            return count_tokens(http, file_text(attachment.name, text))

        in_background(
            self,
            work,
            on_success=lambda count: self.counted.emit(attachment.id, count),
            on_failure=lambda error: logger.info("a file was not counted: %s", error.code),
        )


def count_tokens(http: EngineHttp, text: str) -> int:
    """How many tokens a text has; for threads.

    Raises:
        EngineHttpError: the engine cannot be asked.
    """
    total = 0
    for part in parts_of(text):
        body: dict[str, object] = {"content": part, "parse_special": False}
        tokens = http.post("/tokenize", body, read_timeout_s=120.0).get("tokens")
        total += len(tokens) if isinstance(tokens, list) else 0
    return total


def parts_of(text: str) -> Iterator[str]:
    """The text in parts that end with a line: a list of a million ids at once would hold up others."""
    start = 0
    while start < len(text):
        stop = start + COUNTED_AT_ONCE
        if stop < len(text):
            stop = text.rfind("\n", start, stop) + 1 or stop
        stop = max(stop, start + 1)
        yield text[start:stop]
        start = stop


def _ready(read: ReadFile, conversation_id: str) -> _Ready:
    kind = AttachmentKind.PICTURE if read.data is not None else AttachmentKind.TEXT
    attachment = Attachment(
        new_id(), kind, read.name, read.media_type, read.size_bytes, note=read.note
    )
    return _Ready(attachment, Content(conversation_id, read.text, read.data))


def _sees_pictures(engine: EngineSide) -> bool:
    """Whether the model sees pictures; asks the engine when it has not been asked yet.

    Raises:
        EngineHttpError: it cannot be asked.
    """
    facts = engine.facts if engine.facts.is_known else engine.read_facts()
    return facts.sees_pictures


def _check_eyes(engine: EngineSide, name: str) -> None:
    if not _sees_pictures(engine):
        raise cannot_see(name)
