"""Colours of code."""

import pytest

from app.chat.view.markdown.highlight import _KINDS, MAX_CHARS, HighlightJob, lexer_for
from app.chat.view.theme import _CODE_DARK, _CODE_LIGHT


def run(job):
    for _slice in range(10_000):
        if job.run(0.0):
            return job.spans
    raise AssertionError("the job does not end")


def test_words_have_their_kinds():
    spans = run(HighlightJob("def f():\n    return 'x'  # why\n", "python"))
    found = {"def f():\n    return 'x'  # why\n"[b : b + n]: kind for b, n, kind in spans}
    assert found["def"] == "keyword"
    assert found["f"] == "function"
    assert found["# why"] == "comment"


def test_slices_give_the_same_as_one_run():
    code = "x = [1, 'two', None]\n" * 200
    whole = HighlightJob(code, "python")
    whole.run(60.0)
    assert run(HighlightJob(code, "python")) == whole.spans


@pytest.mark.parametrize("language", ["", "no-such-language", "text"])
def test_an_unknown_language_is_plain(language):
    assert lexer_for(language) is None
    assert HighlightJob("x", language).run(0.0)


def test_a_huge_block_stays_plain():
    assert HighlightJob("x" * (MAX_CHARS + 1), "python").is_done


def test_every_kind_has_a_colour_in_both_themes():
    kinds = {kind for _token, kind in _KINDS}
    assert kinds <= set(_CODE_LIGHT)
    assert kinds <= set(_CODE_DARK)
