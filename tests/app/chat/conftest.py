"""Conversations with a real engine: the server process, and a service on a folder of the test."""

from __future__ import annotations

import contextlib
import threading

import pytest

with contextlib.suppress(ImportError):
    from tests.engine.server.conftest import start_server  # noqa: F401  # a fixture

try:
    import PySide6.QtWidgets  # noqa: F401  # whether it can be loaded
except ImportError:
    collect_ignore_glob = ["test_*.py"]

PATIENCE_MS = 90_000


class Chats:
    """A service, and what it and its conversations have said."""

    def __init__(self, service, qtbot):
        self.service = service
        self.ended, self.notices, self.saving = [], [], []
        self._qtbot = qtbot
        service.answer_ended.connect(lambda *values: self.ended.append(values))
        service.notice.connect(self.notices.append)
        service.saving_changed.connect(self.saving.append)

    def new(self, **settings):
        """A new conversation's controller, which notes what happens."""
        from dataclasses import replace  # noqa: PLC0415  # beside its only use

        controller = self.service.controller(self.service.new_conversation())
        if settings:
            controller.set_settings(replace(controller.conversation.settings, **settings))
        return self.listen(controller)

    def listen(self, controller):
        controller.heard = heard = {"text": "", "thinking": "", "phases": [], "activities": []}
        controller.problems = []

        def note_activity(activity):
            heard["activities"].append(activity)
            if not heard["phases"] or heard["phases"][-1] != activity.phase.value:
                heard["phases"].append(activity.phase.value)

        def note_text(_message_id, text):
            heard["text"] += text

        def note_thinking(_message_id, text):
            heard["thinking"] += text

        controller.activity_changed.connect(note_activity)
        controller.text_arrived.connect(note_text)
        controller.thinking_arrived.connect(note_thinking)
        controller.refused.connect(controller.problems.append)
        return controller

    def wait(self, condition):
        self._qtbot.waitUntil(lambda: bool(condition()), timeout=PATIENCE_MS)

    def ask(self, controller, text):
        """Send, and wait for the end of the answer."""
        assert controller.send(text), controller.problems
        return self.wait_idle(controller)

    def wait_idle(self, controller):
        self.wait(lambda: not controller.is_busy)
        return controller.path()[-1]

    def wait_phase(self, controller, *phases):
        self.wait(lambda: controller.activity.phase.value in phases)


def wait_for_threads():
    """Let requests end that nobody waits for: their connections are closed after them."""
    for thread in threading.enumerate():
        if thread.name in {"answer", "answer-control", "status", "background"}:
            thread.join(60)


@pytest.fixture
def open_chats(tmp_path, qtbot):
    """A function that makes a service for an engine at a URL."""
    from app.chat.service import ChatService  # noqa: PLC0415  # where there is Qt
    from app.engine_http import EngineAddress, EngineHttp  # noqa: PLC0415

    services = []

    def start(url=None, folder=None):
        http = EngineHttp(EngineAddress(url) if url else None)
        service = ChatService(folder or tmp_path / "data ü", http)
        services.append((service, http))
        return Chats(service, qtbot)

    yield start
    for service, http in services:
        service.close()
        wait_for_threads()
        http.close()
        service.deleteLater()


@pytest.fixture
def chats(open_chats, server):
    """A service on the module's server."""
    return open_chats(server.url)
