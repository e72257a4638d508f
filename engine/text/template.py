"""A model's chat template: messages and tools in, prompt text out.

The template (Jinja, from the model file's `tokenizer.chat_template`, or a file of the person's) is
foreign code: it runs in the sandbox of template_sandbox.py under the budget of template_limits.py.
What it renders comes back with the content of messages marked (template_spans.py), because only
the template's own text may become special tokens. This module knows nothing of token ids, and
takes messages as they are; messages.py brings them into the form that templates expect.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jinja2

from engine.core.gguf_values import printable
from engine.text.template_limits import (
    BASE_UNITS,
    UNITS_PER_CHAR,
    UNITS_PER_VALUE,
    Budget,
    TemplateError,
    prepare,
)
from engine.text.template_sandbox import ConversationRefusedError, TemplateEnvironment, spending
from engine.text.template_spans import MarkedText, Span, spans_of

__all__ = [
    "ChatTemplate",
    "RenderedPrompt",
    "Span",
    "TemplateError",
    "TemplateOptions",
    "ThinkingLevel",
]

MAX_SOURCE_CHARS = 64_000  # the family's templates have about 8,000
MAX_DETAIL_CHARS = 300


class ThinkingLevel(enum.StrEnum):
    """How much the model thinks before it answers."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


# spec/tools_format.md, section 2 and T4: the template knows these three words and raises on others.
_REASONING_EFFORT = {
    ThinkingLevel.LOW: "low",
    ThinkingLevel.MEDIUM: "medium",
    ThinkingLevel.HIGH: "xhigh",
}


@dataclass(frozen=True, slots=True)
class TemplateOptions:
    """What a request may choose about the rendering.

    Attributes:
        thinking: the level; `NONE` renders a closed thinking block.
        preserve_thinking: whether the thinking of earlier turns is kept; None leaves it to the
            template (T7: the family's newest keeps it).
    """

    thinking: ThinkingLevel = ThinkingLevel.HIGH
    preserve_thinking: bool | None = None

    def variables(self) -> dict[str, str | bool]:
        """The template's variables for these options."""
        variables: dict[str, str | bool] = {"enable_thinking": self.thinking != ThinkingLevel.NONE}
        if self.thinking in _REASONING_EFFORT:
            variables["reasoning_effort"] = _REASONING_EFFORT[self.thinking]
        if self.preserve_thinking is not None:
            variables["preserve_thinking"] = self.preserve_thinking
        return variables


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A prompt as text, cut into the template's own text and content."""

    spans: tuple[Span, ...]

    @property
    def text(self) -> str:
        """The whole prompt."""
        return "".join(span.text for span in self.spans)


class ChatTemplate:
    """A compiled chat template. Rendering is thread-safe.

    Raises:
        TemplateError: the source is no template, is too long, or uses what templates may not use.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        if len(source) > MAX_SOURCE_CHARS:
            raise TemplateError(
                f"The model's chat template has {len(source)} characters; at most "
                f"{MAX_SOURCE_CHARS} are accepted. Use another model file."
            )
        self._environment = TemplateEnvironment()
        try:
            with spending(Budget(BASE_UNITS)):
                tree = self._environment.parse(source)
                self._macro_units = prepare(tree)
                code = self._environment.compile(tree)
                self._template = jinja2.Template.from_code(
                    self._environment, code, self._environment.globals
                )
        except TemplateError:
            raise
        except jinja2.TemplateSyntaxError as error:
            raise _unreadable(f"{error.message} (line {error.lineno})") from error
        except RecursionError as error:
            raise _unreadable("it is nested too deeply") from error
        # Besides Jinja's errors the lexer lets ValueError through, and Python's compiler
        # SyntaxError and MemoryError ("too many nested blocks"), all for hostile sources.
        except (
            jinja2.TemplateError,
            ValueError,
            SyntaxError,
            MemoryError,
            OverflowError,
        ) as error:
            raise _unreadable(str(error)) from error

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        add_generation_prompt: bool = True,
        options: TemplateOptions | None = None,
    ) -> RenderedPrompt:
        """The prompt for a conversation.

        Args:
            messages: in the form that messages.py gives them.
            tools: declarations as the client sent them; key order is kept (T9).
            add_generation_prompt: end with the header of the model's next turn.
            options: thinking level and the like.

        Raises:
            TemplateError: the template refuses the conversation, fails, or does too much work.
        """
        try:
            marker = _Marker()
            variables: dict[str, object] = {
                **(options or TemplateOptions()).variables(),
                "messages": marker.mark(list(messages)),
                "tools": marker.mark(list(tools)) if tools else None,
                "add_generation_prompt": add_generation_prompt,
            }
            with spending(marker.budget(self._macro_units)):
                context = self._template.new_context(variables)
                pieces = self._template.root_render_func(context)
                return RenderedPrompt(spans_of(self._environment.concat(pieces)))
        except TemplateError:
            raise
        except ConversationRefusedError as error:
            raise TemplateError(
                "The model's chat template refuses this conversation: "
                f"{printable(str(error), MAX_DETAIL_CHARS)}"
            ) from error
        except RecursionError as error:
            raise TemplateError(
                "The model's chat template, or the conversation, is nested too deeply. Use another "
                "model file, or flatten the arguments.",
                code="template_too_expensive",
            ) from error
        # A template is a program by a stranger: it can raise whatever Python raises.
        except Exception as error:
            raise TemplateError(
                "The model's chat template cannot render this conversation: "
                f"{printable(str(error), MAX_DETAIL_CHARS).rstrip('.')}. Use another model file, or another conversation."
            ) from error


def _unreadable(detail: str) -> TemplateError:
    detail = printable(detail, MAX_DETAIL_CHARS)
    return TemplateError(
        f"The model's chat template cannot be read: {detail.rstrip('.')}. Use another model file.",
        params={"detail": detail},
    )


class _Marker:
    """Copies a conversation with all of its strings marked as content, and sizes the budget."""

    def __init__(self) -> None:
        self._num_chars = 0
        self._num_values = 0

    def mark(self, value: object) -> object:
        self._num_values += 1
        if isinstance(value, str):
            self._num_chars += len(value)
            return MarkedText(value)
        if isinstance(value, Mapping):
            return {self.mark(key): self.mark(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mark(item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        raise TypeError(f"messages hold a {type(value).__name__}")

    def budget(self, macro_units: int) -> Budget:
        units = BASE_UNITS + UNITS_PER_CHAR * self._num_chars + UNITS_PER_VALUE * self._num_values
        return Budget(units, macro_units)
