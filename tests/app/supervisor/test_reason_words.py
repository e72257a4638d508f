"""Each reason is a sentence with a way out."""

import pytest

pytest.importorskip("PySide6.QtCore", exc_type=ImportError)

from app.supervisor.reason_words import explain
from app.supervisor.state import Reason, ReasonCode

PARAMS = {"port": 8080, "path": "/a b/ü.json", "seconds": 60, "pid": 7}


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_reason_has_a_sentence_without_gaps(code):
    text = explain(Reason(code, PARAMS))
    assert len(text) > 20
    assert text.endswith(".")
    assert "{" not in text
    assert "?" not in text


def test_a_taken_port_names_who_has_it_and_offers_another():
    text = explain(Reason(ReasonCode.PORT_IN_USE, {**PARAMS, "owner": "nginx", "offered": 8081}))
    assert "8080" in text
    assert "nginx" in text
    assert "8081" in text


def test_an_unknown_end_shows_the_last_line_of_the_log():
    text = explain(Reason(ReasonCode.UNKNOWN, detail="the {odd} cause"))
    assert text.endswith("\nthe {odd} cause")
