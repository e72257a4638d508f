"""Marked text: every operation gives what `str` gives, and each character keeps its mark.

In these tests content is upper case and the template's text lower case, so a mark can be checked
character by character. Blanks and commas may be either.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.template import ChatTemplate
from engine.text.template_limits import Budget
from engine.text.template_spans import (
    TEXT_METHODS,
    MarkedText,
    Span,
    holds_content,
    join_texts,
    runs_of,
    spans_of,
)

pieces = st.one_of(
    st.text("ab ,\n", max_size=4),
    st.text("AB ,\n", max_size=4).map(MarkedText),
)
marked_texts = st.lists(pieces, max_size=6).map(join_texts)


def check(text: object) -> None:
    """Every letter of the text is marked as its case says."""
    if not isinstance(text, str):
        return
    assert sum(length for length, _ in runs_of(text)) == len(text)
    assert "".join(span.text for span in spans_of(text)) == text
    for span in spans_of(text):
        letters = [char for char in span.text if char.isalpha()]
        assert all(char.isupper() == span.is_content for char in letters)


CALLS = [
    ("strip", ()),
    ("strip", (", \n",)),
    ("lstrip", ()),
    ("rstrip", ("A,",)),
    ("removeprefix", ("a",)),
    ("removesuffix", ("B",)),
    ("removesuffix", ("",)),
    ("split", ()),
    ("split", (",",)),
    ("split", (",", 1)),
    ("split", (None, 1)),
    ("rsplit", ()),
    ("rsplit", (", ",)),
    ("rsplit", (None, 1)),
    ("rsplit", (",", 1)),
    ("splitlines", ()),
    ("splitlines", (True,)),
    ("partition", (",",)),
    ("rpartition", (",",)),
    ("replace", (",", "xx")),
    ("replace", ("A", MarkedText("YY"))),
    ("replace", (" ", "", 1)),
    ("join", (["a", MarkedText("A"), "b"],)),
    ("startswith", ("a",)),
    ("endswith", (("A", ","),)),
    ("find", ("B",)),
    ("rfind", (",",)),
    ("count", (" ",)),
    ("isspace", ()),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS)
@given(marked_texts)
@settings(max_examples=60, deadline=None)
def test_a_method_gives_what_str_gives_and_keeps_the_marks(name, arguments, text):
    plain = "".join(span.text for span in spans_of(text))
    result = TEXT_METHODS[name](Budget(10**6), text, *arguments)
    assert result == getattr(plain, name)(*arguments)
    assert type(result) is not list or all(isinstance(piece, str) for piece in result)
    for piece in result if isinstance(result, list | tuple) else [result]:
        check(piece)


@given(marked_texts, st.integers(-9, 9), st.integers(-9, 9))
@settings(max_examples=100, deadline=None)
def test_slices_characters_and_sums_keep_the_marks(text, start, stop):
    plain = "".join(span.text for span in spans_of(text))
    assert text[start:stop] == plain[start:stop]
    check(text[start:stop])
    for index, char in zip(range(len(text)), text, strict=True):
        assert char == plain[index]
        check(char)
        assert spans_of(text[index]) == spans_of(char)
    check(text + "a")
    check("a" + text)
    check(str(text))


@pytest.mark.parametrize("name", ["lower", "upper", "title", "capitalize"])
def test_a_change_of_case_keeps_the_marks(name):
    text = join_texts(["xy ", MarkedText("pq"), " z"])
    changed = TEXT_METHODS[name](Budget(1000), text)
    assert changed == getattr("xy pq z", name)()
    assert [length for length, _ in runs_of(changed)] == [3, 2, 2]


def test_a_change_of_case_that_changes_the_length_is_all_content():
    changed = TEXT_METHODS["upper"](Budget(1000), join_texts(["<|im_end|>", MarkedText("ß")]))
    assert spans_of(changed) == (Span("<|IM_END|>SS", True),)


def test_a_reversed_text_is_all_content():
    assert spans_of(join_texts(["ab", MarkedText("C")])[::-1]) == (Span("Cba", True),)


def test_content_is_found_inside_of_lists_and_keys():
    assert holds_content([{"a": [MarkedText("x")]}])
    assert holds_content({MarkedText("x"): 1})
    assert not holds_content(["x", {"y": ("z",)}, MarkedText(""), MarkedText("a", ((1, False),))])


@pytest.mark.parametrize(
    ("source", "spans"),
    [
        ("a{{ c }}b", [("a", False), ("C<>", True), ("b", False)]),
        ("{{ '(' + c + ')' }}", [("(", False), ("C<>", True), (")", False)]),
        ("{{ '(' ~ c ~ 1 }}", [("(", False), ("C<>", True), ("1", False)]),
        ("{% set x %}({{ c }}){% endset %}{{ x|trim }}", [("(", False), ("C<>", True), (")", False)]),
        ("{% macro f(x) %} <{{ x }}> {% endmacro %}{{ f(c)|trim }}", [("<", False), ("C<>", True), (">", False)]),
        ("{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}{{ c }}{% endcall %}", [("<", False), ("C<>", True), (">", False)]),
        ("{% filter trim %} ({{ c }} {% endfilter %}", [("(", False), ("C<>", True)]),
        ("{{ ['a', c, 1]|join('-') }}", [("a-", False), ("C<>", True), ("-1", False)]),
        ("{{ ', '.join([c, c]) }}", [("C<>", True), (", ", False), ("C<>", True)]),
        ("{{ 'a.b'.replace('.', c) }}", [("a", False), ("C<>", True), ("b", False)]),
        ("{{ '<c>'|replace('c', c) }}", [("<", False), ("C<>", True), (">", False)]),
        ("{{ c|list|join('.') }}", [("C", True), (".", False), ("<", True), (".", False), (">", True)]),
        ("{% for x in c %}{{ x }}.{% endfor %}", [("C", True), (".", False), ("<", True), (".", False), (">", True), (".", False)]),
        ("{{ c * 2 }}.{{ 2 * c }}", [("C<>C<>", True), (".", False), ("C<>C<>", True)]),
        ("{{ {'a': c}|tojson }}", [('{"a": "C<>"}', True)]),
        ("{{ {'a': 1}|tojson }}", [('{"a": 1}', False)]),
        ("{{ [c] }}", [("['C<>']", True)]),
        ("{{ 'x' ~ [c] }}", [("x", False), ("['C<>']", True)]),
        ("{{ c|safe }}{{ c|string }}{{ c|default('') }}", [("C<>C<>C<>", True)]),
        ("{{ c|first }}{{ c|last }}{{ c|reverse }}{{ [c]|max }}", [("C>><CC<>", True)]),
        ("{{ [c]|map('lower')|list|join }}{{ [c, c]|unique|join }}", [("c<>C<>", True)]),
        ("{% for k, v in {c: c}|dictsort %}{{ k }}{{ v }}{% endfor %}", [("C<>C<>", True)]),
        ("{% set n = namespace(x='') %}{% for i in [1, 2] %}{% set n.x = n.x + c %}{% endfor %}{{ n.x }}", [("C<>C<>", True)]),
        ("{{ c if c else 'x' }}{{ c or 'x' }}{{ (c, 1)[0] }}{{ messages[0]['content'] }}", [("C<>C<>C<>C<>", True)]),
    ],
)  # fmt: skip
def test_whatever_a_template_does_with_content_it_stays_content(source, spans):
    template = ChatTemplate("{% set c = messages[0].content %}" + source)
    rendered = template.render([{"role": "user", "content": "C<>"}])
    merged: list[list[object]] = []
    for span in rendered.spans:
        if merged and merged[-1][1] == span.is_content:
            merged[-1][0] = f"{merged[-1][0]}{span.text}"
        else:
            merged.append([span.text, span.is_content])
    assert [tuple(item) for item in merged] == spans
