"""Markdown to blocks."""

import pytest

from app.chat.view.markdown.blocks import CodeBlock, FormulaBlock, TableBlock, TextBlock
from app.chat.view.markdown.parse import is_safe_link, parse, plain_blocks
from app.chat.view.markdown.splitter import Piece, Splitter


def blocks_of(text):
    return [block for piece in Splitter(text).pieces for block in parse(piece)]


def only(text):
    (block,) = blocks_of(text)
    return block


def test_emphasis_becomes_html_and_plain_text():
    block = only("Some *text* with **bold**, ~~old~~ and `co<de`.")
    assert block.html == (
        "<p>Some <i>text</i> with <b>bold</b>, <s>old</s> and <code>co&lt;de</code>.</p>"
    )
    assert block.plain == "Some text with bold, old and co<de."


def test_raw_html_is_shown_and_not_taken():
    block = only("<b>no</b> <script>alert(1)</script> <img src='file:///etc/passwd'>")
    assert "<b>" not in block.html
    assert "&lt;script&gt;" in block.html
    assert "<img" not in block.html


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "javascript:alert(1)", "data:text/html,x"]
)
def test_only_pages_of_the_web_become_links(address):
    assert "<a " not in only(f"[click]({address})").html
    assert not is_safe_link(address)


def test_a_picture_is_a_link_and_is_not_loaded():
    block = only("![a view](https://example.com/x.png)")
    assert "<img" not in block.html
    assert 'href="https://example.com/x.png"' in block.html
    assert block.plain == "a view"


def test_a_bare_address_is_a_link():
    assert 'href="https://example.com/a"' in only("see https://example.com/a now").html


def test_formulas_are_kept_apart_and_prices_are_not_formulas():
    block = only(r"With $x^2$ and \(y_1\) it costs $5 or $6.")
    assert [formula.source for formula in block.formulas] == ["x^2", "y_1"]
    assert block.plain == "With $x^2$ and $y_1$ it costs $5 or $6."


@pytest.mark.parametrize("text", ["$$\na + b\n$$\n", "\\[\na + b\n\\]\n", "\\[ a + b \\]\n"])
def test_a_formula_on_its_own_is_a_block(text):
    block = only(text)
    assert isinstance(block, FormulaBlock)
    assert block.formula.source == "a + b"


def test_code_keeps_its_blank_lines_and_its_language():
    block = only("```c++ title\n\n int x;\n\n\n```\n")
    assert isinstance(block, CodeBlock)
    assert (block.language, block.code) == ("c++", "\n int x;\n\n")


def test_cut_code_is_whole_again_when_its_parts_are_joined():
    code = "\n".join("" if number % 60 == 59 else f"line {number}" for number in range(300))
    blocks = blocks_of(f"```python\n{code}\n```\n")
    assert len(blocks) > 3
    assert "\n".join(block.code for block in blocks) == code
    assert {block.language for block in blocks} == {"python"}


def test_code_within_a_list_is_a_block_of_its_own():
    blocks = blocks_of("1. first\n\n   ```sh\n   ls\n   ```\n\n   then\n2. second\n")
    kinds = [type(block) for block in blocks]
    assert kinds == [TextBlock, CodeBlock, TextBlock, TextBlock]
    assert blocks[1].indent == 1
    assert blocks[0].plain == "1. first"
    assert blocks[3].plain == "2. second"


def test_a_table_has_a_head_and_aligned_columns():
    block = only("| a | b |\n|:--|--:|\n| 1 | *2* |\n")
    assert isinstance(block, TableBlock)
    assert block.aligns == ("left", "right")
    assert block.plain_rows == (("a", "b"), ("1", "2"))


def test_the_later_part_of_a_table_has_no_head():
    head = "| a | b |\n|---|---|\n"
    (block,) = parse(Piece("| 3 | 4 |\n", prefix=head, continues=True))
    assert isinstance(block, TableBlock)
    assert not block.has_head
    assert block.plain_rows == (("3", "4"),)


def test_tasks_have_boxes():
    block = only("- [ ] open\n- [x] done\n")
    assert block.plain == "☐ open\n☑ done"


def test_a_quotation_knows_its_depth():
    outer, inner = blocks_of("> a\n>\n> > b\n")
    assert (outer.quote, inner.quote) == (1, 2)


def test_definitions_of_links_hold_for_all_pieces():
    (block,) = parse(Piece("see [the page][p]"), "[p]: https://example.com")
    assert 'href="https://example.com"' in block.html


def test_what_a_person_writes_stays_as_it_is_but_code_is_code():
    (text,) = plain_blocks(Piece("# no *heading*\n<b>x</b>"))
    assert text.plain == "# no *heading*\n<b>x</b>"
    assert "&lt;b&gt;" in text.html
    (code,) = plain_blocks(Piece("```python\nx = 1\n```\n"))
    assert code == CodeBlock(code="x = 1", language="python")


def test_private_characters_cannot_forge_a_formula():
    block = only("a \ue0000\ue001 b")
    assert "\ue000" not in block.html
