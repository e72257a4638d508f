"""Answers that are held to a form, from logits that a test makes."""

from collections.abc import Callable, Sequence

import numpy as np

from engine.core.config import BUNDLED_MODEL
from engine.core.gguf_header import read_model_header
from engine.decode.constraint import AnswerConstraint
from engine.decode.grammar_vocabulary import GrammarVocabulary
from engine.decode.sampling import Sampler
from engine.ops.token_mask import TokenMask
from engine.text.answer import AnswerStream
from engine.text.events import FinishReason, ToolSpec, merge_events
from engine.text.grammar import answer_grammar
from engine.text.output_rules import (
    ANY_TOOL,
    FREE_TEXT,
    CallMode,
    FormatKind,
    ResponseFormat,
    ToolChoice,
)
from engine.text.tokenizer import Tokenizer
from engine.worker.answer_limits import ordered_stop_ids, with_call_rules, with_thinking_rules
from engine.worker.messages import SamplingParams, Start

REQUIRED = ToolChoice(CallMode.REQUIRED)
JSON_OBJECT = ResponseFormat(FormatKind.JSON_OBJECT)
TRIP = ToolSpec(
    "plan_trip",
    {
        "type": "object",
        "properties": {
            "city": {"enum": ["Paris", "Parma", "Rome"]},
            "days": {"type": "integer", "minimum": 1},
            "tags": {"type": "array", "maxItems": 3, "items": {"$ref": "#/$defs/tag"}},
            "class": {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]},
            "budget": {"type": ["number", "null"]},
            "hotel": {
                "type": "object",
                "properties": {"pool": {"type": "boolean"}},
                "required": ["pool"],
            },
        },
        "required": ["city", "days"],
        "$defs": {"tag": {"type": "string", "enum": ["sea", "hills"]}},
    },
)
PING = ToolSpec("ping", {})
WRITE = ToolSpec(
    "write",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "mode": {"enum": ["w", "a"]},
            "text": {"type": "string"},
        },
        "required": ["path", "mode"],
    },
)
DOCUMENT = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["x", "y", 3]},
        "inner": {
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
                "flag": {"type": "boolean"},
            },
            "required": ["list"],
        },
    },
    "required": ["kind", "inner"],
}

Logits = np.ndarray


def largest(logits: Logits, mask: TokenMask | None) -> int:
    return int((logits if mask is None else mask.applied(logits)).argmax())


Tilt = Callable[[Logits, list[int]], None]


def json_schema(schema: dict[str, object]) -> ResponseFormat:
    return ResponseFormat(FormatKind.JSON_SCHEMA, schema)


class AnswerBench:
    """One vocabulary, and answers made with it."""

    def __init__(self) -> None:
        metadata = read_model_header(BUNDLED_MODEL).metadata
        self.tokenizer = Tokenizer.from_metadata(metadata)
        self.vocabulary = GrammarVocabulary(self.tokenizer)

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, parse_special=True, normalise=False)

    def text(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids, skip_control=False)

    def start(
        self,
        *tools: ToolSpec,
        choice: ToolChoice = ANY_TOOL,
        form: ResponseFormat = FREE_TEXT,
        is_parallel: bool = True,
        is_thinking: bool = False,
        seed: int = 0,
    ) -> Start:
        constraint = answer_grammar(tools, choice, form, is_parallel=is_parallel).constraint
        start = Start(
            "a",
            (1,),
            3000,
            ordered_stop_ids(self.tokenizer),
            SamplingParams(seed=seed),
            constraint=constraint,
        )
        start = with_call_rules(start, self.tokenizer)
        return with_thinking_rules(start, self.tokenizer, None) if is_thinking else start

    def constraint(self, start: Start) -> AnswerConstraint:
        return AnswerConstraint(start, self.vocabulary)

    def answer(
        self, start: Start, tilt: Tilt = lambda _logits, _ids: None, limit: int = 1500
    ) -> list[int]:
        """The ids of an answer from random logits, to a stop id or the limit."""
        constraint, sampler = self.constraint(start), Sampler(start.sampling)
        random = np.random.default_rng(start.sampling.seed)
        ids: list[int] = []
        while len(ids) < limit and (not ids or ids[-1] not in start.stop_ids):
            logits = random.normal(size=self.tokenizer.vocab_size).astype(np.float32) * 2
            tilt(logits, ids)
            ids.append(constraint.choose(logits, sampler.sample))
            sampler.note(ids[-1])
        return ids

    def events(self, ids: Sequence[int], *tools: ToolSpec, is_thinking: bool = False):
        stream = AnswerStream(
            self.tokenizer,
            tools,
            starts_in_thinking=is_thinking,
            stops=(),
            new_call_id=lambda: "call",
        )
        is_ended = ids[-1] in self.tokenizer.eos_ids
        events = list(stream.push(ids).events)
        events += stream.finish(FinishReason.STOP if is_ended else FinishReason.LENGTH).events
        return merge_events(events)

    def script(self, text: str) -> Tilt:
        """Logits that want exactly this text, token by token."""
        wanted = self.ids(text)

        def tilt(logits: Logits, ids: list[int]) -> None:
            logits[:] = np.float32(-15)
            logits[self.tokenizer.structure.im_end] = 20  # where what is wanted must not come
            if len(ids) < len(wanted):
                logits[wanted[len(ids)]] = 50

        return tilt
