"""Strict JSON: what is read, and in which words anything else is refused."""

import pytest

from engine.core.strict_json import MAX_DEPTH, BadJsonError, parse_json


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("{", "line 1 column 2"),
        ("NaN", "NaN is not a number"),
        ("[-Infinity]", "-Infinity is not a number"),
        ('{"a": [1e999]}', "a number is too large"),
        ("9" * 5000, "too many digits"),
        ("[" * 200_000, "nested too deeply"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested too deeply"),
        ("\ufeff1", "BOM"),
    ],
)
def test_what_is_no_strict_json_is_refused_with_its_reason(text, reason):
    with pytest.raises(BadJsonError, match=reason):
        parse_json(text)


def test_nesting_up_to_the_limit_is_read():
    value = parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == []


def test_of_equal_keys_the_last_or_the_first_counts():
    text = '{"a": 1, "b": {"c": 2, "c": 3}, "a": 4}'
    assert parse_json(text) == {"a": 4, "b": {"c": 3}}
    assert parse_json(text, first_wins=True) == {"a": 1, "b": {"c": 2}}
