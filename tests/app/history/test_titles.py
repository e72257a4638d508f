"""Titles come from the first line that says something."""

import pytest

from app.history.titles import MAX_CHARS, title_of


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("What is a monad?\nExplain.", "What is a monad?"),
        ("\n\n  ## **Plan** for today  \n- a", "Plan** for today"),
        ("```python\nprint(1)\n```", "python"),
        ("----\n你好 世界", "你好 世界"),
        ("   \n\t\n", ""),
        ("", ""),
    ],
)
def test_the_first_line_is_the_title(text, title):
    assert title_of(text) == title


def test_a_long_line_is_cut_between_words():
    title = title_of("word " * 100)
    assert len(title) <= MAX_CHARS
    assert title.endswith("word…")
    assert len(title_of("字" * 500)) == MAX_CHARS
