"""Small edits of a given text or function, and questions about a text that was just given."""

import ast
import random
import re
import sysconfig
import textwrap
from pathlib import Path

from tools.train_tiny.chat import Turn
from tools.train_tiny.copying import Passages
from tools.train_tiny.held_out import is_held_out_function
from tools.train_tiny.word_lists import IDENTIFIERS

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
MAX_FUNCTION_CHARS = 240
# Always the old name, one word, the new name, so that their distance is the same in every request.
RENAME_ASKS = (
    "Rename {old} to {new} in this function:\n\n{t}",
    "Rename {old} to {new} in this function:\n\n{t}",
    "Rename {old} to {new} in this function:\n\n{t}",
    "Rename {old} to {new}:\n\n{t}",
    "Rename the variable {old} to {new}:\n\n{t}",
    "In this code rename {old} to {new}:\n\n{t}",
    "Replace {old} with {new} in this function:\n\n{t}",
)
REPLACE_ASKS = (
    "Replace {old} with {new}: {t}",
    "Replace {old} by {new} in this text: {t}",
    "Replace the word {old} with {new}: {t}",
    "Rename {old} to {new}: {t}",
)
PATTERNS = (
    "def {f}({a}, {b}):\n    return {a} {o} {b}",
    "def {f}({a}, {b}):\n    {c} = {a} {o} {b}\n    return {c}",
    "def {f}({a}):\n    {c} = 0\n    for {b} in {a}:\n        {c} += {b}\n    return {c}",
    "def {f}({a}, {b}):\n    if {a} > {b}:\n        return {a}\n    return {b}",
    "def {f}({a}):\n    {c} = []\n    for {b} in {a}:\n        {c}.append({b})\n    return {c}",
    "def {f}({a}, {b}=1):\n    while {a} < 10:\n        {a} = {a} {o} {b}\n    return {a}",
    "def {f}({a}):\n    print({a})\n    return len({a})",
    "def {f}({a}, {b}):\n    {c} = {{}}\n    {c}[{a}] = {b}\n    return {c}",
)


def library_functions(folder: Path = LIBRARY) -> list[str]:
    """Returns the short functions of Python's standard library, dedented, in a fixed order."""
    found: dict[str, None] = {}
    for path in sorted(folder.glob("*.py")):
        try:
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source)
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or node.decorator_list:
                continue
            lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
            text = textwrap.dedent("\n".join(lines))
            if len(text) <= MAX_FUNCTION_CHARS and len(lines) > 1 and text.isascii():
                found[text] = None
    return list(found)


def pattern_function(draw: random.Random) -> str:
    """Returns a small function with drawn names."""
    names = draw.sample(IDENTIFIERS, 4)
    return draw.choice(PATTERNS).format(
        f=names[0], a=names[1], b=names[2], c=names[3], o=draw.choice("+-*")
    )


def renamable(source: str) -> list[str]:
    """Returns the identifiers that can be renamed by their letters alone, met at least twice."""
    words = re.findall(r"[A-Za-z_]\w*", source)
    keywords = {"def", "return", "self", "if", "for", "in", "None", "not", "and", "or", "is"}
    keywords |= {"else", "True", "False", "raise", "class", "try", "except", "while", "print"}
    found = []
    for name in dict.fromkeys(words):
        is_plain = len(name) > 1 and name not in keywords and not re.search(rf"\.{name}\b", source)
        if is_plain and 2 <= words.count(name) <= 5:
            found.append(name)
    return found


def rename(source: str, old: str, new: str) -> str:
    """Returns the source with every whole word `old` replaced."""
    return re.sub(rf"\b{re.escape(old)}\b", new, source)


class EditTasks:
    """Draws edits: identifiers in functions, words in sentences."""

    def __init__(self, functions: list[str], passages: Passages) -> None:
        """Keeps what is not held out."""
        self.functions = [f for f in functions if not is_held_out_function(f) and renamable(f)]
        self.passages = passages

    def _new_name(self, draw: random.Random, source: str) -> str:
        """Returns a name that the source has nowhere."""
        while True:
            new = draw.choice(IDENTIFIERS if draw.random() < 0.7 else self.passages.words)
            if new.isidentifier() and new not in source:
                return new

    def _rename_turn(self, draw: random.Random, source: str, thinks: bool) -> Turn:
        old = draw.choice(renamable(source))
        new = self._new_name(draw, source)
        ask = draw.choice(RENAME_ASKS).format(old=old, new=new, t=source)
        return Turn(ask, rename(source, old, new), _thought(old, new) if thinks else None)

    def _replace_turn(self, draw: random.Random, thinks: bool) -> Turn:
        while True:
            words = draw.random() < 0.6
            count = draw.randint(2, 12)
            kinds = IDENTIFIERS if draw.random() < 0.4 else self.passages.words
            text = (
                draw.choice((" ", " ", ", ")).join(draw.choice(kinds) for _ in range(count))
                if words
                else self.passages.sentence_text(draw, count)
            )
            candidates = re.findall(r"\b[a-z]{3,}\b", text)
            if candidates:
                break
        old = draw.choice(candidates)
        new = self._new_name(draw, text)
        if words and draw.random() < 0.5:
            # More than one place, as identifiers have.
            parts = text.split(" ")
            for _ in range(draw.randint(1, 2)):
                parts.insert(draw.randrange(1, len(parts) + 1), old)
            text = " ".join(parts)
        ask = draw.choice(REPLACE_ASKS).format(old=old, new=new, t=text)
        return Turn(ask, rename(text, old, new), _thought(old, new) if thinks else None)

    def turn(self, draw: random.Random, thinks: bool) -> Turn:
        """Returns one edit: of a list or sentence, a pattern function or one of the library."""
        kind = draw.random()
        if kind < 0.2:
            return self._replace_turn(draw, thinks)
        if kind < 0.55 or not self.functions:
            source = pattern_function(draw)
            while is_held_out_function(source):
                source = pattern_function(draw)
        else:
            source = draw.choice(self.functions)
        return self._rename_turn(draw, source, thinks)


def _thought(old: str, new: str) -> str:
    return f"I change {old} to {new} and keep the rest."


def last_word_turn(draw: random.Random, passages: Passages, thinks: bool) -> Turn:
    """Returns a question for the first or last word of a short list, or its reverse."""
    words = [draw.choice(passages.words) for _ in range(draw.randint(2, 6))]
    listed = draw.choice((" ", ", ")).join(words)
    kind = draw.random()
    thought = "I look at the list." if thinks else None
    if kind < 0.35:
        return Turn(f"What is the last word of this list: {listed}", words[-1], thought)
    if kind < 0.7:
        return Turn(f"What is the first word of this list: {listed}", words[0], thought)
    return Turn(f"Write this list in reverse order: {listed}", ", ".join(reversed(words)), thought)
