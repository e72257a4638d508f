"""A chat on a real engine, and transcripts of made-up messages."""

import importlib.util
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("PySide6.QtWidgets", exc_type=ImportError)

from PySide6.QtWidgets import QApplication

from app.app_settings import Theme
from app.chat.service import ChatService
from app.chat.view.chat_view import ChatView
from app.chat.view.transcript.reading import ReadingTranscript
from app.engine_http import EngineAddress, EngineHttp
from app.history.records import Message, Role
from app.look.look import Look


def _load(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"chat_view_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_engine = _load("engine")

ANSWER = """# Result

Some *text* with `code` and a [link](https://example.com/page).

```python
def double(x):
    return 2 * x
```

| a | b |
|---|--:|
| 1 | 2 |

The end."""
NO_THINKING = "</think>\n\n"  # the template has begun it
SLOW = "Every word takes its time. " * 200


@pytest.fixture(scope="session")
def scripted(tmp_path_factory):
    """An engine whose answers are known: by what the question contains."""
    thinking = "<think>\nFirst this.\n\nThen that.\n</think>\n\n"
    answers = [
        {"when": "slowly", "text": NO_THINKING + SLOW, "times": 0, "delay_ms": 15},
        {
            "when": "think long",
            "text": f"<think>\n{SLOW}\n</think>\n\nDone.",
            "times": 0,
            "delay_ms": 15,
            "after_force": "Done early.",
        },
        {
            "when": "break",
            "text": NO_THINKING + SLOW,
            "times": 0,
            "fault": {"kind": "error", "after": 12},
        },
        {"text": thinking + ANSWER, "times": 0, "delay_ms": 0.2},
    ]
    folder = tmp_path_factory.mktemp("engine ü")
    engine = _engine.Engine(folder, {"answers": answers, "context": 8192})
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def bundled(tmp_path_factory):
    """An engine with the bundled model."""
    engine = _engine.Engine(tmp_path_factory.mktemp("engine"), None, "--context", "2048")
    yield engine
    engine.stop()


@pytest.fixture
def look(qapp):
    """Light colours, as the app sets them."""
    return Look(qapp, Theme.LIGHT)


@pytest.fixture
def open_chat(qtbot, tmp_path, look):
    """A function: a chat view on an engine's address; `None` = no engine."""
    services = []

    def start(engine, *, is_ours=False):
        """`is_ours`: the test itself deletes the view."""
        address = EngineAddress(engine.url) if engine is not None else None
        service = ChatService(tmp_path / "data ü", EngineHttp(address))
        services.append(service)
        if engine is not None:
            service.ask_for_facts()
            qtbot.waitUntil(lambda: service.facts.is_known, timeout=60_000)
        view = ChatView(SimpleNamespace(open_chats=lambda: service))
        if not is_ours:
            qtbot.addWidget(view)
        view.resize(1100, 800)
        view.show()
        view.activateWindow()
        qtbot.waitUntil(view.isActiveWindow, timeout=60_000)
        view.service = service
        return view

    yield start
    for service in services:
        service.close()


@pytest.fixture
def ask(qtbot):
    """A function: send a text and wait for the end of the answer, or for a condition."""

    def send(view, text, until=None):
        pane = view.pane
        pane.composer.edit.setPlainText(text)
        pane.send()
        controller = pane.controller

        def is_done():
            path = controller.path()
            if until is not None:
                return bool(path) and path[-1].is_answer and until(path[-1])
            return not controller.activity.is_busy and path[-1].is_answer

        qtbot.waitUntil(is_done, timeout=60_000)
        settle(view.pane.transcript)
        return controller.path()[-1]

    return send


def settle(transcript, seconds=60.0):
    """Let the transcript lay out, colour and draw formulas."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        QApplication.processEvents()
        if (
            transcript.colouring.is_idle
            and transcript.formulas.is_idle
            and not transcript._timer.isActive()
        ):
            return
        time.sleep(0.005)
    raise AssertionError("the transcript does not come to rest")


@pytest.fixture
def transcript(qtbot, look):
    """An empty transcript on the (offscreen) screen."""
    made = ReadingTranscript()
    qtbot.addWidget(made)
    made.resize(800, 600)
    made.show()
    return made


@pytest.fixture
def fill():
    """A function: show messages with these texts in turn, the person's first."""

    def show(transcript, texts, **changes):
        messages = [
            Message(
                id=f"m{place}",
                conversation_id="c",
                parent_id=f"m{place - 1}" if place else None,
                role=Role.ASSISTANT if place % 2 else Role.USER,
                text=text,
                **(changes if place % 2 else {}),
            )
            for place, text in enumerate(texts)
        ]
        transcript.show_messages(messages, lambda message_id: (message_id,))
        settle(transcript)
        return messages

    return show


@pytest.fixture
def settled():
    """The function `settle`."""
    return settle
