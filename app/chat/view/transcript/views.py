"""Which view draws which block."""

from __future__ import annotations

from app.chat.view.markdown.blocks import Block, CodeBlock, FormulaBlock, TableBlock, TextBlock
from app.chat.view.transcript.block_views import BlockView, FormulaView, TextView
from app.chat.view.transcript.code_view import CodeView
from app.chat.view.transcript.table_view import TableView


def view_of(block: Block) -> BlockView:
    """A view for a block."""
    if isinstance(block, CodeBlock):
        return CodeView(block)
    if isinstance(block, TableBlock):
        return TableView(block)
    if isinstance(block, FormulaBlock):
        return FormulaView(block)
    if isinstance(block, TextBlock):
        return TextView(block)
    raise TypeError(f"there is no view for {type(block).__name__}")
