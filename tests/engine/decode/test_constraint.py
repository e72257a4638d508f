"""Answers held to their form: random logits, so only the constraint makes anything of them."""

import json

import numpy as np
import pytest

from engine.decode.grammar_cursor import ConstraintError, GrammarCursor
from engine.decode.grammar_vocabulary import GrammarVocabulary, LazyVocabulary
from engine.decode.json_watch import JsonWatch
from engine.text.events import (
    CallDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    ReasoningDelta,
)
from engine.text.output_rules import (
    CallMode,
    ToolChoice,
)
from engine.text.tokenizer import Tokenizer
from engine.worker.messages import Constraint, SamplingParams, Start
from tests.support.held_answers import (
    DOCUMENT,
    JSON_OBJECT,
    PING,
    REQUIRED,
    TRIP,
    WRITE,
    AnswerBench,
    Logits,
    json_schema,
    largest,
)


@pytest.fixture(scope="module")
def bench() -> AnswerBench:
    return AnswerBench()


def calls_of(events: list[Event]) -> list[tuple[str, dict[str, object]]]:
    names = [event.name for event in events if isinstance(event, CallStart)]
    arguments = [json.loads(event.arguments) for event in events if isinstance(event, CallDelta)]
    assert sum(isinstance(event, CallEnd) for event in events) == len(names) == len(arguments)
    return list(zip(names, arguments, strict=True))


def check_trip(arguments: dict[str, object]) -> None:
    assert arguments.keys() <= {"city", "days", "tags", "class", "budget", "hotel"}
    assert arguments["city"] in ("Paris", "Parma", "Rome")
    assert isinstance(arguments["days"], int)
    assert arguments["days"] >= 1
    assert set(arguments.get("tags", ())) <= {"sea", "hills"}  # type: ignore[call-overload]
    assert arguments.get("class") in ("a", "b", None)
    assert isinstance(arguments.get("budget"), int | float | None)
    if "hotel" in arguments:
        assert arguments["hotel"] in ({"pool": True}, {"pool": False})


# -- calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_required_call_is_valid_whatever_the_model_would_say(bench: AnswerBench, seed: int):
    tools = (TRIP, PING)
    start = bench.start(*tools, choice=REQUIRED, is_parallel=False, seed=seed)
    calls = calls_of(bench.events(bench.answer(start), *tools))
    assert len(calls) == 1
    name, arguments = calls[0]
    assert name in ("plan_trip", "ping")
    if name == "plan_trip":
        check_trip(arguments)
    else:
        assert arguments == {}


def test_a_named_tool_is_the_only_one(bench: AnswerBench):
    choice = ToolChoice(CallMode.REQUIRED, frozenset({"ping"}))
    ids = bench.answer(bench.start(TRIP, PING, choice=choice, is_parallel=False))
    assert calls_of(bench.events(ids, TRIP, PING)) == [("ping", {})]


def test_thinking_is_free_and_a_required_call_follows_it(bench: AnswerBench):
    start = bench.start(PING, choice=REQUIRED, is_parallel=False, is_thinking=True)
    thought = "I <tool_call> something, {and} more.</think>"
    ids = bench.answer(start, bench.script(thought))
    assert bench.text(ids).startswith(thought)
    events = bench.events(ids, PING, is_thinking=True)
    assert isinstance(events[0], ReasoningDelta)
    assert calls_of(events) == [("ping", {})]


def test_free_text_is_not_touched_until_the_call_token_comes(bench: AnswerBench):
    text = "Let me see: <function=ping> and </function>.\n"
    start = bench.start(PING)
    ids = bench.answer(start, bench.script(text))
    assert bench.text(ids) == text + "<|im_end|>"
    ids = bench.answer(start, bench.script(text + "<tool_call>\n<function=pong>"))
    assert next(e for e in bench.events(ids, PING) if isinstance(e, CallStart)).name == "ping"


def test_thinking_that_begins_anew_is_free_too(bench: AnswerBench):
    text = "Well.<think>I could <tool_call> now.</think><tool_call>\n<function=ping>"
    ids = bench.answer(bench.start(PING), bench.script(text))
    assert bench.text(ids) == text + "\n</function>\n</tool_call><|im_end|>"


def test_banned_calls_never_come(bench: AnswerBench):
    start = bench.start(PING, choice=ToolChoice(CallMode.NONE))
    ids = bench.answer(start, bench.script("So <tool_call>\n<function=ping>"))
    assert bench.tokenizer.structure.tool_call not in ids


def test_a_second_call_never_comes_where_one_is_wanted(bench: AnswerBench):
    call = "<tool_call>\n<function=ping>\n</function>\n</tool_call>"
    start = bench.start(PING, is_parallel=False)
    ids = bench.answer(start, bench.script(f"{call}\n{call}"))
    assert bench.text(ids) == call + "<|im_end|>"


def test_only_calls_follow_a_call(bench: AnswerBench):
    call = "<tool_call>\n<function=ping>\n</function>\n</tool_call>"
    ids = bench.answer(bench.start(PING), bench.script(f"{call}\n{call}Hello"))
    assert bench.text(ids) == f"{call}\n{call}<|im_end|>"


@pytest.mark.parametrize(
    "value",
    [
        "a.txt",
        "",
        "two\nlines  \n",
        "tags: </parameter> and <parameter=mode> and </function>",
        "</parameter>\nmore",
        "<tool_call> of ordinary pieces, emoji \N{GRINNING FACE}, \N{CJK UNIFIED IDEOGRAPH-4E2D}",
        'quotes " and \\ and {"json": [1]}',
    ],
)
def test_a_raw_value_is_written_as_the_model_wants_it(bench: AnswerBench, value: str):
    text = f"<tool_call>\n<function=write>\n<parameter=path>\n{value}\n</parameter>\n"
    text += "<parameter=mode>\na\n</parameter>\n</function>\n</tool_call>"
    start = bench.start(WRITE, is_parallel=False)
    ids = bench.ids("<tool_call>\n<function=write>\n<parameter=path>\n")
    ids += bench.tokenizer.encode(value, normalise=False)  # no special token in it
    ids += bench.ids(text[text.index("\n</parameter>\n<parameter=mode") :])

    def tilt(logits: Logits, so_far: list[int]) -> None:
        logits[:] = np.float32(-5)
        after = bench.tokenizer.structure.im_end
        logits[ids[len(so_far)] if len(so_far) < len(ids) else after] = 50

    made = bench.answer(start, tilt)
    assert calls_of(bench.events(made, WRITE)) == [("write", {"path": value, "mode": "a"})]


def test_a_call_does_not_end_before_its_required_parameters(bench: AnswerBench):
    text = "<tool_call>\n<function=write>\n<parameter=path>\nx\n</parameter>\n</function>"
    ids = bench.answer(bench.start(WRITE), bench.script(text), limit=300)
    made = bench.text(ids)
    assert made.startswith(text[: text.index("</function>")])
    assert "\n</parameter>\n</function>" not in made.split("<parameter=mode>")[0]


def test_a_parameter_comes_once_only(bench: AnswerBench):
    parameter = "<parameter=mode>\nw\n</parameter>\n"
    text = f"<tool_call>\n<function=write>\n{parameter}{parameter}"
    made = bench.text(bench.answer(bench.start(WRITE), bench.script(text), limit=60))
    assert made.count("<parameter=mode>") == 1


def test_special_tokens_never_stand_in_a_raw_value(bench: AnswerBench):
    text = "<tool_call>\n<function=write>\n<parameter=path>\n"
    wanted = bench.ids(text)
    special = np.flatnonzero(~bench.vocabulary.ordinary.flags(bench.vocabulary.vocab_size))

    def tilt(logits: Logits, ids: list[int]) -> None:
        if len(ids) < len(wanted):
            logits[wanted[len(ids)]] = 50
        else:
            logits[special] = 40

    ids = bench.answer(bench.start(WRITE), tilt, limit=100)
    assert len(special)
    assert not set(ids[len(wanted) :]) & set(special.tolist())


def test_tokens_that_must_come_are_taken_without_logits(bench: AnswerBench):
    start = bench.start(PING, choice=REQUIRED, is_parallel=False)
    constraint = bench.constraint(start)
    logits = np.zeros(bench.tokenizer.vocab_size, np.float32)
    ids = [constraint.choose(logits, largest)]
    while (token_id := constraint.take_forced()) is not None:
        ids.append(token_id)
    assert bench.text(ids).startswith("<tool_call>\n<function=ping>\n</function>")


def test_what_may_end_is_not_forced_to_go_on(bench: AnswerBench):
    cursor = GrammarCursor(bench.vocabulary.matcher('start: "river bank" (" of a town")?'))
    first = cursor.forced()
    assert bench.text(first) == "river bank"
    for token_id in first:
        behind = cursor.read([token_id])
        assert behind is not None
        cursor = behind
    assert cursor.forced() == []


# -- documents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_document_is_valid_whatever_the_model_would_say(bench: AnswerBench, seed: int):
    start = bench.start(form=json_schema(DOCUMENT), seed=seed)
    events = bench.events(bench.answer(start))
    assert len(events) == 1
    assert isinstance(events[0], ContentDelta)
    value = json.loads(events[0].text)
    assert value["kind"] in ("x", "y", 3)
    assert isinstance(value["inner"]["list"], list)
    assert value.keys() == {"kind", "inner"}


def test_a_document_comes_after_thinking_or_a_call_instead(bench: AnswerBench):
    start = bench.start(PING, form=JSON_OBJECT, is_thinking=True)
    text = 'Hm.</think>\n\n{"a": [1, {"b": null}]}'
    assert bench.text(bench.answer(start, bench.script(text))) == text + "<|im_end|>"
    call = "Hm.</think>\n\n<tool_call>\n<function=ping>\n</function>\n</tool_call>"
    assert bench.text(bench.answer(start, bench.script(call))) == call + "<|im_end|>"


def test_nothing_but_the_turns_end_follows_a_document(bench: AnswerBench):
    ids = bench.answer(bench.start(form=JSON_OBJECT), bench.script('{"a": 1} and more'))
    assert bench.text(ids) == '{"a": 1}<|im_end|>'


def test_white_space_in_a_document_is_bounded(bench: AnswerBench):
    def tilt(logits: Logits, ids: list[int]) -> None:
        for text in ("\n", "\n\n", " ", "    ", "\t"):
            for token_id in bench.tokenizer.encode(text):
                logits[token_id] += 6

    ids = bench.answer(bench.start(form=json_schema(DOCUMENT), seed=1), tilt, limit=1500)
    text = bench.text(ids)
    assert text.endswith("<|im_end|>") or text.endswith("<|endoftext|>")
    document = text[text.index("{") :]
    assert "\n\n" not in document
    assert " " * 21 not in document


def test_keys_are_not_repeated_and_numbers_end(bench: AnswerBench):
    text = '{"key": 1, "key": 2}'
    made = bench.text(bench.answer(bench.start(form=JSON_OBJECT), bench.script(text), limit=300))
    assert '"key": 1, "key' in made
    assert made.count('"key"') == 1
    number = json_schema({"properties": {"n": {"type": "number"}}, "required": ["n"]})
    digits = bench.script('{"n": ' + "1" * 500)
    made = bench.text(bench.answer(bench.start(form=number), digits, limit=120))
    assert "1" * 20 in made
    assert "1" * 41 not in made


def test_an_object_whose_keys_are_used_up_stays_json(bench: AnswerBench):
    """The comma promises a key, and each has been written: then one comes twice."""
    schema = {"patternProperties": {"^[ab]$": {"type": "integer"}}, "additionalProperties": False}
    text = '{"a": 1, "b": 2, "a": 3}'
    form = json_schema({"type": "object", **schema})
    made = bench.text(bench.answer(bench.start(form=form), bench.script(text), limit=100))
    assert made.startswith('{"a": 1, "b": 2, "')
    value = json.loads(made.partition("<|")[0])
    assert value.keys() == {"a", "b"}


def test_an_object_with_a_thousand_keys_is_held_to_its_form(bench: AnswerBench):
    names = [f"key_{i}" for i in range(1000)]
    form = json_schema({"type": "object", "properties": {n: {"type": "integer"} for n in names}})
    text = '{"key_7": 1, "key_900": 2, "other": 3'
    made = bench.text(bench.answer(bench.start(form=form), bench.script(text), limit=100))
    assert made.startswith('{"key_7": 1, "key_900": 2, "')
    assert json.loads(made.partition("<|")[0]).keys() <= set(names)


def test_a_grammar_beyond_its_limits_ends_with_a_sentence(bench: AnswerBench, monkeypatch):
    # A busy machine may need more than the front's 5 s to look at it; the worker's limit is meant here.
    monkeypatch.setattr("engine.text.value_grammar.COMPILE_TIMEOUT_S", 120.0)
    monkeypatch.setattr("engine.decode.grammar_vocabulary.COMPILE_TIMEOUT_S", 120.0)
    names = [f"k{i}" for i in range(7000)]
    form = json_schema({"type": "object", "properties": {n: {} for n in names}})
    with pytest.raises(ConstraintError, match="simplify its schema"):
        bench.answer(bench.start(form=form), bench.script('{"k1": 2}'))


def test_a_document_without_thinking_begins_at_once(bench: AnswerBench):
    ids = bench.answer(bench.start(form=JSON_OBJECT), bench.script('\n\n{"a": 1}'))
    assert bench.text(ids).startswith("{")


@pytest.mark.parametrize(
    ("text", "is_fine"),
    [
        ('{"a": {"a": 1}, "b": [{"a": 2}, {"a": 3}]}', True),
        ('{"a": 1, "\\u0061": 2}', False),
        ('{"\u00e4": 1, "\u00e4\u00e4": 2, "\\u00e4": 3}', False),
        ('{"x\\"y": 1, "z": "x\\"y", "x\\"z": 2}', True),
        ('["a", "a", {"a": "a"}]', True),
        ('{"a": "{\\"b\\": 1", "b": 2}', True),
        ("[1e99, -1.5E-3, 0]", True),
        ("[1e999]", False),
        ("[" + "1" * 41, False),
        ("[true, false, null]", True),
    ],
)
def test_the_watch_on_json(text: str, is_fine: bool):
    for size in (1, 3, 100):
        watch = JsonWatch()
        data = text.encode()
        fine = all(
            watch.copy().feed(b"") and watch.feed(data[i : i + size])
            for i in range(0, len(data), size)
        )
        assert fine is is_fine


# -- moving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_tokens_taken_back_leave_no_trace(bench: AnswerBench, seed: int):
    """After any rollback the same logits give the same token as without it."""
    random = np.random.default_rng(seed)
    start = bench.start(TRIP, WRITE, choice=REQUIRED, seed=seed)
    plain, moved = bench.constraint(start), bench.constraint(start)
    for _ in range(120):
        logits = random.normal(size=bench.tokenizer.vocab_size).astype(np.float32) * 2
        for _ in range(int(random.integers(0, 2))):  # a draft that is not accepted
            count = int(random.integers(1, 5))
            for _ in range(count):
                noise = random.normal(size=len(logits)).astype(np.float32)
                moved.choose(noise, largest)
            moved.rollback(count)
        wanted = plain.choose(logits, largest)
        assert moved.choose(logits, largest) == wanted
        if wanted in start.stop_ids:
            break
    with pytest.raises(ValueError, match="take back"):
        plain.rollback(1000)


def test_forced_tokens_move_the_form_and_foreign_ones_end_it(bench: AnswerBench):
    start = bench.start(PING, choice=REQUIRED, is_thinking=True)
    constraint = bench.constraint(start)
    for token_id in bench.ids("Enough.</think>\n\n"):
        constraint.advance(token_id)
    zeros = np.zeros(bench.tokenizer.vocab_size, np.float32)
    call_open = bench.tokenizer.structure.tool_call
    assert constraint.choose(zeros, largest) == call_open
    constraint.advance(bench.ids("x")[0])
    logits = zeros.copy()
    logits[7] = 1
    assert constraint.choose(logits, largest) == 7


def test_logits_beyond_the_vocabulary_are_never_chosen_under_a_grammar(bench: AnswerBench):
    constraint = bench.constraint(bench.start(form=JSON_OBJECT))
    logits = np.zeros(bench.tokenizer.vocab_size + 64, np.float32)
    logits[-64:] = 9
    token_id = constraint.choose(logits, largest)
    assert token_id < bench.tokenizer.vocab_size


def test_a_grammar_that_takes_too_long_ends_with_a_sentence(
    bench: AnswerBench, monkeypatch: pytest.MonkeyPatch
):
    times = iter(range(100))
    for clock in ("perf_counter", "thread_time"):
        name = f"engine.decode.grammar_cursor.time.{clock}"
        monkeypatch.setattr(name, lambda: float(next(times)))
    constraint = bench.constraint(bench.start(form=JSON_OBJECT))
    zeros = np.zeros(bench.tokenizer.vocab_size, np.float32)
    constraint.choose(zeros, largest)  # by the clock, which may have been another program's doing
    constraint.choose(zeros, largest)
    with pytest.raises(ConstraintError, match="takes too long"):
        constraint.choose(zeros, largest)


def test_masks_that_only_the_clock_says_are_slow_end_nothing(
    bench: AnswerBench, monkeypatch: pytest.MonkeyPatch
):
    times = iter(range(100))
    monkeypatch.setattr(
        "engine.decode.grammar_cursor.time.perf_counter", lambda: float(next(times))
    )
    constraint = bench.constraint(bench.start(form=JSON_OBJECT))
    zeros = np.zeros(bench.tokenizer.vocab_size, np.float32)
    for _ in range(10):
        constraint.choose(zeros, largest)
    assert next(times) == 2


def test_a_grammar_that_cannot_be_used_ends_with_a_sentence_and_is_not_in_the_log(
    bench: AnswerBench, caplog: pytest.LogCaptureFixture
):
    constraint = Constraint("banned", document="start: /(secret/")
    start = Start("a", (1,), 5, (2,), SamplingParams(), constraint=constraint)
    with caplog.at_level("DEBUG"), pytest.raises(ConstraintError, match="cannot be enforced"):
        bench.constraint(start)
    assert "cannot be used" in caplog.text
    assert "secret" not in caplog.text


def test_a_vocabulary_that_cannot_be_made_is_told_to_those_who_need_it(
    caplog: pytest.LogCaptureFixture,
):
    lazy = LazyVocabulary(lambda: GrammarVocabulary.from_metadata({}))
    with pytest.raises(ConstraintError, match="without tools"):
        lazy.get()
    assert "no grammars with this model" in caplog.text


def test_text_that_must_come_is_cut_into_tokens_once(
    bench: AnswerBench, monkeypatch: pytest.MonkeyPatch
):
    texts, encode = [], Tokenizer.encode

    def noted(self: Tokenizer, text: str, **how: bool) -> list[int]:
        texts.append(text)
        return encode(self, text, **how)

    monkeypatch.setattr(Tokenizer, "encode", noted)
    long = "x" * 300
    for word, num_cuts in (("must come once", 1), (long, 2)):
        for _ in range(2):
            matcher = bench.vocabulary.matcher(f'start: "{word}"')
            assert bench.text(matcher.compute_ff_tokens()) == word[: len(word)]
        assert sum(word in text for text in texts) == num_cuts


def test_places_of_a_grammar_can_be_left_and_come_back_to(bench: AnswerBench):
    first = GrammarCursor(bench.vocabulary.matcher('start: "ab" "cd"'))
    a = first.read(bench.vocabulary.byte_ids(b"a"))
    assert a is not None
    assert a.read(bench.vocabulary.byte_ids(b"x")) is None
    end = a.read(bench.vocabulary.byte_ids(b"bcd"))
    assert end is not None
    assert end.is_done
    assert not a.is_done
    again = first.read(bench.vocabulary.byte_ids(b"abcd"))
    assert again is not None
    assert again.is_done
