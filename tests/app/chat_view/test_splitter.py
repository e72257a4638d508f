"""Pieces of Markdown: final ones never change, whatever the text arrives in."""

import random

import pytest

from app.chat.view.markdown.splitter import (
    MAX_CODE_LINES,
    MAX_PARAGRAPH_CHARS,
    MAX_TABLE_ROWS,
    Piece,
    Splitter,
    mended,
    references,
)

SAMPLE = """# Title
A paragraph
of two lines.

Another with $x^2$.

$$
a

b
$$

1. one

   ```sh
   ls
   ```

2. two
- x
- y

> quote
> ```
> code
> ```

| a | b |
|---|---|
| 1 | 2 |
text after

```python
def f():

    return 1
```
Tail
## Heading
~~~
``` no end
"""


def pieces_of(text, sizes=None):
    splitter = Splitter()
    if sizes is None:
        splitter.add(text)
        return splitter
    place = 0
    while place < len(text):
        size = next(sizes)
        splitter.add(text[place : place + size])
        place += size
    return splitter


def as_tuples(splitter):
    return [(piece.text, piece.prefix, piece.continues) for piece in splitter.pieces]


def test_the_pieces_together_are_the_text():
    assert "".join(piece.text for piece in pieces_of(SAMPLE).pieces) == SAMPLE


@pytest.mark.parametrize("seed", range(40))
def test_the_pieces_do_not_depend_on_how_the_text_arrives(seed):
    numbers = random.Random(seed)  # noqa: S311  # no secret
    sizes = iter(lambda: numbers.randint(1, 9), 0)
    assert as_tuples(pieces_of(SAMPLE, sizes)) == as_tuples(pieces_of(SAMPLE))


def test_final_pieces_do_not_change_while_the_text_grows():
    splitter = Splitter()
    seen = []
    for char in SAMPLE * 3:
        splitter.add(char)
        final = [piece.text for piece in splitter.pieces[:-1]]
        assert final[: len(seen)] == seen
        seen = final


def test_a_list_keeps_its_code_and_a_formula_its_blank_lines():
    texts = [piece.text for piece in pieces_of(SAMPLE).pieces]
    assert "$$\na\n\nb\n$$\n\n" in texts
    assert any(text.startswith("1. one") and "ls" in text for text in texts)


def test_long_code_is_cut_and_its_parts_know_their_language():
    code = "".join(f"x = {number}\n\n" for number in range(500))
    splitter = pieces_of(f"```python\n{code}```\nend\n")
    assert max(piece.text.count("\n") for piece in splitter.pieces) <= MAX_CODE_LINES + 1
    assert {piece.prefix for piece in splitter.pieces[1:-2]} == {"```python\n"}
    assert splitter.pieces[-1].prefix == ""
    assert "".join(piece.text for piece in splitter.pieces) == f"```python\n{code}```\nend\n"


def test_a_long_table_is_cut_and_its_parts_know_their_head():
    head = "| a | b |\n|---|---|\n"
    splitter = pieces_of(head + "".join(f"| {row} | x |\n" for row in range(200)))
    assert max(piece.text.count("\n") for piece in splitter.pieces) <= MAX_TABLE_ROWS + 2
    assert {piece.prefix for piece in splitter.pieces[1:]} == {head}


def test_a_paragraph_without_an_end_is_cut_at_a_sentence():
    splitter = Splitter()
    for _word in range(20_000):
        splitter.add("word. ")
    assert max(len(piece.text) for piece in splitter.pieces) <= MAX_PARAGRAPH_CHARS + 6
    assert all(piece.text.endswith(". ") for piece in splitter.pieces)


@pytest.mark.parametrize("char", ["x", "中", " ", "`", "|", "\n", "#", ">"])
def test_monotonous_text_is_cut_too(char):
    text = char * 30_000
    splitter = pieces_of(text, iter(lambda: 997, 0))
    assert "".join(piece.text for piece in splitter.pieces) == text
    if char not in "\n`":
        assert max(len(piece.text) for piece in splitter.pieces) <= MAX_PARAGRAPH_CHARS + 997


def test_an_open_code_block_is_known():
    splitter = Splitter("```python\nx")
    assert splitter.is_code_open
    splitter.add("\n```\n")
    assert not splitter.is_code_open


def test_link_definitions_are_found():
    assert references("text\n[a]: https://x.example\nmore") == "[a]: https://x.example"
    assert references("[a](b)") == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("some **bold wo", "some **bold wo**"),
        ("some `code", "some `code`"),
        ("all **closed** here", "all **closed** here"),
        ("a bullet *", "a bullet *"),
        ("half a mark *", "half a mark *"),
        ("```python\nx = `1", "```python\nx = `1"),
        ("$$ a ** b", "$$ a ** b"),
    ],
)
def test_open_marks_of_a_growing_piece_are_closed_for_the_eye(text, shown):
    assert mended(Piece(text)).text == shown
