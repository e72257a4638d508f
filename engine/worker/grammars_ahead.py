"""Large grammars are compiled in a thread of their own, so that the answers of others go on meanwhile.

    ahead = GrammarsAhead(vocabulary, wake)
    ahead.is_ready(start)         # False: its grammars are being compiled, and `wake` will be called

A schema of 256 KiB may take many seconds. Small ones take milliseconds and are compiled where they
are needed. Knows what a request's grammars are; the scheduler only asks.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

from llguidance import LLMatcher

from engine.decode.grammar_cursor import ConstraintError
from engine.decode.grammar_vocabulary import GrammarVocabulary, LazyVocabulary
from engine.worker.messages import Constraint, Start


class GrammarsAhead:
    """Compiles what requests will need. One thread asks; `wake` is called in another one."""

    def __init__(self, vocabulary: LazyVocabulary, wake: Callable[[], None]) -> None:
        self._vocabulary = vocabulary
        self._wake = wake
        self._wanted: set[str] = set()
        self._to_compile: queue.SimpleQueue[tuple[GrammarVocabulary, str]] = queue.SimpleQueue()
        self._compiled: queue.SimpleQueue[tuple[str, LLMatcher]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def is_ready(self, start: Start) -> bool:
        """Whether nothing that takes long must be compiled first; else that begins."""
        if start.constraint is None:
            return True
        try:
            vocabulary = self._vocabulary.get()
        except ConstraintError:
            return True  # there is nothing to wait for
        self._collect(vocabulary)
        missing = vocabulary.missing(_grammars(start.constraint))
        for grammar in missing:
            if grammar not in self._wanted:
                self._wanted.add(grammar)
                self._to_compile.put((vocabulary, grammar))
        if missing and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="grammars", daemon=True)
            self._thread.start()
        return not missing

    def _collect(self, vocabulary: GrammarVocabulary) -> None:
        while not self._compiled.empty():
            grammar, matcher = self._compiled.get()
            self._wanted.discard(grammar)
            vocabulary.keep(grammar, matcher)

    def _run(self) -> None:
        while True:
            vocabulary, grammar = self._to_compile.get()
            self._compiled.put((grammar, vocabulary.compiled(grammar)))
            self._wake()


def _grammars(constraint: Constraint) -> Iterator[str]:
    yield constraint.document
    for tool in constraint.tools:
        for parameter in tool.parameters:
            yield parameter.grammar
