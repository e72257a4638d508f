"""MCP servers: what can be pasted, and the list with what the engine says."""

import json

import pytest

from app.settings.config_draft import change_config
from app.settings.hub import Hub
from app.settings.mcp_entries import BadPasteError, read_pasted, states_of, summary
from app.settings.mcp_page import EntryDialog, McpPage

CLAUDE = (
    '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "x"], "env": {"TOKEN": "abc"}}}}'
)


@pytest.fixture
def page(qtbot, context):
    page = McpPage(Hub(context))
    qtbot.addWidget(page)
    page.show()
    page.enter()
    yield page
    page.leave()


def saved(path):
    return json.loads(path.read_text("utf-8")).get("mcp_servers")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (CLAUDE, ["files"]),
        ('{"a": {"url": "http://x/mcp"}, "b": {"command": "y"}}', ["a", "b"]),
        ('{"command": "C:\\\\tools\\\\server.exe"}', ["server"]),
        ('{"mcp_servers": {"c": {"command": "y"}}}', ["c"]),
        ('{"url": "http://x/mcp"}', ["server"]),
    ],
)
def test_what_other_programs_have_can_be_pasted(text, names):
    assert list(read_pasted(text)) == names


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"a": 1}', '{"a": {"args": []}}', '{"a": {"command": 5}}']
)
def test_anything_else_is_refused(text):
    with pytest.raises(BadPasteError):
        read_pasted(text)


def test_a_pasted_server_is_added_switched_off_edited_and_removed(page, qtbot, config_path):
    dialog = EntryDialog(page, "", "")
    dialog.text.setPlainText(CLAUDE)
    page._take(dialog, None)
    assert list(saved(config_path)) == ["files"]
    page._rows["files"].switch.click()
    assert saved(config_path)["files"]["disabled"] is True
    page._rows["files"].switch.click()
    assert "disabled" not in saved(config_path)["files"]
    dialog = EntryDialog(page, "docs", '{"command": "uvx", "args": ["docs"]}')
    page._take(dialog, "files")
    assert saved(config_path) == {"docs": {"command": "uvx", "args": ["docs"]}}
    page.remove("docs")
    assert saved(config_path) is None


def test_a_bad_paste_is_said_in_the_dialog_and_changes_nothing(page, config_path):
    dialog = EntryDialog(page, "", "no json")
    dialog.text.setPlainText("no json")
    page._take(dialog, None)
    assert dialog.notice.text.startswith("This is no list of MCP servers.")
    assert saved(config_path) is None
    dialog.reject()


def test_arguments_variables_and_headers_are_not_shown():
    entry = {"command": "npx", "args": ["--token=abcdefgh"], "env": {"A": "secret-1"}}
    assert summary(entry) == "npx"
    assert summary({"url": "https://user:pw@host/mcp?key=1"}) == "host/mcp"


def test_the_engine_says_what_works_and_why_something_does_not(
    page, config_path, supervisor, start_server, wait
):
    servers = {
        "broken": {"command": "no-such-program-here"},
        "off": {"command": "x", "disabled": True},
    }
    change_config(config_path, {"mcp_servers": servers})
    server = start_server(None, "--config", str(config_path))
    supervisor.watch(server.url, server.process.pid)
    page.enter()
    wait(lambda: "Does not work" in page._rows["broken"].state.text())
    assert "no-such-program-here" in page._rows["broken"].state.text()
    assert page._rows["off"].state.text() == "Off"
    page.leave()
    assert not page._timer.isActive()


def test_states_of_an_unknown_shape_are_none():
    assert states_of({}) == {}
    assert (
        states_of({"servers": [1, {"name": "a", "status": "ready", "tools": None}]})["a"].tools
        == ()
    )
