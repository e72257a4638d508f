# ruff: noqa: RUF001  # full-width punctuation is right in Chinese
"""Takes the pictures of the chat in docs/images: both languages, both themes, a real engine.

python -m tools.chat_pictures [--out docs/images] [--only NAME] [--scale 2]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication, QWidget

from app.app_settings import Theme
from app.chat.service import ChatService
from app.chat.view.chat_view import ChatView
from app.chat.view.shortcuts import KeyOverview
from app.engine_http import EngineAddress, EngineHttp
from app.history.opening import open_history
from app.history.records import (
    Attachment,
    AttachmentKind,
    Conversation,
    Message,
    MessageStats,
    Role,
    ToolCall,
    ToolState,
    new_id,
)
from app.i18n.translate import Translations
from app.look.look import Look
from bench.app_chat import Engine, Shell
from engine.core.language import Language
from tools.small_pictures import make_small

QUESTIONS = {
    Language.ENGLISH: (
        "Why does a running mean lose precision, and how do I write one that does not?",
        "Sort these words by length, please",
        "Plan a week of dinners without meat",
        "What changed in the report since March?",
        "Explain how a transformer reads a sentence",
    ),
    Language.CHINESE: (
        "为什么滑动平均会损失精度？怎样写才不会？",
        "请按长度给这些词排序",
        "安排一周不含肉的晚餐",
        "三月以来报告有哪些变化？",
        "解释一下 Transformer 如何读句子",
    ),
}
ANSWERS = {
    Language.ENGLISH: r"""A running mean that *subtracts the oldest value* keeps every rounding error it ever made. With $n$ values the error grows about as $\sqrt{n}$:

$$
\bar{x}_k = \bar{x}_{k-1} + \frac{x_k - x_{k-n}}{n}, \qquad \varepsilon_k \approx \varepsilon_0 \sqrt{\sum_{i=1}^{k} x_i^2}
$$

Keep a **compensation** beside the sum (Kahan); see [the original note](https://example.com/kahan):

```python
class RunningMean:
    '''Mean of the last values, without drift.'''

    def __init__(self, size: int = 64) -> None:
        self.values = [0.0] * size  # a ring
        self.total = self.lost = 0.0

    def add(self, value: float) -> float:
        step = value - self.lost
        total = self.total + step
        self.lost = (total - self.total) - step
        self.total = total
        return total / len(self.values)
```

| method | error after 10⁶ steps | cost |
|:-------|----------------------:|:-----|
| subtract and add | 3.1e-10 | 2 operations |
| **Kahan** | 1.1e-16 | 5 operations |

> Summing the ring anew every $n$ steps is nearly as good, and simpler.
""",
    Language.CHINESE: r"""*减去最旧值*的滑动平均会保留每一次舍入误差。对 $n$ 个值，误差大约按 $\sqrt{n}$ 增长：

$$
\bar{x}_k = \bar{x}_{k-1} + \frac{x_k - x_{k-n}}{n}, \qquad \varepsilon_k \approx \varepsilon_0 \sqrt{\sum_{i=1}^{k} x_i^2}
$$

在总和旁边保留一个**补偿项**（Kahan 算法），参见[原始笔记](https://example.com/kahan)：

```python
class RunningMean:
    '''最近若干值的平均，没有漂移。'''

    def __init__(self, size: int = 64) -> None:
        self.values = [0.0] * size  # 环形缓冲
        self.total = self.lost = 0.0

    def add(self, value: float) -> float:
        step = value - self.lost
        total = self.total + step
        self.lost = (total - self.total) - step
        self.total = total
        return total / len(self.values)
```

| 方法 | 10⁶ 步后的误差 | 代价 |
|:-------|----------------------:|:-----|
| 先减后加 | 3.1e-10 | 2 次运算 |
| **Kahan** | 1.1e-16 | 5 次运算 |

> 每 $n$ 步重新求和几乎同样好，而且更简单。
""",
}
THINKING = {
    Language.ENGLISH: "The person asks about *precision*. Catastrophic cancellation comes first.\n\n"
    "Then a remedy with code: Kahan, or summing anew.",
    Language.CHINESE: "用户问的是*精度*。首先是相消误差。\n\n然后给出带代码的办法：Kahan 算法，或重新求和。",
}


@dataclass(slots=True)
class Stage:
    """What a picture is taken of."""

    view: ChatView
    language: Language

    def settle(self, seconds: float = 0.2) -> None:
        """Let everything be laid out, coloured and drawn."""
        end = time.monotonic() + 15
        calm = time.monotonic() + seconds
        transcript = self.view.pane.transcript
        while time.monotonic() < end:
            QApplication.processEvents()
            if not (transcript.colouring.is_idle and transcript.formulas.is_idle):
                calm = time.monotonic() + seconds
            if time.monotonic() > calm:
                return
            time.sleep(0.005)


def fill(data_dir: Path, language: Language) -> None:
    """Conversations to be listed, the last one with everything in it."""
    data_dir.mkdir()
    store = open_history(data_dir).store
    now = time.time()
    for place, title in reversed(list(enumerate(QUESTIONS[language]))):
        conversation_id = new_id()
        when = now - place * 40_000
        question = Message(new_id(), conversation_id, None, Role.USER, title, created_at=when)
        answer = Message(
            new_id(),
            conversation_id,
            question.id,
            Role.ASSISTANT,
            ANSWERS[language],
            THINKING[language],
            14.2,
            stats=MessageStats(
                prompt_tokens=1240,
                cached_tokens=1024,
                generated_tokens=612,
                thinking_tokens=188,
                prompt_s=1.4,
                generated_s=14.9,
                prompt_per_s=154,
                generated_per_s=41.1,
                draft_tokens=402,
                draft_accepted=311,
                context_used=1852,
                context_size=32_768,
                model="Qwen3.8-Flash-Next",
                effort="high",
            ),
            created_at=when + 20,
        )
        store.put_conversation(
            Conversation(conversation_id, title, active_leaf=answer.id, updated_at=when)
        )
        store.put_message(question)
        store.put_message(answer)
    store.close()


def answer(stage: Stage) -> None:
    """An answer with code, a formula and a table."""
    stage.view.resize(1180, 1040)


def thinking(stage: Stage) -> None:
    """The thinking unfolded, a tool call asked for, files attached."""
    stage.view.resize(1180, 760)
    transcript = stage.view.pane.transcript
    path = stage.view.pane.controller.path()  # type: ignore[union-attr]
    call = ToolCall(
        "c1",
        "files",
        "write_file",
        "files__write_file",
        '{"path": "notes/mean.py", "overwrite": true}',
        ToolState.ASKING,
    )
    done = ToolCall("c0", "files", "read_file", "files__read_file", "{}", ToolState.DONE, "x = 1")
    text = path[1].text.split("\n\n")[0]
    calls = tuple(
        ToolCall(
            one.id,
            one.server,
            one.tool,
            one.name,
            one.arguments,
            one.state,
            one.result,
            text_offset=len(text),
        )
        for one in (done, call)
    )
    files = (
        Attachment("a", AttachmentKind.TEXT, "report-2026.pdf", "application/pdf", 48_000, 9120),
        Attachment("b", AttachmentKind.TEXT, "mean.py", "text/x-python", 900, 240),
    )
    question = Message("q", "c", None, Role.USER, path[0].text, attachments=files)
    reply = Message("r", "c", "q", Role.ASSISTANT, text, path[1].thinking, 14.2, tool_calls=calls)
    transcript.show_messages([question, reply], lambda message_id: (message_id, "other"))
    transcript.lay_out()
    transcript.sections[1].toggle_thinking()


def settings(stage: Stage) -> None:
    """The settings of the conversation."""
    stage.view.resize(1280, 860)
    stage.view.toggle_panel()


def search(stage: Stage) -> None:
    """What a search finds."""
    stage.view.resize(1180, 700)
    words = {Language.ENGLISH: "precision", Language.CHINESE: "精度"}
    stage.view.conversations.search.setText(words[stage.language])
    stage.settle(1.0)


def empty(stage: Stage) -> None:
    """A new conversation."""
    stage.view.resize(1180, 700)
    stage.view.new()


def reading(stage: Stage) -> None:
    """A long prompt is being read."""
    stage.view.resize(1180, 700)
    stage.view.new()
    pane = stage.view.pane
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report-2026.txt")
        path.write_text("A line of the report, with its figures.\n" * 90, encoding="utf-8")
        pane.attach([path])
        stage.settle(1.0)
    pane.composer.put_text(QUESTIONS[stage.language][3])
    pane.send()
    stage.settle(6.0)


def keys(stage: Stage) -> QWidget:
    """The overview of the keys."""
    stage.view.show_keys()
    return stage.view.findChildren(KeyOverview)[-1]


PICTURES: dict[str, Callable[[Stage], QWidget | None]] = {
    "": answer,
    "tool": thinking,
    "settings": settings,
    "search": search,
    "empty": empty,
    "reading": reading,
    "keys": keys,
}


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description="Pictures of the chat.")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--only", help="one of: " + ", ".join(PICTURES))
    parser.add_argument("--scale", default="1")
    options = parser.parse_args()
    os.environ["QT_SCALE_FACTOR"] = options.scale
    app = QApplication([])
    look = Look(app, Theme.LIGHT)
    translations = Translations()
    suffix = "" if options.scale == "1" else f"-{round(float(options.scale) * 100)}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        engine = Engine(folder, "word " * 200, 40, prompt_delay_ms=20_000)
        try:
            for language in Language:
                translations.speak(language)
                for theme in (Theme.LIGHT, Theme.DARK):
                    look.set_theme(theme)
                    for title, stage_it in PICTURES.items():
                        if options.only is not None and title != options.only:
                            continue
                        data = folder / f"{language.value}-{theme.value}-{title}"
                        fill(data, language)
                        service = ChatService(data, EngineHttp(EngineAddress(engine.url)))
                        service.ask_for_facts()
                        view = ChatView(Shell(service))  # type: ignore[arg-type]
                        view.show()
                        view.activateWindow()
                        stage = Stage(view, language)
                        stage.settle()
                        shown = stage_it(stage) or view
                        stage.settle()
                        parts = ["app-chat", title, language.value, theme.value]
                        file = "-".join(part for part in parts if part) + suffix + ".png"
                        shown.grab().save(str(options.out / file))
                        make_small(options.out / file)
                        view.pane.stop()
                        view.close()
                        service.close()
        finally:
            engine.stop()


if __name__ == "__main__":
    main()
