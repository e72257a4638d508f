"""The chat window under load: opening 1,000 messages, and a streamed answer of 60,000 tokens.

    python -m bench.app_chat [--tokens 60000] [--per-s 2000] [--messages 1000]

Real view, real controller, a real engine with the scripted worker; Qt draws into memory. Prints the
time to open, the longest time that the event loop was blocked, the growth of memory, and how much of a
core was taken. A blocked loop is seen by a timer of 2 ms: what is between two of its beats.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import psutil
from PySide6.QtCore import QEventLoop, QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication

from app.app_settings import Theme
from app.chat.service import ChatService
from app.chat.view.chat_view import ChatView
from app.engine_http import EngineAddress, EngineHttp
from app.history.records import Conversation, Message, MessageStats, Role, new_id
from app.history.store import HistoryStore
from app.look.look import Look

REPOSITORY = Path(__file__).resolve().parents[1]
READY = re.compile(r"ready at (http://[^ ]*:\d+)")
CHARS_PER_TOKEN = 4  # of the 248,320-token vocabulary, in English and code

PART = """## Part {n}: what it does

The function below takes a list of **{n}** values and returns their *running mean*; see `mean_{n}`.
It is called once per frame, so it must not allocate. For large inputs the error grows with $\\sqrt{{n}}$.

1. Read the values and check them.
2. Keep the sum in double precision, as in [the paper](https://example.com/{n}).
3. Write the result.

```python
class Running{n}:
    \"\"\"Mean of the last {n} values.\"\"\"

    def __init__(self, size: int = {n}) -> None:
        self.values = [0.0] * size  # a ring
        self.place = 0

    def add(self, value: float) -> float:
        total = sum(self.values) - self.values[self.place] + value
        self.values[self.place] = value
        self.place = (self.place + 1) % len(self.values)
        return total / len(self.values)
```

| step | time (ms) | memory (KB) | what is measured |
|:-----|----------:|------------:|:-----------------|
| read | {n}.5 | 1{n} | from the file to the list |
| add | 0.0{n} | 0 | one value |
| all | {n}.7 | 2{n} | the whole run |

> Measured with a warm cache; the first run takes about twice as long.

"""


@dataclass(slots=True)
class Beat:
    """Watches the event loop.

    Attributes:
        gaps: every time between two beats, in seconds.
        work: of these, what this thread computed; the rest is other programs' and threads' time.
    """

    gaps: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    _last: float = 0.0
    _last_work: float = 0.0

    def beat(self) -> None:
        """Called by the timer."""
        now, work = time.perf_counter(), time.thread_time()
        if self._last:
            self.gaps.append(now - self._last)
            self.work.append(work - self._last_work)
        self._last, self._last_work = now, work


class Engine:
    """`engine serve --script`."""

    def __init__(
        self, folder: Path, text: str, per_s: float, *, prompt_delay_ms: float = 0
    ) -> None:
        group = 24
        answer = {
            "text": "</think>\n\n" + text,  # the template has begun the thinking
            "group": group,
            "delay_ms": 1000 * group / per_s,
            "times": 0,
            "prompt_delay_ms": prompt_delay_ms,
            "prompt_steps": 20,
        }
        script = {"format": 1, "context": 400_000, "answers": [answer]}
        path = folder / "script.json"
        path.write_text(json.dumps(script), encoding="utf-8")
        command = [sys.executable, "-m", "engine", "serve", "--port", "0", "--script", str(path)]
        with (folder / "engine.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--repeat-stop-tokens", "0"],
                cwd=REPOSITORY,
                env={**os.environ, "STRATUM_HOME": str(folder / "home")},
                stdout=subprocess.PIPE,
                stderr=log,
            )
        if self.process.stdout is None:
            raise RuntimeError("the engine has no output")
        found = READY.search(self.process.stdout.readline().decode())
        if found is None:
            raise RuntimeError((folder / "engine.log").read_text(encoding="utf-8"))
        self.url = found[1]
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):  # noqa: S310
                    return
            except OSError:
                time.sleep(0.05)

    def stop(self) -> None:
        """End it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


class Shell(QObject):
    """As much of the app's context as the chat asks for."""

    def __init__(self, service: ChatService) -> None:
        super().__init__()
        self._service = service

    def open_chats(self) -> ChatService:
        """All conversations."""
        return self._service


def fill(data_dir: Path, count: int) -> str:
    """A conversation of so many messages on disk; its id."""
    from app.history.opening import open_history  # noqa: PLC0415

    store: HistoryStore = open_history(data_dir).store
    conversation_id, parent = new_id(), None
    begin = time.time() - count
    messages: list[Message] = []
    for number in range(count):
        is_answer = number % 2 == 1
        message = Message(
            id=new_id(),
            conversation_id=conversation_id,
            parent_id=parent,
            role=Role.ASSISTANT if is_answer else Role.USER,
            text=PART.format(n=number) if is_answer else f"Question {number}: how does it work?",
            thinking="Let me think." if is_answer else "",
            stats=MessageStats(generated_tokens=300, generated_per_s=40.0) if is_answer else None,
            created_at=begin + number,
        )
        messages.append(message)
        parent = message.id
    conversation = Conversation(conversation_id, "Long", active_leaf=parent, updated_at=begin)
    store.put_conversation(conversation)
    for message in messages:
        store.put_message(message)
    store.close()
    return conversation_id


def spin(seconds: float) -> None:
    """Let the event loop run."""
    loop = QEventLoop()
    QTimer.singleShot(round(seconds * 1000), loop.quit)
    loop.exec()


def measure_open(view: ChatView, conversation_id: str) -> tuple[float, float]:
    """Milliseconds until the conversation is laid out and drawn, first and second time."""
    times = []
    for _round in range(2):
        view.new()
        spin(0.3)
        begin = time.perf_counter()
        view.open(conversation_id)
        view.pane.transcript.lay_out()
        view.pane.repaint()
        times.append(1000 * (time.perf_counter() - begin))
        spin(0.3)
    return times[0], times[1]


def measure_stream(view: ChatView, app: QApplication) -> dict[str, float]:
    """A streamed answer, watched."""
    view.new()
    spin(1.0)
    gc.collect()
    process = psutil.Process()
    memory, cpu = process.memory_info().rss, process.cpu_times()
    beat = Beat()
    timer = QTimer(app)
    timer.setTimerType(Qt.TimerType.PreciseTimer)
    timer.timeout.connect(beat.beat)
    timer.start(2)
    most = memory
    view.pane.composer.put_text("Explain all of it.")
    begin = time.perf_counter()
    view.pane.send()
    controller = view.pane.controller
    if controller is None:
        raise RuntimeError("no conversation is open")
    loop = QEventLoop()
    controller.answer_ended.connect(loop.quit)
    watch = QTimer(app)

    def look() -> None:
        nonlocal most
        most = max(most, process.memory_info().rss)

    watch.timeout.connect(look)
    watch.start(1000)
    loop.exec()
    took = time.perf_counter() - begin
    spin(1.0)
    timer.stop()
    watch.stop()
    used = process.cpu_times()
    answer = controller.path()[-1]
    gaps = sorted(beat.gaps)
    return {
        "tokens": float(answer.stats.generated_tokens if answer.stats else 0),
        "chars": float(len(answer.text)),
        "seconds": took,
        "longest_ms": 1000 * gaps[-1],
        "work_ms": 1000 * max(beat.work),
        "p999_ms": 1000 * gaps[round(len(gaps) * 0.999) - 1],
        "median_ms": 1000 * statistics.median(gaps),
        "over_50_ms": float(sum(gap > 0.05 for gap in gaps)),
        "memory_mb": (max(most, process.memory_info().rss) - memory) / 1e6,
        "core_percent": 100 * (used.user + used.system - cpu.user - cpu.system) / took,
    }


def measure_scroll(view: ChatView) -> float:
    """The longest step in milliseconds while the whole answer is scrolled through."""
    bar = view.pane.transcript.verticalScrollBar()
    longest = 0.0
    page = bar.pageStep() // 2
    for _step in range(150):
        begin = time.perf_counter()
        bar.setValue(bar.value() - page)
        view.pane.transcript.viewport().repaint()
        longest = max(longest, time.perf_counter() - begin)
        spin(0.005)
    return 1000 * longest


def main() -> None:
    """Run everything and print the figures."""
    parser = argparse.ArgumentParser(description="The chat window under load.")
    parser.add_argument("--tokens", type=int, default=60_000)
    parser.add_argument("--per-s", type=float, default=3000, help="tokens of the bundled model")
    parser.add_argument("--messages", type=int, default=1000)
    options = parser.parse_args()
    size = options.tokens * CHARS_PER_TOKEN
    text, number = "", 0
    while len(text) < size:
        number += 1
        text += PART.format(n=number)
    app = QApplication([])
    Look(app, Theme.LIGHT)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        data = folder / "data"
        data.mkdir()
        long_id = fill(data, options.messages)
        engine = Engine(folder, text[:size], options.per_s)
        service = ChatService(data, EngineHttp(EngineAddress(engine.url)))
        try:
            service.ask_for_facts()
            view = ChatView(Shell(service))  # type: ignore[arg-type]  # it asks for nothing else
            view.resize(1200, 900)
            view.show()
            spin(1.0)
            first, second = measure_open(view, long_id)
            print(f"open {options.messages} messages: {first:.0f} ms, again {second:.0f} ms")
            found = measure_stream(view, app)
            print(
                f"answer of {found['tokens']:.0f} tokens ({found['chars'] / 1000:.0f} KB) in "
                f"{found['seconds']:.0f} s: loop blocked at most {found['longest_ms']:.1f} ms "
                f"(of its own work {found['work_ms']:.1f} ms; "
                f"{found['over_50_ms']:.0f} times over 50 ms, 99.9 % below "
                f"{found['p999_ms']:.1f} ms, median {found['median_ms']:.1f} ms), memory "
                f"+{found['memory_mb']:.0f} MB, {found['core_percent']:.0f} % of a core"
            )
            print(f"scrolling through it: at most {measure_scroll(view):.1f} ms a step")
            view.deleteLater()
        finally:
            service.close()
            engine.stop()


if __name__ == "__main__":
    main()
