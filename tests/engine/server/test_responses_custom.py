"""The free text of a custom tool's call, out of JSON fragments."""

import json

import pytest

from engine.server.responses_custom import CustomInput
from engine.text.values import string_fragment

TEXTS = [
    "",
    "ls -l",
    'quotes " and \\ backslashes \\\\ " at the end\\',
    "*** Begin Patch\n+\tline\r\n*** End Patch\n",
    "ünïcödé 😀 \u2028 \0\x1b",
    '{"input":"nested"}',
]


def fragments(text, size):
    """As the answer parser writes them: never cut inside an escape sequence."""
    pieces = [string_fragment(text[at : at + size]) for at in range(0, len(text), size)]
    return ['{"input":', '"', *pieces, '"', "}"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_the_text_comes_out_as_it_comes_in(text, size):
    custom = CustomInput()
    pieces = [custom.feed(fragment) for fragment in fragments(text, size)]
    assert "".join(pieces) + custom.finish() == text
    if len(text) > 2 * size:
        assert sum(bool(piece) for piece in pieces) > 1  # it streams


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_opening_may_come_in_any_pieces(size):
    whole = json.dumps({"input": "a text"}, separators=(",", ":"))
    custom = CustomInput()
    pieces = [custom.feed(whole[at : at + size]) for at in range(0, len(whole), size)]
    assert "".join(pieces) + custom.finish() == "a text"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input":"a","other":"b"}', "a"),
        ('{"other":"b","input":"a"}', "a"),
        ("{}", ""),
        ('{"patch":"x"}', '{"patch":"x"}'),
        ('{"input":{"a":1}}', '{"input":{"a":1}}'),
        ('{"patch":"x', '{"patch":"x'),
    ],
)
def test_arguments_of_another_shape_lose_nothing_that_matters(arguments, text):
    for size in (1, 4, 1000):
        custom = CustomInput()
        pieces = [custom.feed(arguments[at : at + size]) for at in range(0, len(arguments), size)]
        assert "".join(pieces) + custom.finish() == text
