"""Rows M1 to M23 of the tool format, each with its negative twin, in every division of the text."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from engine.text.events import FinishReason
from tests.engine.text.parser_corpus import CHUNKINGS, call, parse, plain

STOP, LENGTH, CANCELLED = FinishReason.STOP, FinishReason.LENGTH, FinishReason.CANCELLED
READ_A = call("read", ("path", "a"))
READ_B = call("read", ("path", "b"))
A = ("read", '{"path":"a"}')
B = ("read", '{"path":"b"}')
BARE_A = "<function=read>\n<parameter=path>\na\n</parameter>\n</function>"


@dataclass(frozen=True)
class Row:
    """What a text becomes; `reasoning` None means: all of the thinking's characters."""

    name: str
    text: str
    content: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    unfinished: tuple[tuple[str, str], ...] = ()
    thinking: bool = False
    reason: FinishReason = STOP
    finish: FinishReason = STOP
    broken: int = 0
    stranded: int = 0


def thought(name: str, text: str, calls: tuple[tuple[str, str], ...] = (), **more: object) -> Row:
    finish = FinishReason.TOOL_CALLS if calls else more.pop("finish", STOP)
    return Row(name, text, calls=calls, thinking=True, finish=finish, **more)


def answer(name: str, text: str, content: str = "", **more: object) -> Row:
    default = FinishReason.TOOL_CALLS if more.get("calls") else STOP
    return Row(name, text, content, finish=more.pop("finish", default), **more)


UNDECLARED = call("tool_call", ("calls", "[1]"))
ROWS = [
    thought("M1 call at the end of thinking", f"I read it.\n{READ_A}\n", (A,)),
    thought("M1 call is all of the thinking", READ_A, (A,)),
    thought("M1 two calls", f"so\n\n{READ_A}\n{READ_B}", (A, B)),
    thought("M1 after a mention in a sentence", f"Use <tool_call> now.\n{READ_A}", (A,)),
    thought("M1 json call", 'so\n<tool_call>\n{"name":"read","arguments":{"path":"a"}}\n</tool_call>', (A,)),
    thought("M1 twin: not complete", READ_A.removesuffix("</tool_call>")),
    thought("M1 twin: something missing", READ_A.replace("</parameter>\n", "")),
    thought("M1 twin: what is required is missing", call("read")),
    thought("M1 twin: a value of another type", call("write", ("path", "a"), ("content", "b"), ("mode", "x"))),
    thought("M1 twin: no such choice", call("paint", ("colour", "green"))),
    thought("M1 a choice", call("paint", ("colour", "red")), (("paint", '{"colour":"red"}'),)),
    thought("M1 twin: one of two lacks what is required", f"{READ_A}\n{call('read')}"),
    thought("M1 an undeclared parameter", call("read", ("path", "a"), ("x", "1")), (("read", '{"path":"a","x":"1"}'),)),
    thought("M1 twin: no wrapper", f"so\n{BARE_A}\n"),
    thought("M1 twin: tag spelled", READ_A.replace("<tool_call>", "⟦<tool_call>⟧")),
    thought("M1 twin: cancelled", READ_A, reason=CANCELLED, finish=CANCELLED),
    thought("M2 mid-sentence", f"I write {READ_A}"),
    thought("M2 backticks", f"`{READ_A}`"),
    thought("M2 one backtick", f"`{READ_A}"),
    thought("M2 code fence", f"like\n```xml\n{READ_A}\n```"),
    thought("M2 open code fence", f"like\n```\n{READ_A}\n"),
    thought("M2 twin: the fence is closed", f"```\nx\n```\n{READ_A}", (A,)),
    thought("M2 twin: inline code at a line start", f"```x``` is it\n{READ_A}", (A,)),
    thought("M2 quoted", f"> {READ_A}"),
    thought("M2 indented", f"so\n  {READ_A}"),
    thought("M3 prose after the call", f"{READ_A}\nor not"),
    thought("M3 prose between calls", f"{READ_A}\nand\n{READ_B}"),
    thought("M3 prose in the wrapper", READ_A.replace("</function>", "</function>\nhm")),
    thought("M3 twin: white space only", f"{READ_A}\n \n\t{READ_B}\n  \n", (A, B)),
    thought("M4 cut by max_tokens", f"so\n{READ_A}", reason=LENGTH, finish=LENGTH),
    thought("M5 undeclared name", f"so\n{UNDECLARED}\n", stranded=1),
    thought("M5 envelope with calls inside", f"<tool_call>\n<function=tool_call>\n{READ_A}\n</function>\n</tool_call>", stranded=1),
    thought("M5 undeclared json", 'so\n<tool_call>{"name":"x","arguments":{}}</tool_call>', stranded=1),
    thought("M5 one of two undeclared", f"{READ_A}\n{UNDECLARED}", stranded=1),
    thought("M5 twin: undeclared, then prose", f"{UNDECLARED}\nno"),
    thought("M5 twin: undeclared, prose, a call", f"{UNDECLARED}\nno\n{READ_A}", (A,)),
    answer("M7 no wrapper", f"Now.\n{BARE_A}", "Now.", calls=(A,)),
    answer("M7 at the start", f"{BARE_A}\n", calls=(A,)),
    answer("M7 orphan close", f"{BARE_A}\n</tool_call>\nok", "ok", calls=(A,)),
    answer("M7 orphan close after a space", f"{BARE_A} </tool_call>", calls=(A,)),
    answer("M7 two", f"{BARE_A}\n{BARE_A}\n</tool_call>", calls=(A, A)),
    answer("M7 no parameter", "x\n\n<function=get_time>\n</function>", "x", calls=(("get_time", "{}"),)),
    answer("M7 after a call that began mid-line", f"so {READ_A}\n{BARE_A}", "so ", calls=(A, A)),
    answer("M7 twin: never closes", "Now.\n\n<function=read>\n<parameter=path>\na\n", "Now.\n\n<function=read>\n<parameter=path>\na\n"),
    answer("M7 twin: never closes, cut", "<function=read>\n<par", "<function=read>\n<par", reason=LENGTH, finish=LENGTH),
    answer("M7 twin: parameter closes only", "<function=read>\n<parameter=path>\na\n</parameter>\n", "<function=read>\n<parameter=path>\na\n</parameter>\n"),
    answer("M7 twin: the id instead of the close", BARE_A.replace("</function>", "</tool_call>"), BARE_A.replace("</function>", "</tool_call>")),
    answer("M7 twin: mid-line", f"so {BARE_A}", f"so {BARE_A}"),
    answer("M7 twin: undeclared", BARE_A.replace("read", "reader"), BARE_A.replace("read", "reader")),
    answer("M7 twin: in a code fence", f"```xml\n{BARE_A}\n```", f"```xml\n{BARE_A}\n```"),
    answer("M7 twin: html", "<html>\n<function>\n<f\n<", "<html>\n<function>\n<f\n<"),
    answer("M7 twin: then a real call", f"<function=read>\n{READ_A}", "<function=read>", calls=(A,)),
    answer(
        "M8 value not closed before the next",
        "<tool_call>\n<function=write>\n<parameter=path>\na\n<parameter=content>\nb\n</parameter>\n</function>\n</tool_call>",
        calls=(("write", '{"path":"a","content":"b"}'),),
    ),
    answer(
        "M8 empty value not closed",
        "<tool_call>\n<function=write>\n<parameter=path>\n<parameter=content>\nb\n</parameter>\n</function>\n</tool_call>",
        calls=(("write", '{"path":"","content":"b"}'),),
    ),
    answer(
        "M8 twin: undeclared name",
        call("write", ("path", "a\n<parameter=no>\nb"), ("content", "c")),
        calls=(("write", r'{"path":"a\n<parameter=no>\nb","content":"c"}'),),
    ),
    answer(
        "M8 twin: not at a line start",
        call("write", ("path", "a <parameter=content>"), ("content", " <parameter=path>")),
        calls=(("write", '{"path":"a <parameter=content>","content":" <parameter=path>"}'),),
    ),
    answer("M9 value not closed before the function", READ_A.replace("</parameter>\n", ""), calls=(A,)),
    answer("M9 and a new call", READ_A.replace("</parameter>\n", "").removesuffix("</tool_call>") + READ_B, calls=(A, B)),
    answer("M9 and M11", READ_A.replace("</parameter>\n", "").removesuffix("</tool_call>"), calls=(A,)),
    answer(
        "M9 twin: more value follows",
        call("read", ("path", "x </function> y\n</function>\nz")),
        calls=(("read", r'{"path":"x </function> y\n</function>\nz"}'),),
    ),
    answer("M10 function not closed", READ_A.replace("</function>\n", ""), calls=(A,)),
    answer("M10 no parameters", "<tool_call>\n<function=get_time>\n</tool_call>", calls=(("get_time", "{}"),)),
    answer("M10 twin: spelled tag", READ_A.replace("</function>\n", "⟦</tool_call>⟧\n"), calls=(("read", r'{"path":"a\n</parameter>\n</tool_call>"}'),)),
    answer("M10 neither closed, and the turn ends", "<tool_call>\n<function=read>\n<parameter=path>\na\n</tool_call>\n", calls=(A,)),
    answer("M10 neither closed, and a new call", f"<tool_call>\n<function=read>\n<parameter=path>\na\n</tool_call>\n{READ_B}", calls=(A, B)),
    answer(
        "M10 twin: the id inside a value",
        call("read", ("path", "a\n</tool_call>\nb")),
        calls=(("read", r'{"path":"a\n</tool_call>\nb"}'),),
    ),
    answer("M11 wrapper not closed", READ_A.removesuffix("\n</tool_call>"), calls=(A,)),
    answer("M11 white space at the end", READ_A.removesuffix("</tool_call>") + " \n", calls=(A,)),
    answer("M11 twin: max_tokens after the function", READ_A.removesuffix("</tool_call>"), calls=(A,), reason=LENGTH, finish=LENGTH),
    answer("M12 new wrapper", READ_A.removesuffix("</function>\n</tool_call>") + READ_B, calls=(A, B)),
    answer("M12 new function", READ_A.removesuffix("</function>\n</tool_call>") + READ_B.removeprefix("<tool_call>\n"), calls=(A, B)),
    answer("M12 new wrapper after the function", READ_A.removesuffix("</tool_call>") + READ_B, calls=(A, B)),
    answer("M12 new function after the function", READ_A.removesuffix("</tool_call>") + READ_B.removeprefix("<tool_call>\n"), calls=(A, B)),
    answer("M12 new function after an empty one", "<tool_call>\n<function=get_time>\n" + READ_B.removeprefix("<tool_call>\n"), calls=(("get_time", "{}"), B)),
    answer(
        "M12 twin: undeclared function after a value",
        call("read", ("path", "a\n</parameter>\n<function=nothing>\nb")),
        calls=(("read", r'{"path":"a\n</parameter>\n<function=nothing>\nb"}'),),
    ),
    answer(
        "M12 twin: inside a value",
        call("read", ("path", "a\n<function=read>\n<tool_call>b")),
        calls=(("read", r'{"path":"a\n<function=read>\n<tool_call>b"}'),),
    ),
    answer("M13 name without its bracket", READ_A.replace("read>", "read"), calls=(A,)),
    answer("M13 next tag follows", READ_A.replace("read>\n", "read"), calls=(A,)),
    answer("M13 crlf", READ_A.replace("read>\n", "read\r\n"), calls=(A,)),
    answer("M13 the wrapper closes", "<tool_call>\n<function=get_time</tool_call>", calls=(("get_time", "{}"),)),
    answer("M13 longer name", "<tool_call>\n<function=read_all\n</function>\n</tool_call>", calls=(("read_all", "{}"),)),
    answer("M13 twin: undeclared", "<tool_call>\n<function=rea\n</tool_call>", "<tool_call>\n<function=rea\n</tool_call>"),
    answer("M14 no name", READ_A.replace("</function>", "<parameter=\nx\n</parameter>\n</function>"), calls=(A,)),
    answer("M14 empty name", READ_A.replace("</function>", "<parameter=>\nx\n</parameter>\n</function>"), calls=(A,)),
    answer("M14 newline in the name", READ_A.replace("<parameter=path>", "<parameter=ids: [1]\n</parameter>\n<parameter=path>"), calls=(A,)),
    answer("M14 equals sign", READ_A.replace("<parameter=path>", "<parameter=note=\nx\n</parameter>\n<parameter=path>"), calls=(A,)),
    answer("M14 equals sign and bracket", READ_A.replace("<parameter=path>", "<parameter=note=x>\ny\n</parameter>\n<parameter=path>"), calls=(A,)),
    answer("M14 tag in the name", READ_A.replace("<parameter=path>", "<parameter=pa<parameter=path>"), calls=(A,)),
    answer("M14 only that", "<tool_call>\n<function=get_time>\n<parameter=\n</function>\n</tool_call>", calls=(("get_time", "{}"),)),
    answer("M14 endless name", READ_A.replace("</function>", f"<parameter={'n' * 300}>\n</parameter>\n</function>"), calls=(A,)),
    answer("M14 twin: undeclared name", call("get_time", ("zone-1.x", "5")), calls=(("get_time", '{"zone-1.x":"5"}'),)),
    answer("M15 empty", "a\n<tool_call>\n</tool_call>\nb", "a\nb"),
    answer("M15 nothing at all", "<tool_call></tool_call>"),
    answer("M15 then a call", f"<tool_call>\n<tool_call>\n</tool_call>\n{READ_A}", calls=(A,)),
    answer("M15 twin: text inside", "<tool_call> x </tool_call>", "<tool_call> x </tool_call>"),
    answer("M16 cut in a value", "<tool_call>\n<function=read>\n<parameter=path>\nab\n</para", unfinished=(("read", '{"path":"ab'),), reason=LENGTH, finish=LENGTH),
    answer("M16 cut after a parameter", READ_A.removesuffix("\n</function>\n</tool_call>"), unfinished=(("read", '{"path":"a'),), reason=LENGTH, finish=LENGTH),
    answer("M16 cut before the name", "x\n<tool_call>\n<function=re", "x", reason=LENGTH, finish=LENGTH),
    answer("M16 cut in a json body", '<tool_call>\n{"name":"read","argu', reason=LENGTH, finish=LENGTH),
    answer("M16 cancelled", "<tool_call>\n<function=read>\n", unfinished=(("read", ""),), reason=CANCELLED, finish=CANCELLED),
    answer("M16 second call cut", f"{READ_A}\n<tool_call>\n<function=read>\n", calls=(A,), unfinished=(("read", ""),), reason=LENGTH, finish=LENGTH),
    answer("M17 required complete", READ_A.removesuffix("\n</function>\n</tool_call>"), calls=(A,)),
    answer("M17 nothing required", "<tool_call>\n<function=get_time>\n", calls=(("get_time", "{}"),)),
    answer("M17 optional value cut", call("write", ("path", "a"), ("content", "b"), ("mode", "4")).partition("4")[0] + "4", calls=(("write", '{"path":"a","content":"b","mode":4}'),)),
    answer("M17 twin: required missing", call("write", ("path", "a")).removesuffix("\n</function>\n</tool_call>"), unfinished=(("write", '{"path":"a"'),), broken=1),
    answer("M17 twin: required value cut", "<tool_call>\n<function=read>\n<parameter=path>\nab", unfinished=(("read", '{"path":"ab'),), broken=1),
    answer("M17 twin: not announced", "x\n<tool_call>\n<func", "x", broken=1),
    answer("M17 after a complete call", f"{READ_A}\n<tool_call>\n", calls=(A,), broken=1),
    answer("M18 json body", '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>', calls=(A,)),
    answer("M18 arguments as a string", '<tool_call>{"name":"read","arguments":"{\\"path\\":\\"a\\"}"}</tool_call>', calls=(A,)),
    answer("M18 no arguments", '<tool_call>{"name":"get_time"}</tool_call>ok', "ok", calls=(("get_time", "{}"),)),
    answer("M18 and M11", '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n', calls=(A,)),
    answer("M18 twin: undeclared", '<tool_call>{"name":"x","arguments":{}}</tool_call>', '<tool_call>{"name":"x","arguments":{}}</tool_call>'),
    answer("M18 twin: does not parse", '<tool_call>{"name":"read"</tool_call>', '<tool_call>{"name":"read"</tool_call>'),
    answer("M18 twin: arguments are a list", '<tool_call>{"name":"read","arguments":[1]}</tool_call>', '<tool_call>{"name":"read","arguments":[1]}</tool_call>'),
    answer("M18 twin: nested too deep", f"<tool_call>{{{'[' * 20000}</tool_call>", f"<tool_call>{{{'[' * 20000}</tool_call>"),
    answer("M22 functions prefix", READ_A.replace("=read>", "=functions.read>"), calls=(A,)),
    answer("M22 twin: two prefixes", "<tool_call>\n<function=functions.functions.read>\n</function>", "<tool_call>\n<function=functions.functions.read>\n</function>"),
    answer("M22 twin: case", "<tool_call>\n<function=Read>\n</function>", "<tool_call>\n<function=Read>\n</function>"),
    answer("M22 twin: namespace", "<tool_call>\n<function=fs.read>\n</function>", "<tool_call>\n<function=fs.read>\n</function>"),
    answer("M22 undeclared, then a call", f"{UNDECLARED}\n\n{READ_A}", UNDECLARED, calls=(A,)),
    answer("M22 a declared call inside an undeclared one", f"<tool_call>\n<function=batch>\n{BARE_A}\n</tool_call>", f"<tool_call>\n<function=batch>\n{BARE_A}\n</tool_call>"),
    answer("M23 text after the call", f"{READ_A}\n\nlet me see", "let me see", calls=(A,)),
    answer("M23 text in the wrapper", READ_A.replace("</function>", "</function>\nlet me see"), "let me see\n", calls=(A,)),
    answer("M23 text between calls", f"x\n\n{READ_A}\nand\n{READ_B}\nend\n", "xandend\n", calls=(A, B)),
    answer("a surplus closing tag after a call", f"{READ_A}\n</tool_call>\n", calls=(A,)),
    answer("a closing tag alone is content", "the end is </tool_call> here", "the end is </tool_call> here"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_malformed_output_is_recovered_only_where_it_is_unambiguous(row: Row) -> None:
    seen = None
    for chunking in CHUNKINGS:
        got = parse(row.text, chunking=chunking, thinking=row.thinking, reason=row.reason)
        assert got.reasoning == (plain(row.text) if row.thinking else "")
        assert got.content == row.content
        assert tuple(got.calls) == row.calls
        assert tuple(got.unfinished) == row.unfinished
        assert got.outcome.finish_reason(row.reason) is row.finish
        assert got.outcome.tool_call_broken == row.broken
        assert got.outcome.tool_call_stranded == row.stranded
        assert seen in (None, got.events), chunking
        seen = got.events


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_without_tools_call_markup_is_plain_text(row: Row) -> None:
    for chunking in CHUNKINGS:
        got = parse(row.text, chunking=chunking, tools=(), thinking=row.thinking, reason=row.reason)
        assert got.reasoning + got.content == plain(row.text)
        assert not got.reasoning or not got.content
        assert not got.calls
        assert not got.unfinished
        assert got.outcome.finish_reason(row.reason) is row.reason


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_a_closed_mention_in_thinking_is_reasoning_m6(chunking: str) -> None:
    got = parse(f"so\n{READ_A}\n</think>\n\nNo call.", chunking=chunking, thinking=True)
    assert got.reasoning == f"so\n{READ_A}\n"
    assert got.content == "No call."
    assert not got.calls
    twin = parse(f"so\n{READ_A}\n</think>\n\n{READ_B}", chunking=chunking, thinking=True)
    assert twin.calls == [B]


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_thinking_that_ends_the_turn_asks_for_one_retry_m19(chunking: str) -> None:
    assert parse("hm</th", chunking=chunking, thinking=True).outcome.needs_retry
    assert parse("", chunking=chunking, thinking=True).outcome.needs_retry
    assert parse(UNDECLARED, chunking=chunking, thinking=True).outcome.needs_retry
    assert not parse(READ_A, chunking=chunking, thinking=True).outcome.needs_retry
    assert not parse("hm</think>a", chunking=chunking, thinking=True).outcome.needs_retry
    assert not parse("a<think>hm", chunking=chunking).outcome.needs_retry
    cut = parse("hm", chunking=chunking, thinking=True, reason=LENGTH)
    assert not cut.outcome.needs_retry


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_a_spelled_closing_tag_does_not_end_thinking_m20(chunking: str) -> None:
    got = parse("write ⟦</think>⟧ then\n</think>\nHi", chunking=chunking, thinking=True)
    assert got.reasoning == "write </think> then\n"
    assert got.content == "Hi"
