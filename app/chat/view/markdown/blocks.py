"""What a piece of Markdown consists of: blocks that are shown one below the other."""

from __future__ import annotations

from dataclasses import dataclass

# Stand in HTML for formula number n of a block; private-use characters, which texts are freed of.
FORMULA_BEGIN = "\ue000"
FORMULA_END = "\ue001"


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula in LaTeX.

    Attributes:
        source: without its marks.
        is_display: on a line of its own.
    """

    source: str
    is_display: bool = False

    @property
    def marked(self) -> str:
        """As it is written in Markdown."""
        mark = "$$" if self.is_display else "$"
        return f"{mark}{self.source}{mark}"


@dataclass(frozen=True, slots=True)
class Block:
    """A block.

    Attributes:
        indent: lists that it is within.
        quote: quotations that it is within.
    """

    indent: int = 0
    quote: int = 0


@dataclass(frozen=True, slots=True)
class TextBlock(Block):
    """Flowing text: paragraphs, headings, lists, rules.

    Attributes:
        html: in the part of HTML that Qt knows; formulas by number between private-use characters.
        plain: the same as plain text.
        formulas: by number.
    """

    html: str = ""
    plain: str = ""
    formulas: tuple[Formula, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeBlock(Block):
    """Code; `language` as it was written behind the fence."""

    code: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class TableBlock(Block):
    """A table.

    Attributes:
        rows: HTML of the cells; the first row is the head.
        plain_rows: the same as plain text.
        aligns: of each column: `left`, `center`, `right`.
        has_head: false for the later parts of a long table.
        formulas: of all cells, by number.
    """

    rows: tuple[tuple[str, ...], ...] = ()
    plain_rows: tuple[tuple[str, ...], ...] = ()
    aligns: tuple[str, ...] = ()
    has_head: bool = True
    formulas: tuple[Formula, ...] = ()


@dataclass(frozen=True, slots=True)
class FormulaBlock(Block):
    """A formula on its own."""

    formula: Formula = Formula("", is_display=True)
