"""Servers of the older protocol, and schemas that cannot be followed."""

import json
import sys
from pathlib import Path

import pytest

from tests.support import mcp_tools

LEGACY = str(Path(mcp_tools.__file__).with_name("legacy_mcp.py"))
GROW = "</think>\n\n<tool_call>\n<function=old__grow>\n</function>\n</tool_call>"
REMOTE = (
    "</think>\n\n<tool_call>\n<function=old__remote>\n<parameter=x>\n1\n</parameter>\n"
    "</function>\n</tool_call>"
)


@pytest.fixture(scope="module")
def server(start_server):
    servers = {"old": {"command": sys.executable, "args": [LEGACY]}}
    answers = [
        {"when": "LEGACYDONE", "times": 0, "text": "</think>\n\nDone."},
        {"when": "GROWIT", "times": 0, "text": GROW},
        {"when": "REMOTEIT", "times": 0, "text": REMOTE},
    ]
    return start_server({"answers": answers}, "--mcp-servers", json.dumps(servers))


def names(server):
    [entry] = server.http.get("/mcp").json()["servers"]
    return [tool["name"] for tool in entry["tools"]]


def test_a_schema_that_cannot_be_followed_does_not_cost_the_request(server):
    reply = server.chat("REMOTEIT", stratum_mcp=True)
    assert reply.status_code == 200, reply.text
    assert reply.json()["choices"][0]["message"]["content"] == "Done."
    assert reply.json()["mcp_events"][-1]["content"] == "LEGACYDONE"


def test_tools_that_a_server_announces_are_there_at_the_next_request(server):
    server.chat("GROWIT", stratum_mcp=True)
    start = server.chat("GROWIT", stratum_mcp=True).json()["mcp_events"][0]
    assert start["tools"] == 3
    assert names(server) == ["old__remote", "old__grow", "old__grown"]


def test_its_stray_line_is_not_in_the_log(server):
    server.chat("GROWIT", stratum_mcp=True)
    assert "Welcome" not in server.log()
