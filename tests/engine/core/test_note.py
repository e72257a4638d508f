from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.core.note import Note, as_plain


class Colour(enum.StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    path: Path
    colour: Colour


def test_everything_of_a_report_has_a_plain_form() -> None:
    value = {
        "inner": Inner(Path("a/b"), Colour.RED),
        "pair": (1, 2.5, None, True),
        "set": frozenset({"b", "a"}),
        "note": Note("code", {"n": 1}),
    }
    plain = as_plain(value)
    assert plain == {
        "inner": {"path": str(Path("a/b")), "colour": "red"},
        "pair": [1, 2.5, None, True],
        "set": ["a", "b"],
        "note": {"code": "code", "params": {"n": 1}},
    }
    assert json.loads(json.dumps(plain)) == plain


def test_what_has_no_plain_form_is_our_mistake() -> None:
    with pytest.raises(TypeError, match="object has no plain form"):
        as_plain(object())
