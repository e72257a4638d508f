"""What a request asks of its answer's form, turned into what the worker enforces.

    wanted = answer_grammar(specs, choice, response_format, is_parallel=True)
    start = replace(start, constraint=wanted.constraint)      # None: the answer is free
    headers["x-schema-ignored"] = ", ".join(wanted.ignored)   # when there is something to name

Runs in the front and checks everything there, so that a schema that cannot be enforced is refused
before anything is computed. Grammars are compiled for the check and again in the worker, which has
the vocabulary. Knows no protocol; how a call looks: spec/tools_format.md, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.text.events import ToolSpec
from engine.text.output_rules import CallMode, FormatKind, ResponseFormat, ToolChoice
from engine.text.schema_parts import SchemaError, schema_text
from engine.text.value_grammar import (
    ParameterRules,
    ValueGrammar,
    document_grammar,
    parameter_rules,
)
from engine.worker.messages import Constraint, ToolRule

__all__ = ["AnswerGrammar", "SchemaError", "answer_grammar"]


@dataclass(frozen=True, slots=True)
class AnswerGrammar:
    """How an answer is constrained.

    Attributes:
        constraint: what the worker enforces; None = nothing.
        ignored: keywords of schemas that are not enforced, in the order of their names.
    """

    constraint: Constraint | None = None
    ignored: tuple[str, ...] = ()


def answer_grammar(
    tools: Sequence[ToolSpec],
    choice: ToolChoice,
    response_format: ResponseFormat,
    *,
    is_parallel: bool = True,
) -> AnswerGrammar:
    """The constraint of an answer. Takes milliseconds the first time that it sees a schema.

    Args:
        tools: the declared ones; which of them may be called, `choice` says.
        choice: whether and what the answer may, or must, call.
        response_format: the form of the answer's text.
        is_parallel: one answer may hold several calls.

    Raises:
        SchemaError: a schema cannot be enforced: the answer's, or a strict one of the tool that
            the error names. Its message is a sentence.
    """
    ignored: set[str] = set()
    rules: list[ToolRule] = []
    for tool in tools:
        if choice.allows(tool.name):
            parameters = _parameters(tool)
            ignored |= parameters.ignored
            rules.append(ToolRule(tool.name, parameters.parameters))
    document = ""
    if response_format.kind is not FormatKind.TEXT:
        made = _document(response_format)
        document = made.grammar
        ignored |= made.ignored
    if choice.mode is CallMode.REQUIRED and rules:
        calls, document = "required", ""  # a turn of calls has no document
    elif rules:
        calls = "allowed"
    elif choice.mode is CallMode.NONE or document:
        calls = "banned"
    else:
        return AnswerGrammar()
    return AnswerGrammar(
        Constraint(calls=calls, tools=tuple(rules), is_parallel=is_parallel, document=document),
        tuple(sorted(ignored)),
    )


def _document(response_format: ResponseFormat) -> ValueGrammar:
    schema: object = {"type": "object"}
    if response_format.kind is FormatKind.JSON_SCHEMA:
        schema = response_format.schema or {}
    try:
        return document_grammar(schema_text(schema), is_strict=response_format.is_strict)
    except SchemaError as error:
        raise SchemaError(f"The schema of the answer {error.message}.") from error


def _parameters(tool: ToolSpec) -> ParameterRules:
    try:
        return parameter_rules(schema_text(tool.parameters), is_strict=tool.is_strict)
    except SchemaError as error:
        sentence = f"The schema of the tool {tool.name} {error.message}."
        raise SchemaError(sentence, tool.name) from error
