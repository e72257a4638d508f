"""Markdown to blocks, with markdown-it: tables, strikethrough, task lists, formulas; no raw HTML.

Pictures are never loaded: an answer could tell an address what was said. They become links.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.texmath import texmath_plugin

from app.chat.view.markdown.blocks import (
    FORMULA_BEGIN,
    FORMULA_END,
    Block,
    CodeBlock,
    Formula,
    FormulaBlock,
    TableBlock,
    TextBlock,
)
from app.chat.view.markdown.splitter import Piece

_OWN_BLOCKS = {"fence", "code_block", "table", "math_block", "math_block_label", "blockquote"}
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_SAFE_SCHEMES = ("http://", "https://")


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": True})
    parser.enable(["table", "strikethrough", "linkify"])
    parser.use(dollarmath_plugin, double_inline=True, allow_digits=False)
    parser.use(texmath_plugin, delimiters="brackets")
    if parser.linkify is not None:
        parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
    return parser


def parse(piece: Piece, references: str = "") -> list[Block]:
    """Blocks of a piece.

    Args:
        piece: see `splitter`.
        references: link definitions of the whole text, which the piece may use.
    """
    source = _without_private_use(piece.source)
    if piece.prefix.lstrip(" ").startswith(("```", "~~~")):
        return _code_that_goes_on(source, piece)
    if references:
        source = f"{source}\n\n{references}"
    tree = SyntaxTreeNode(_parser().parse(source))
    return _Walk(has_head=not piece.prefix).blocks(tree.children)


def plain_blocks(piece: Piece) -> list[Block]:
    """Blocks of a piece of a person's message: fenced code is code, the rest stays as it is."""
    text = _without_private_use(piece.source)
    if piece.prefix.lstrip(" ").startswith(("```", "~~~")):
        return _code_that_goes_on(text, piece)
    if text.lstrip("\n").lstrip(" ").startswith(("```", "~~~")):
        tree = SyntaxTreeNode(_parser().parse(text))
        if tree.children and tree.children[0].type == "fence":
            return [_code(tree.children[0], 0, 0)]
    lines = text.strip("\n")
    if not lines.strip():
        return []
    body = html.escape(lines, quote=False).replace("\n", "<br/>")
    return [TextBlock(html=f'<p style="white-space: pre-wrap">{body}</p>', plain=lines)]


def is_safe_link(address: str) -> bool:
    """Whether a click may open it: only pages of the web, never files or programs."""
    return address.lower().startswith(_SAFE_SCHEMES)


def _without_private_use(text: str) -> str:
    if FORMULA_BEGIN in text or FORMULA_END in text or "\0" in text:
        for char in (FORMULA_BEGIN, FORMULA_END, "\0"):
            text = text.replace(char, "\ufffd")
    return text


def _code(node: SyntaxTreeNode, indent: int, quote: int) -> CodeBlock:
    words = node.info.split() if node.type == "fence" else []
    return CodeBlock(indent, quote, node.content.removesuffix("\n"), words[0] if words else "")


def _code_that_goes_on(source: str, piece: Piece) -> list[Block]:
    """A later part of long code; without the parser, as there may be hundreds of them."""
    mark = piece.prefix.strip()
    lines = source[len(piece.prefix) :].split("\n")
    if not lines[-1]:
        lines.pop()  # what stands behind the last line's end
    end = lines[-1].strip() if lines else ""
    if len(end) >= 3 and set(end) == {mark[0]}:
        lines.pop()
    if not lines:
        return []
    words = mark.strip(mark[0]).split()
    return [CodeBlock(code="\n".join(lines), language=words[0] if words else "")]


@dataclass(slots=True)
class _Text:
    """HTML and plain text that grow together."""

    html: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    formulas: list[Formula] = field(default_factory=list)

    def add(self, markup: str, plain: str = "") -> None:
        self.html.append(markup)
        if plain:
            self.plain.append(plain)

    def formula(self, formula: Formula) -> None:
        self.add(f"{FORMULA_BEGIN}{len(self.formulas)}{FORMULA_END}", formula.marked)
        self.formulas.append(formula)

    def inline(self, nodes: Iterable[SyntaxTreeNode]) -> None:
        """Take the inline content of a paragraph, a heading or a cell."""
        for node in nodes:
            self._one(node)

    def _one(self, node: SyntaxTreeNode) -> None:
        kind = node.type
        if kind == "text":
            self.add(html.escape(node.content, quote=False), node.content)
        elif kind in _MARKS:
            opening, closing = _MARKS[kind]
            self.add(opening)
            self.inline(node.children)
            self.add(closing)
        elif kind == "code_inline":
            self.add(f"<code>{html.escape(node.content, quote=False)}</code>", node.content)
        elif kind == "softbreak":
            self.add(" ", "\n")
        elif kind == "hardbreak":
            self.add("<br/>", "\n")
        elif kind == "link":
            self._link(str(node.attrs.get("href", "")), node.children)
        elif kind == "image":
            self._link(str(node.attrs.get("src", "")), node.children, node.content)
        elif kind in {"math_inline", "math_inline_double", "math_single"}:
            self.formula(Formula(node.content.strip(), kind == "math_inline_double"))
        else:
            self.add(html.escape(node.content, quote=False), node.content)

    def _link(self, address: str, nodes: Sequence[SyntaxTreeNode], words: str = "") -> None:
        shown = html.escape(address)
        if is_safe_link(address):
            self.add(f'<a href="{shown}" title="{shown}">')
        if nodes:
            self.inline(nodes)
        else:
            text = words or address
            self.add(html.escape(text, quote=False), text)
        if is_safe_link(address):
            self.add("</a>")


_MARKS = {"strong": ("<b>", "</b>"), "em": ("<i>", "</i>"), "s": ("<s>", "</s>")}


@dataclass(slots=True)
class _Walk:
    """Collects blocks; flowing text stays together until a block of its own comes."""

    has_head: bool = True
    indent: int = 0
    quote: int = 0
    found: list[Block] = field(default_factory=list)
    text: _Text = field(default_factory=_Text)

    def blocks(self, nodes: Sequence[SyntaxTreeNode]) -> list[Block]:
        """All blocks of these nodes."""
        for node in nodes:
            self._block(node)
        self._flush()
        return self.found

    def _flush(self) -> None:
        if self.text.html:
            plain = "".join(self.text.plain).strip("\n")
            markup = "".join(self.text.html)
            self.found.append(
                TextBlock(self.indent, self.quote, markup, plain, tuple(self.text.formulas))
            )
            self.text = _Text()

    def _block(self, node: SyntaxTreeNode) -> None:
        if node.type in _OWN_BLOCKS:
            self._flush()
            self._own(node)
        elif node.type in {"bullet_list", "ordered_list"}:
            self._list(node)
        else:
            self._flow(node)

    def _own(self, node: SyntaxTreeNode) -> None:
        if node.type in {"fence", "code_block"}:
            self.found.append(_code(node, self.indent, self.quote))
        elif node.type == "table":
            self.found.append(self._table(node))
        elif node.type == "blockquote":
            inner = _Walk(indent=self.indent, quote=self.quote + 1)
            self.found += inner.blocks(node.children)
        else:
            formula = Formula(node.content.strip(), is_display=True)
            self.found.append(FormulaBlock(self.indent, self.quote, formula))

    def _flow(self, node: SyntaxTreeNode) -> None:
        if self.text.plain:
            self.text.plain.append("\n\n")
        if node.type == "hr":
            self.text.add("<hr/>", "---")
        elif node.type == "heading":
            level = min(int(node.tag[1:]), 4)
            self.text.add(f"<h{level}>")
            self._inline_of(node)
            self.text.add(f"</h{level}>")
        elif node.type == "paragraph":
            self.text.add("<p>")
            self._inline_of(node)
            self.text.add("</p>")
        else:
            words = node.content
            self.text.add(f"<p>{html.escape(words, quote=False)}</p>", words)

    def _inline_of(self, node: SyntaxTreeNode) -> None:
        for child in node.children:
            self.text.inline(child.children)

    def _list(self, node: SyntaxTreeNode) -> None:
        """A list; one that holds code or tables is cut around them and goes on behind."""
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else 0
        if not _has_own_block(node):
            if self.text.plain:
                self.text.plain.append("\n")
            self._whole_list(node, number, 0)
            return
        for item in node.children:
            self._flush()
            inner = _Walk(indent=self.indent + 1, quote=self.quote)
            blocks = inner.blocks(item.children)
            # The item's mark stands before its first text.
            if blocks and isinstance(blocks[0], TextBlock):
                blocks[0] = self._with_mark(blocks[0], number)
            self.found += blocks
            number += 1 if number or node.type == "ordered_list" else 0

    def _with_mark(self, block: TextBlock, number: int) -> TextBlock:
        tag = f'ol start="{number}"' if number else "ul"
        mark = f"{number}. " if number else "• "
        return TextBlock(
            self.indent,
            self.quote,
            f"<{tag}><li>{_unwrapped(block.html)}</li></{tag.split(maxsplit=1)[0]}>",
            mark + block.plain,
            block.formulas,
        )

    def _whole_list(self, node: SyntaxTreeNode, number: int, depth: int) -> None:
        is_ordered = node.type == "ordered_list"
        self.text.add(f'<ol start="{number}">' if is_ordered else "<ul>")
        for item in node.children:
            mark = f"{number}. " if is_ordered else "• "
            box = _box(item)
            self.text.add("<li>" + box, "\n" + "    " * depth + ("" if box else mark) + box)
            number += 1
            for place, child in enumerate(item.children):
                if child.type in {"bullet_list", "ordered_list"}:
                    start = int(child.attrs.get("start", 1))
                    self._whole_list(child, start, depth + 1)
                elif child.type in {"paragraph", "heading"}:
                    if place:
                        self.text.add("<br/>", "\n")
                    self._item_text(child, box if place == 0 else "")
                elif child.type == "hr":
                    self.text.add("<hr/>")
            self.text.add("</li>")
        self.text.add("</ol>" if is_ordered else "</ul>")

    def _item_text(self, node: SyntaxTreeNode, box: str) -> None:
        begin = len(self.text.html)
        self._inline_of(node)
        if box and begin < len(self.text.html):
            self.text.html[begin] = self.text.html[begin][4:]  # "[ ] " is shown as a box
            self.text.plain[-1] = self.text.plain[-1].replace("[ ] ", "", 1).replace("[x] ", "", 1)

    def _table(self, node: SyntaxTreeNode) -> TableBlock:
        rows: list[tuple[str, ...]] = []
        plain: list[tuple[str, ...]] = []
        aligns: tuple[str, ...] = ()
        formulas: list[Formula] = []
        for part in node.children:
            if part.type == "thead" and not self.has_head:
                continue
            for line in part.children:
                cells = []
                for cell in line.children:
                    text = _Text(formulas=formulas)
                    for child in cell.children:
                        text.inline(child.children)
                    cells.append(("".join(text.html), "".join(text.plain), _align(cell)))
                rows.append(tuple(cell[0] for cell in cells))
                plain.append(tuple(cell[1] for cell in cells))
                aligns = tuple(cell[2] for cell in cells)
        return TableBlock(
            self.indent,
            self.quote,
            tuple(rows),
            tuple(plain),
            aligns,
            self.has_head,
            tuple(formulas),
        )


def _align(cell: SyntaxTreeNode) -> str:
    style = str(cell.attrs.get("style", ""))
    return style.removeprefix("text-align:") or "left"


def _box(item: SyntaxTreeNode) -> str:
    """The box of a task list's item."""
    first = item.children[0] if item.children else None
    if first is None or first.type != "paragraph" or not first.children:
        return ""
    return _BOXES.get(first.children[0].content[:4], "")


def _has_own_block(node: SyntaxTreeNode) -> bool:
    return any(child.type in _OWN_BLOCKS or _has_own_block(child) for child in node.children)


def _unwrapped(markup: str) -> str:
    """Without the paragraph around it: in a list Qt would begin a line after the mark."""
    if markup.startswith("<p>") and markup.endswith("</p>") and markup.count("<p>") == 1:
        return markup[3:-4]
    return markup
