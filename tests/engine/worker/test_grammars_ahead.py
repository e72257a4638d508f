"""Large grammars: compiled in a thread of their own, and waited for."""

import threading

import pytest

from engine.core.config import BUNDLED_MODEL
from engine.core.gguf_header import read_model_header
from engine.decode.constraint import AnswerConstraint
from engine.decode.grammar_cursor import ConstraintError
from engine.decode.grammar_vocabulary import GrammarVocabulary, LazyVocabulary
from engine.text.events import ToolSpec
from engine.text.grammar import answer_grammar
from engine.text.output_rules import ANY_TOOL, FREE_TEXT, FormatKind, ResponseFormat
from engine.worker.grammars_ahead import GrammarsAhead
from engine.worker.messages import Constraint, SamplingParams, Start

LARGE = {"type": "object", "properties": {f"key number {i}": {"type": "null"} for i in range(300)}}
SMALL = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.fixture
def vocabulary():
    metadata = read_model_header(BUNDLED_MODEL).metadata
    return LazyVocabulary(lambda: GrammarVocabulary.from_metadata(metadata))


def start_of(constraint: Constraint | None) -> Start:
    return Start("a", (1,), 10, (2,), SamplingParams(), constraint=constraint)


def document(schema: dict[str, object]) -> Start:
    form = ResponseFormat(FormatKind.JSON_SCHEMA, schema)
    return start_of(answer_grammar((), ANY_TOOL, form).constraint)


def tool(schema: dict[str, object]) -> Start:
    spec = ToolSpec("f", {"type": "object", "properties": {"p": schema}})
    return start_of(answer_grammar((spec,), ANY_TOOL, FREE_TEXT).constraint)


def test_free_answers_and_small_grammars_wait_for_nothing(vocabulary: LazyVocabulary):
    ahead = GrammarsAhead(vocabulary, pytest.fail)
    assert ahead.is_ready(start_of(None))
    assert ahead.is_ready(document(SMALL))
    assert ahead.is_ready(tool(SMALL))


@pytest.mark.parametrize("make", [document, tool])
def test_a_large_grammar_is_waited_for_and_then_there(vocabulary: LazyVocabulary, make):
    woken = threading.Event()
    ahead = GrammarsAhead(vocabulary, woken.set)
    assert not ahead.is_ready(make(LARGE))
    assert woken.wait(60)
    assert ahead.is_ready(make(LARGE))
    assert ahead.is_ready(make(LARGE))  # and stays so


def test_a_grammar_is_compiled_once_for_all_who_ask(
    vocabulary: LazyVocabulary, monkeypatch: pytest.MonkeyPatch
):
    compiled: list[str] = []
    may_end, woken = threading.Event(), threading.Semaphore(0)
    plain = GrammarVocabulary.compiled

    def slow(self: GrammarVocabulary, grammar: str):
        compiled.append(grammar)
        assert may_end.wait(60)
        return plain(self, grammar)

    monkeypatch.setattr(GrammarVocabulary, "compiled", slow)
    ahead = GrammarsAhead(vocabulary, woken.release)
    for _ in range(3):
        assert not ahead.is_ready(document(LARGE))
    assert ahead.is_ready(document(SMALL))  # it does not wait behind the large one
    may_end.set()
    assert woken.acquire(timeout=60)
    assert ahead.is_ready(document(LARGE))
    assert len(compiled) == 1


def test_a_grammar_that_takes_too_long_is_refused_with_a_sentence(
    vocabulary: LazyVocabulary, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("engine.decode.grammar_vocabulary.COMPILE_TIMEOUT_S", 0.0)
    woken = threading.Event()
    ahead = GrammarsAhead(vocabulary, woken.set)
    assert not ahead.is_ready(document(LARGE))
    assert woken.wait(60)
    assert ahead.is_ready(document(LARGE))
    with pytest.raises(ConstraintError, match="simplify its schema"):
        AnswerConstraint(document(LARGE), vocabulary.get())
