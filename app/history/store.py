"""The conversations on disk.

    store = open_history(data_dir).store        (opening.py)
    store.put_conversation(conversation)
    store.put_message(message)                  # returns at once; a thread writes it
    store.grow(message_id, "more text")         # a part of a growing answer
    store.close()

Any thread may call any method. Changes are held in memory until they are in the file (`pending.py`), and
reading sees them: so a full disk costs nothing but a sentence. A killed app loses at most the last half
second of an answer or of an unsent text, and nothing that was sent.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from app.history.database import Database
from app.history.errors import HistoryError, is_damage, save_problem
from app.history.pending import Content, Pending, Piece
from app.history.records import Conversation, Message, MessageState, Problem, SearchHit
from app.history.rows import MESSAGE_COLUMNS, read_message, with_pieces
from app.history.searching import search_file
from app.history.tree import MessageTree

logger = logging.getLogger(__name__)

T = TypeVar("T")

# How long changes that nobody waits for are collected before they are written.
BATCH_S = 0.4
# After a failure; doubled up to the second.
RETRY_S = 1.0
RETRY_MOST_S = 15.0
# Deleted conversations can be brought back for so long, at least until the app ends.
KEEP_DELETED_S = 24 * 3600.0
# Errors after which a repair was tried and failed are not repaired again and again.
MAX_REPAIRS = 3

Listener = Callable[[Problem | None], None]


def _nobody(_problem: Problem | None) -> None:
    """Nobody listens yet."""


class HistoryStore:
    """Conversations, messages and attachments of one file.

    Attributes:
        on_saving: told from another thread when saving begins to fail (a `Problem`) and when all is
            saved again (None).
        on_notice: told from another thread of a `Problem` to show once, such as a damaged file.
    """

    def __init__(self, path: Path, *, batch_s: float = BATCH_S, retry_s: float = RETRY_S) -> None:
        """Open or make the file, and bring it in order after a crash.

        Raises:
            HistoryTooNewError: a newer version of Stratum wrote it.
            sqlite3.Error, OSError: it is damaged, or cannot be read or made.
        """
        self.path = path
        self.on_saving: Listener = _nobody
        self.on_notice: Listener = _nobody
        self._batch_s, self._retry_s = batch_s, retry_s
        self._lock = threading.RLock()  # of everything below
        self._changed = threading.Condition(self._lock)
        self._pending = Pending()
        self._is_urgent = False
        self._is_closing = False
        self._problem: Problem | None = None
        self._num_repairs = 0
        self._database = Database(path)
        try:
            self._conversations = self._database.read_conversations()
            for message in self._database.read_left_behind():
                self._pending.put_message(message)
        except BaseException:
            self._database.close()
            raise
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()
        # Beside it: a large file takes minutes to be copied, and saving must not wait.
        self._house = threading.Thread(target=self._keep_house, name="history-copy", daemon=True)
        self._house.start()

    # -- conversations ---------------------------------------------------------------------------

    def conversations(self) -> list[Conversation]:
        """All that are not deleted, the latest first."""
        with self._lock:
            listed = [c for c in self._conversations.values() if c.deleted_at is None]
        return sorted(listed, key=lambda c: c.updated_at, reverse=True)

    def conversation(self, conversation_id: str) -> Conversation:
        """One of them, deleted or not.

        Raises:
            KeyError: there is none of this id.
        """
        with self._lock:
            return self._conversations[conversation_id]

    def put_conversation(self, conversation: Conversation, *, is_urgent: bool = False) -> None:
        """Add a conversation, or replace the one of its id."""
        with self._changed:
            self._conversations[conversation.id] = conversation
            self._pending.conversations[conversation.id] = conversation
            self._wake(is_urgent=is_urgent)

    def delete(self, conversation_id: str) -> None:
        """Take a conversation out of the list; `restore` brings it back.

        It is removed from the file a day later, when the app is started.
        """
        self._set_deleted(conversation_id, time.time())

    def restore(self, conversation_id: str) -> None:
        """Undo `delete`."""
        self._set_deleted(conversation_id, None)

    def purge(self, conversation_id: str) -> None:
        """Remove a conversation for good, now."""
        with self._changed:
            self._conversations.pop(conversation_id, None)
            self._pending.purge(conversation_id)
            self._wake(is_urgent=True)

    def _set_deleted(self, conversation_id: str, when: float | None) -> None:
        with self._changed:
            changed = replace(self._conversations[conversation_id], deleted_at=when)
            self.put_conversation(changed, is_urgent=True)

    # -- messages --------------------------------------------------------------------------------

    def tree(self, conversation_id: str) -> MessageTree:
        """All messages of a conversation; growing ones with what they have.

        Raises:
            HistoryError: the file cannot be read.
        """
        return self._reading(lambda: self._read_tree(conversation_id))

    def put_message(self, message: Message) -> None:
        """Add a message, or replace the one of its id.

        The text of a growing one is what it had before `grow` was first called for it; the text of
        one that has ended is the whole.
        """
        with self._changed:
            self._pending.put_message(message)
            self._wake(is_urgent=message.state is not MessageState.GROWING)

    def grow(self, message_id: str, text: str = "", thinking: str = "") -> None:
        """Add to a growing answer."""
        with self._changed:
            pieces = self._pending.pieces.setdefault(message_id, [])
            if thinking:
                pieces.append(Piece(is_thinking=True, text=thinking))
            if text:
                pieces.append(Piece(is_thinking=False, text=text))
            self._wake(is_urgent=False)

    def _read_tree(self, conversation_id: str) -> MessageTree:
        with contextlib.ExitStack() as stack:
            with self._database.commit_lock:  # each change is seen either there or here, and once
                connection = stack.enter_context(self._database.reader.snapshot())
                with self._lock:
                    pending = self._pending.copy()
            sql = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE conversation_id = ? ORDER BY seq"  # noqa: S608  # our own columns
            tree = MessageTree(
                read_message(row) for row in connection.execute(sql, (conversation_id,))
            )
            for message in pending.messages_of(conversation_id):
                tree.put(message)
            for message in list(tree):
                if message.state is MessageState.GROWING:
                    saved = with_pieces(connection, message)
                    text, thinking = pending.parts(message.id)
                    tree.put(
                        replace(saved, text=saved.text + text, thinking=saved.thinking + thinking)
                    )
            return tree

    # -- attachments -----------------------------------------------------------------------------

    def put_attachment(self, attachment_id: str, content: Content) -> None:
        """Keep what is inside an attachment."""
        with self._changed:
            self._pending.attachments[attachment_id] = content
            self._wake(is_urgent=True)

    def drop_attachment(self, attachment_id: str) -> None:
        """Forget what is inside an attachment that was never sent."""
        with self._changed:
            self._pending.attachments.pop(attachment_id, None)
            self._pending.dropped.add(attachment_id)
            self._wake(is_urgent=False)

    def attachment(self, attachment_id: str) -> Content | None:
        """What is inside an attachment; None when it is lost.

        Raises:
            HistoryError: the file cannot be read.
        """
        return self._reading(lambda: self._read_attachment(attachment_id))

    def _read_attachment(self, attachment_id: str) -> Content | None:
        with contextlib.ExitStack() as stack:
            with self._database.commit_lock:
                with self._lock:
                    waiting = self._pending.attachments.get(attachment_id)
                if waiting is not None:
                    return waiting
                connection = stack.enter_context(self._database.reader.snapshot())
            sql = "SELECT conversation_id, text, data FROM attachments WHERE id = ?"
            row = connection.execute(sql, (attachment_id,)).fetchone()
            return Content(row[0], row[1], row[2]) if row is not None else None

    # -- searching -------------------------------------------------------------------------------

    def search(self, query: str, *, limit: int = 100) -> list[SearchHit]:
        """Conversations and messages that contain all words of the query, the latest first.

        Takes time in a large history: call it in a thread. What was written within the last half
        second may be missing.

        Raises:
            HistoryError: the file cannot be read.
        """

        def search() -> list[SearchHit]:
            with self._database.searcher.snapshot() as connection:
                return search_file(connection, query, limit)

        return self._reading(search)

    # -- saving ----------------------------------------------------------------------------------

    @property
    def save_problem(self) -> Problem | None:
        """Why saving fails at the moment."""
        with self._lock:
            return self._problem

    @property
    def is_saved(self) -> bool:
        """Whether everything is in the file."""
        with self._lock:
            return not self._pending

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until everything is in the file; False when that did not happen in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._wake(is_urgent=True)
            while self._pending:
                left = deadline - time.monotonic()
                if left <= 0 or not self._thread.is_alive():
                    return False
                self._changed.wait(left)
        return True

    def close(self, timeout_s: float = 10.0) -> bool:
        """Write what is left and let the file go; whether everything is in it."""
        is_saved = self.flush(timeout_s)
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        self._database.stop_copying()
        self._house.join(timeout_s)
        if not self._thread.is_alive():
            if self._pending:  # a repair that ended meanwhile wants conversations in the new file
                with contextlib.suppress(sqlite3.Error):
                    self._write_pending()
            self._database.close()
        return is_saved

    def _wake(self, *, is_urgent: bool) -> None:
        self._is_urgent = self._is_urgent or is_urgent
        self._changed.notify_all()

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        retry_s = self._retry_s
        while self._wait_for_changes():
            try:
                self._write_pending()
            except sqlite3.Error as error:
                if is_damage(error) and self._repair(error):
                    continue
                self._note_problem(save_problem(error, str(self.path)))
            except Exception as error:
                # A fault of ours must not end saving for good.
                logger.exception("the history could not be saved")
                self._note_problem(save_problem(OSError(str(error)), str(self.path)))
            else:
                retry_s = self._retry_s
                if self.is_saved:
                    self._note_problem(None)
                continue
            with self._changed:
                # Whoever waits for it has perhaps just made room.
                self._changed.wait_for(lambda: self._is_closing or self._is_urgent, retry_s)
            retry_s = min(retry_s * 2, RETRY_MOST_S)

    def _wait_for_changes(self) -> bool:
        """Wait until there is something to write; False when the store closes."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._pending) or self._is_closing)
            if self._is_closing:
                return False
            if not self._is_urgent:
                self._changed.wait_for(lambda: self._is_urgent or self._is_closing, self._batch_s)
            self._is_urgent = False
            return True

    def _write_pending(self) -> None:
        with self._database.commit_lock:
            with self._lock:
                batch = self._pending.copy()
            self._database.write(batch)
            with self._changed:
                self._pending.remove(batch)
                self._changed.notify_all()

    def _note_problem(self, problem: Problem | None) -> None:
        with self._lock:
            before, self._problem = self._problem, problem
        if (before.code if before else None) != (problem.code if problem else None):
            if problem is not None:
                logger.warning("the history is not saved: %s", problem.code)
            self.on_saving(problem)

    def _keep_house(self) -> None:
        """What can wait until the app is on the screen."""
        with self._lock:
            known = list(self._conversations.values())
        for conversation in known:
            deleted_at = conversation.deleted_at
            if deleted_at is not None and time.time() - deleted_at > KEEP_DELETED_S:
                self.purge(conversation.id)
        if not known:
            return
        try:
            self._database.keep_copy_now_and_then()
        except sqlite3.Error as error:
            if is_damage(error) and not self._is_closing:
                self._repair(error)
            else:
                logger.warning("no second copy of the history: %s", error)
        except OSError as error:
            logger.warning("no second copy of the history: %s", error)

    # -- damage ----------------------------------------------------------------------------------

    def _reading(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.Error as error:
            if not (is_damage(error) and self._repair(error)):
                raise self._unreadable(error) from error
        try:
            return work()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: sqlite3.Error) -> HistoryError:
        return HistoryError(
            f"The conversations in {self.path} cannot be read ({error}). Try again.",
            code="history_unreadable",
            params={"path": str(self.path), "reason": str(error)},
        )

    def _repair(self, error: sqlite3.Error) -> bool:
        """Go on with what can be read of the damaged file, and with what is here."""
        with self._lock:
            self._num_repairs += 1
            if self._num_repairs > MAX_REPAIRS:
                return False
        try:
            problem = self._database.repair(error, self._take_up)
        except (sqlite3.Error, OSError) as failure:
            logger.warning("the damaged history cannot be replaced: %s", failure)
            return False
        if problem is not None:
            self.on_notice(problem)
        return True

    def _take_up(self) -> None:
        """All conversations are to be written once more: a replaced file may lack some of them."""
        found = self._database.read_conversations()
        with self._changed:
            self._conversations = {**found, **self._conversations}
            # What is in memory is newer than what was found.
            self._pending.conversations.update(self._conversations)
            self._wake(is_urgent=True)
