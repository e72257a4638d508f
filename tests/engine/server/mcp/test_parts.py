"""The parts of tool use that need no server: names, results, programs, questions, turns."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from mcp_types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from engine.core.config_mcp import McpServerConfig, McpSettings
from engine.server.errors import ApiError
from engine.server.mcp.connection import McpConnection
from engine.server.mcp.consent import Consents, Verdict
from engine.server.mcp.programs import (
    LastWords,
    ProgramNotFoundError,
    find_program,
    hide_secrets,
    secrets_in,
)
from engine.server.mcp.results import cut, result_text
from engine.server.mcp.tool_table import plain_name, tool_table, with_tools
from engine.server.mcp.turns import Transcript, Turn
from engine.server.steps import Delta
from engine.server.tool_fields import MAX_TOOLS, ToolUse
from engine.text.events import CallDelta, CallEnd, CallStart, ContentDelta
from engine.text.output_rules import CallMode, ToolChoice


def tool(name, **annotations):
    hints = ToolAnnotations(**annotations) if annotations else None
    return Tool(name=name, input_schema={"type": "object"}, annotations=hints)


def connection(name="files", *tools, **config):
    made = McpConnection(name, McpServerConfig(**config), McpSettings())
    made.tools = tuple(tools)
    return made


# -- names and the table -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "plain"), [("files", "files"), ("my files", "my_files"), ("größe/2", "gr__e_2")]
)
def test_names_keep_only_what_tool_names_may_have(name, plain):
    assert plain_name(name) == plain


def test_a_clash_is_won_by_the_request_and_then_by_the_first_server():
    first, second = connection("a b", tool("x"), tool("y")), connection("a_b", tool("x"))
    table = tool_table((first, second), {"a_b__y"})
    assert list(table) == ["a_b__x"]
    assert table["a_b__x"].connection is first


def test_no_more_tools_than_a_request_may_have():
    many = connection("m", *(tool(f"t{number}") for number in range(MAX_TOOLS + 5)))
    assert len(tool_table((many,), {"own"})) == MAX_TOOLS - 1


def test_names_are_cut_to_the_longest_that_is_allowed():
    [name] = tool_table((connection("s" * 100, tool("t" * 100)),), set())
    assert len(name) == 128


@pytest.mark.parametrize(
    ("hints", "config", "asks"),
    [
        ({}, {}, True),
        ({"read_only_hint": True}, {}, False),
        ({"read_only_hint": False}, {}, True),
        ({"destructive_hint": False}, {}, True),
        ({}, {"always_allow": ("write",)}, False),
        ({}, {"always_allow": ("*",)}, False),
        ({}, {"always_allow": ("other",)}, True),
    ],
)
def test_what_is_not_read_only_is_asked_about_unless_the_config_allows_it(hints, config, asks):
    [entry] = tool_table((connection("f", tool("write", **hints), **config),), set()).values()
    assert entry.needs_consent is asks


def test_a_choice_of_the_request_holds_for_these_tools_too():
    table = tool_table((connection("f", tool("x")),), set())
    free = with_tools(ToolUse(), table)
    assert [spec.name for spec in free.specs] == ["f__x"]
    for choice in (ToolChoice(CallMode.NONE), ToolChoice(CallMode.REQUIRED, frozenset({"own"}))):
        held = with_tools(ToolUse(choice=choice), table)
        assert held.specs == ()
        assert len(held.rendered) == 1


# -- results -------------------------------------------------------------------------------------


def test_a_result_is_the_text_of_its_blocks():
    resource = TextResourceContents(uri="file:///a", text="inside")
    result = CallToolResult(
        content=[
            TextContent(type="text", text="first"),
            ImageContent(type="image", data="aGk=", mime_type="image/png"),
            EmbeddedResource(type="resource", resource=resource),
        ]
    )
    text = result_text(result, 1000)
    assert text == "first\n[image of type image/png, which cannot be shown here]\ninside"


def test_an_empty_result_is_its_structure_or_a_remark():
    assert result_text(CallToolResult(content=[], structured_content={"ü": 1}), 99) == '{"ü": 1}'
    assert result_text(CallToolResult(content=[]), 99) == "(the tool returned nothing)"


def test_an_error_begins_with_error_once():
    for text in ("bad", "error: bad"):
        result = CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
        assert result_text(result, 99) == "error: bad"


def test_only_what_is_too_long_is_cut():
    assert cut("x" * 20, 20) == "x" * 20
    assert cut("x" * 21, 20) == (
        "x" * 20 + "\n[The result was cut: these are its first 20 of 21 characters.]"
    )


# -- programs ------------------------------------------------------------------------------------


def make_program(folder, name):
    folder.mkdir(exist_ok=True)
    path = folder / (f"{name}.cmd" if os.name == "nt" else name)
    path.write_text("@exit /b 0" if os.name == "nt" else "#!/bin/sh\nexit 0\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_program_is_found_on_the_path_under_its_full_name(tmp_path, monkeypatch):
    path = make_program(tmp_path / "with spaces ü", "npx-of-ours")
    monkeypatch.setenv("PATH", str(path.parent))
    assert find_program("npx-of-ours", {}, None) == str(path)


def test_the_servers_own_path_counts_before_ours(tmp_path, monkeypatch):
    path = make_program(tmp_path / "own", "tool-of-ours")
    monkeypatch.setenv("PATH", "")
    assert find_program("tool-of-ours", {"Path": str(path.parent)}, None) == str(path)


def test_a_relative_path_is_looked_for_in_the_servers_folder(tmp_path):
    path = make_program(tmp_path / "bin", "tool")
    assert find_program(f"bin{os.sep}{path.name}", {}, str(tmp_path)) == str(path)


def test_a_missing_program_is_named_and_the_log_says_where_it_was_looked_for(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramNotFoundError, match="npxx was not found on the PATH"):
        find_program("npxx", {}, None)
    assert str(tmp_path) in caplog.text
    with pytest.raises(ProgramNotFoundError, match="nothing"):
        find_program(str(tmp_path / "nothing"), {}, None)


def test_windows_scripts_are_found_by_their_extension(tmp_path, monkeypatch):
    if os.name != "nt":
        pytest.skip("PATHEXT is a thing of Windows; shutil.which does it there")
    path = make_program(tmp_path, "npx")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("npx", {}, None).lower() == str(path).lower()


def test_secrets_are_hidden_in_all_their_parts():
    secrets = secrets_in(["Bearer sk-123456", "--key=abcdefgh", "1"])
    text = hide_secrets("1: sk-123456, Bearer sk-123456, abcdefgh", secrets)
    assert text == "1: ***, ***, ***"


def test_the_last_lines_of_a_program_are_kept():
    words = LastWords()
    for number in range(9):
        words.writer.write(f"line {number}\n\n")
    words.writer.close()
    assert words.text() == "line 4 line 5 line 6 line 7 line 8"
    words.close()


# -- questions -----------------------------------------------------------------------------------


async def test_always_holds_for_the_tool_from_then_on():
    consents = Consents()
    consents.open("req_1", "call_1", "files", "write")
    consents.answer("req_1", "call_1", allow=True, always=True)
    assert await consents.wait("req_1", "call_1", 60) is Verdict.ALLOWED
    assert consents.is_allowed("files", "write")
    assert not consents.is_allowed("files", "delete")


async def test_a_no_is_never_for_always():
    consents = Consents()
    consents.open("req_1", "call_1", "files", "write")
    consents.answer("req_1", "call_1", allow=False, always=True)
    assert await consents.wait("req_1", "call_1", 60) is Verdict.DENIED
    assert not consents.is_allowed("files", "write")


async def test_a_question_that_is_closed_cannot_be_answered():
    consents = Consents()
    consents.open("req_1", "call_1", "files", "write")
    consents.close("req_1")
    with pytest.raises(ApiError, match="no question"):
        consents.answer("req_1", "call_1", allow=True, always=False)
    consents.open("req_1", "call_2", "files", "write")
    assert await consents.wait("req_1", "call_2", 0.01) is Verdict.UNANSWERED
    with pytest.raises(ApiError, match="no question"):
        consents.answer("req_1", "call_2", allow=True, always=False)


# -- turns ---------------------------------------------------------------------------------------


def test_calls_of_ours_are_kept_back_and_the_clients_are_numbered_anew():
    turn = Turn({"f__x"}, Transcript())
    events = [
        CallStart(0, "call_a", "f__x"),
        CallDelta(0, '{"a":'),
        CallDelta(0, "1}"),
        CallEnd(0),
        CallStart(1, "call_b", "own"),
        CallDelta(1, "{}"),
        CallEnd(1),
    ]
    shown = [delta.event for event in events if (delta := turn.add(Delta(0, event))) is not None]
    assert shown == [CallStart(0, "call_b", "own"), CallDelta(0, "{}"), CallEnd(0)]
    [call] = turn.complete_calls
    assert (call.name, call.arguments_text) == ("f__x", '{"a":1}')


def test_a_later_turn_is_set_off_by_a_blank_line_once():
    seen = Transcript()
    assert Turn(set(), seen).add(Delta(0, ContentDelta("one"))).event == ContentDelta("one")
    turn = Turn(set(), seen)
    texts = [turn.add(Delta(0, ContentDelta(text))).event.text for text in ("two", "three")]
    assert texts == ["\n\ntwo", "three"]
    assert turn.content == ["two", "three"]


# -- what is not paid for ------------------------------------------------------------------------


def test_a_server_without_tools_and_upstream_loads_neither_package():
    script = (
        "import sys, engine.commands.serve\n"
        "print([name for name in ('mcp', 'mcp_types', 'httpx2') if name in sys.modules])"
    )
    root = Path(__file__).parents[4]
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "[]"


# -- connections that cannot be ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "neither command nor url"),
        ({"url": "ftp://x"}, "http://"),
        ({"url": "http://127.0.0.1:9/sse", "type": "sse"}, "no longer in use"),
        ({"command": sys.executable, "type": "pigeon"}, "stdio or http"),
        ({"command": "no-such-program"}, "not found"),
        ({"command": sys.executable, "args": ("-c", "print('no JSON')")}, "has ended"),
    ],
)
async def test_an_entry_that_cannot_work_fails_with_a_sentence(config, words):
    broken = connection("broken", **config)
    await broken.settle(60)
    assert broken.state == "failed"
    assert words in broken.error
    await broken.close()
