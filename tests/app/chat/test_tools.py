"""Tools of MCP servers: shown as they happen, asked for, refused, kept."""

import sys
from pathlib import Path

import pytest

from app.chat.activity import Phase
from app.history.records import MessageState, ToolState
from tests.support import mcp_tools

TOOLS = str(Path(mcp_tools.__file__))


def call(name, **arguments):
    inside = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{inside}</function>\n</tool_call>"


ANSWERS = [
    {"when": "AGAIN", "text": "</think>\n\nAs I said."},
    {"when": "SUMIS7", "text": "</think>\n\nThe sum is seven.", "times": 0},
    {"when": "WROTE5", "text": "</think>\n\nIt is written.", "times": 0},
    {"when": "did not allow", "text": "</think>\n\nThen not.", "times": 0},
    {"when": "it fell over", "text": "</think>\n\nThe tool failed.", "times": 0},
    {"when": "ADDNEAR", "text": "I add.</think>\n\nLet me see." + call("near__add", a=3, b=4)},
    {"when": "WRITEIT", "text": "</think>\n\n" + call("near__write", text="words"), "times": 0},
    {"when": "FAILIT", "text": "</think>\n\n" + call("near__fail"), "times": 0},
    {"when": "SLOWLY", "text": "</think>\n\n" + call("near__slow", seconds=60), "times": 0},
    {
        "when": "LONGCALL",
        "text": "</think>\n\nI write." + call("near__write", text="long " * 300),
        "delay_ms": 15,
    },
]


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory):
    import json  # noqa: PLC0415  # beside its only use

    marks = tmp_path_factory.mktemp("marks")
    servers = {"near": {"command": sys.executable, "args": [TOOLS], "env": {"MARKS": str(marks)}}}
    config = tmp_path_factory.mktemp("config") / "run.json"
    config.write_text(json.dumps({"format": 1, "mcp_servers": servers}), encoding="utf-8")
    return start_server({"answers": ANSWERS, "context": 16_384}, "--config", str(config))


def test_a_tool_is_called_and_shown_in_its_place(chats):
    controller = chats.new()
    answer = chats.ask(controller, "ADDNEAR")
    assert answer.text == "Let me see.\n\nThe sum is seven."
    [tool_call] = answer.tool_calls
    assert (tool_call.server, tool_call.tool, tool_call.name) == ("near", "add", "near__add")
    assert tool_call.state is ToolState.DONE
    assert "SUMIS7" in tool_call.result
    assert tool_call.arguments == '{"a": 3, "b": 4}'
    assert answer.text[: tool_call.text_offset] == "Let me see."
    # The context holds the last round only; the counts are sums over both.
    assert answer.stats.context_used < answer.stats.prompt_tokens + answer.stats.generated_tokens
    assert chats.ask(controller, "AGAIN").text == "As I said."


@pytest.mark.parametrize("allow", [True, False])
def test_a_tool_that_changes_things_asks_first(chats, allow):
    controller = chats.new()
    controller.send("WRITEIT")
    chats.wait_phase(controller, "asking")
    assert controller.activity.tool == "near__write"
    [tool_call] = controller.path()[-1].tool_calls
    assert tool_call.state is ToolState.ASKING
    assert "words" in tool_call.arguments
    assert tool_call.answer_by_s > 0
    controller.answer_tool("another", allow=True)
    assert controller.activity.phase is Phase.ASKING
    controller.answer_tool(tool_call.id, allow=allow)
    answer = chats.wait_idle(controller)
    [tool_call] = answer.tool_calls
    assert tool_call.state is (ToolState.DONE if allow else ToolState.REFUSED)
    assert answer.text.strip() == ("It is written." if allow else "Then not.")


def test_a_tool_that_fails_is_shown_as_failed(chats):
    answer = chats.ask(chats.new(), "FAILIT")
    assert answer.tool_calls[0].state is ToolState.FAILED
    assert answer.text.strip() == "The tool failed."


def test_stop_ends_a_running_tool(chats, server):
    controller = chats.new()
    controller.send("SLOWLY")
    chats.wait_phase(controller, "running_tool")
    controller.stop()
    answer = chats.wait_idle(controller)
    assert answer.state is MessageState.STOPPED
    assert answer.tool_calls[0].state is ToolState.LOST
    server.wait_idle()


def test_the_writing_of_a_long_call_is_said(chats):
    controller = chats.new()
    controller.send("LONGCALL")
    chats.wait_phase(controller, "writing_call")
    chats.wait(lambda: controller.activity.generated_tokens > 10)
    controller.stop()
    chats.wait_idle(controller)
