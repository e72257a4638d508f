"""Text that remembers which of its characters came from a message (spec/tools_format.md, T2).

Only what the template itself writes may become a special token. So every string of a conversation
(contents, names, argument keys, tool descriptions) enters the template as a `MarkedText`: a string
that knows, run by run, which characters are content, and that keeps this through all that a
template can do with strings: `+`, `~`, slices, `trim`, `split`, `replace`, `join`, `tojson`, macros.
After rendering the runs become spans, and prompt.py looks for special tokens in the template's own
spans only.

Why not put sentinel characters around contents and cut them out afterwards: the template would see
them. `content.startswith(...)`, `content == ''`, `content|trim` and `content|length` would change,
and a message that holds a sentinel itself could forge the border. Here the template sees exactly
the person's text, nothing is reserved, and there is nothing to forge.

Where an operation cannot be followed character by character (changes of case that change the
length), the whole result counts as content: that can cost a template a special token, never give a
message one. Operations that this module does not know are not offered to templates
(template_sandbox.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import SupportsIndex, overload

from engine.text.template_limits import Budget, TemplateError

Run = tuple[int, bool]  # (number of characters, is_content)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a rendered prompt: content, or the template's own text."""

    text: str
    is_content: bool


class MarkedText(str):
    """A string some characters of which are content.

    Attributes:
        runs: (length, is_content) from left to right, lengths adding up to the string's.
    """

    __slots__ = ("runs",)
    runs: tuple[Run, ...]

    def __new__(cls, text: str, runs: tuple[Run, ...] | None = None) -> MarkedText:
        """`text` with these marks; all of it content if none are given."""
        marked = super().__new__(cls, text)
        whole = ((len(text), True),) if text else ()
        marked.runs = whole if runs is None else runs
        return marked

    def __str__(self) -> str:
        return self  # str(x) must not drop the marks

    @overload
    def __getitem__(self, key: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, key: slice) -> str: ...
    def __getitem__(self, key: SupportsIndex | slice) -> str:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return cut(self, start, stop)
            return MarkedText(super().__getitem__(key))
        index = range(len(self))[key]
        return cut(self, index, index + 1)

    def __iter__(self) -> Iterator[str]:
        chars = super().__iter__()
        for length, is_content in self.runs:
            run = ((1, is_content),)
            for _ in range(length):
                yield MarkedText(next(chars), run)

    def __add__(self, other: str) -> str:
        return join_texts((self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> str:
        return join_texts((other, self)) if isinstance(other, str) else NotImplemented


def runs_of(text: str) -> tuple[Run, ...]:
    """The runs of any string; a plain one is the template's."""
    return text.runs if isinstance(text, MarkedText) else ((len(text), False),)


def spans_of(text: str) -> tuple[Span, ...]:
    """The text cut into its runs; empty ones are left out."""
    spans, start = [], 0
    for length, is_content in runs_of(text):
        if length:
            spans.append(Span(str.__getitem__(text, slice(start, start + length)), is_content))
        start += length
    return tuple(spans)


def join_texts(parts: Iterable[str]) -> str:
    """The concatenation, with every part's marks."""
    texts = list(parts)
    joined = "".join(texts)
    if not any(isinstance(text, MarkedText) for text in texts):
        return joined
    runs: list[Run] = []
    for text in texts:
        for length, is_content in runs_of(text):
            if runs and runs[-1][1] == is_content:
                runs[-1] = (runs[-1][0] + length, is_content)
            elif length:
                runs.append((length, is_content))
    return MarkedText(joined, tuple(runs))


def cut(text: str, start: int, stop: int) -> str:
    """`text[start:stop]` with its marks; 0 <= start, stop <= len(text)."""
    piece = str.__getitem__(text, slice(start, stop))
    if not isinstance(text, MarkedText):
        return piece
    runs: list[Run] = []
    position = 0
    for length, is_content in text.runs:
        overlap = min(stop, position + length) - max(start, position)
        if overlap > 0:
            runs.append((overlap, is_content))
        position += length
        if position >= stop:
            break
    return MarkedText(piece, tuple(runs))


def holds_content(value: object) -> bool:
    """Whether any string inside a list, tuple or mapping is content."""
    if isinstance(value, MarkedText):
        return any(is_content for _, is_content in value.runs)
    if isinstance(value, dict):
        return any(holds_content(key) or holds_content(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return any(map(holds_content, value))
    return False


def like(source: object, text: str) -> str:
    """`text`, made out of `source`: all content if the source holds any."""
    return MarkedText(text) if holds_content(source) else text


def _charge(budget: Budget, text: str) -> None:
    budget.charge(1 + len(text) // 16 + len(runs_of(text)))


def _strip(budget: Budget, text: str, chars: str | None = None) -> str:
    return _lstrip(budget, _rstrip(budget, text, chars), chars)


def _lstrip(budget: Budget, text: str, chars: str | None = None) -> str:
    _charge(budget, text)
    return cut(text, len(text) - len(str.lstrip(text, chars)), len(text))


def _rstrip(budget: Budget, text: str, chars: str | None = None) -> str:
    _charge(budget, text)
    return cut(text, 0, len(str.rstrip(text, chars)))


def _removeprefix(budget: Budget, text: str, prefix: str) -> str:
    _charge(budget, text)
    return cut(text, len(prefix) if str.startswith(text, prefix) else 0, len(text))


def _removesuffix(budget: Budget, text: str, suffix: str) -> str:
    _charge(budget, text)
    has_suffix = bool(suffix) and str.endswith(text, suffix)
    return cut(text, 0, len(text) - len(suffix) if has_suffix else len(text))


def _place(budget: Budget, text: str, pieces: list[str], gap: int | None) -> list[str]:
    """Pieces that `str` cut out of `text`, in order, with the marks of where they stood.

    Args:
        budget: what pays.
        text: the text that was cut.
        pieces: what `str` made of it.
        gap: characters between two pieces; None for white space of any length (a piece then begins
            with something else, so its first occurrence is its place).
    """
    budget.charge(len(pieces) * (1 + len(runs_of(text))))
    if not isinstance(text, MarkedText):
        return pieces
    placed, position = [], 0
    for piece in pieces:
        start = position if gap is not None else str.find(text, piece, position)
        placed.append(cut(text, start, start + len(piece)))
        position = start + len(piece) + (gap or 0)
    return placed


def _split(budget: Budget, text: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
    _charge(budget, text)
    pieces = str.split(text, sep, maxsplit)
    return _place(budget, text, pieces, None if sep is None else len(sep))


def _rsplit(budget: Budget, text: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
    _charge(budget, text)
    pieces = str.rsplit(text, sep, maxsplit)
    return _place(budget, text, pieces, None if sep is None else len(sep))


def _splitlines(budget: Budget, text: str, keepends: bool = False) -> list[str]:
    _charge(budget, text)
    lines = _place(budget, text, str.splitlines(text, keepends=True), 0)
    if keepends:
        return lines
    bare = str.splitlines(text)
    return [cut(line, 0, len(short)) for line, short in zip(lines, bare, strict=True)]


def _partition(budget: Budget, text: str, sep: str) -> tuple[str, ...]:
    _charge(budget, text)
    return tuple(_place(budget, text, list(str.partition(text, sep)), 0))


def _rpartition(budget: Budget, text: str, sep: str) -> tuple[str, ...]:
    _charge(budget, text)
    return tuple(_place(budget, text, list(str.rpartition(text, sep)), 0))


def _replace(budget: Budget, text: str, old: str, new: str, count: int = -1) -> str:
    if not old:
        raise TemplateError(
            "The model's chat template replaces the empty text. Use another model file."
        )
    pieces = _split(budget, text, old, count)
    budget.charge_text(len(text) + (len(pieces) - 1) * len(new))
    parts = [pieces[0]]
    for piece in pieces[1:]:
        parts += (new, piece)
    return join_texts(parts)


def _join(budget: Budget, text: str, parts: Iterable[str]) -> str:
    texts = list(parts)
    budget.charge(len(texts))
    budget.charge_text(sum(map(len, texts)) + len(text) * max(len(texts) - 1, 0))
    pieces: list[str] = []
    for part in texts:
        pieces += (text, part)
    return join_texts(pieces[1:])


def _cased(change: Callable[[str], str]) -> Callable[[Budget, str], str]:
    def method(budget: Budget, text: str) -> str:
        _charge(budget, text)
        budget.charge_text(len(text))
        changed = change(text)
        if not isinstance(text, MarkedText):
            return changed
        same = len(changed) == len(text)
        return MarkedText(changed, text.runs) if same else like(text, changed)

    return method


def _asking(ask: Callable[..., object]) -> Callable[..., object]:
    def method(budget: Budget, text: str, *args: object) -> object:
        _charge(budget, text)
        return ask(text, *args)

    return method


# Methods of strings that templates may call, each as function(budget, text, *arguments).
TEXT_METHODS: dict[str, Callable[..., object]] = {
    "strip": _strip,
    "lstrip": _lstrip,
    "rstrip": _rstrip,
    "removeprefix": _removeprefix,
    "removesuffix": _removesuffix,
    "split": _split,
    "rsplit": _rsplit,
    "splitlines": _splitlines,
    "partition": _partition,
    "rpartition": _rpartition,
    "replace": _replace,
    "join": _join,
    "lower": _cased(str.lower),
    "upper": _cased(str.upper),
    "title": _cased(str.title),
    "capitalize": _cased(str.capitalize),
    "startswith": _asking(str.startswith),
    "endswith": _asking(str.endswith),
    "find": _asking(str.find),
    "rfind": _asking(str.rfind),
    "index": _asking(str.index),
    "count": _asking(str.count),
    "isdigit": _asking(str.isdigit),
    "isalpha": _asking(str.isalpha),
    "isalnum": _asking(str.isalnum),
    "isspace": _asking(str.isspace),
    "isupper": _asking(str.isupper),
    "islower": _asking(str.islower),
}
