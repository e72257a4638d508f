"""The MCP servers, the scripted model and the small readers of the tests of tools in a chat."""

import contextlib
import json
import sys
import time
from pathlib import Path

from tests.support import mcp_tools

TOOLS = str(Path(mcp_tools.__file__))
SECRET = "sk-secret-of-the-tool-5511"
HEADER_SECRET = "hdr-secret-8822"
URL_SECRET = "url-secret-3344"
# Longer than a busy machine takes for anything.
PATIENCE_S = 60

PARAMETER = "<parameter={}>\n{}\n</parameter>\n"


def call(name, /, **arguments):
    inside = "".join(PARAMETER.format(key, value) for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{inside}</function>\n</tool_call>"


# Whatever occurs in a prompt first in this order decides; results come before what led to them.
ANSWERS = {
    "SUMIS7": "</think>\n\nThe sum is seven.",
    "SUMIS9": "</think>\n\nThe remote sum is nine.",
    "WROTE5": "</think>\n\nIt is written.",
    "did not allow": "</think>\n\nThen not.",
    "nobody answered": "</think>\n\nNobody was there.",
    "can be asked only": "</think>\n\nI may not ask.",
    "it fell over": "</think>\n\nThe tool failed.",
    "did not answer in": "</think>\n\nThe tool was too slow.",
    "LENGTH26": "</think>\n\nThe key is there.",
    "has ended": "</think>\n\nThe server died.",
    "HUGExx": "</think>\n\nThat was long.",
    "ADDNEAR": "I add.</think>\n\nLet me see." + call("near__add", a=3, b=4),
    "ADDFAR": "</think>\n\n" + call("far_away__add", a=4, b=5),
    "WRITEIT": "</think>\n\n" + call("near__write", text="words"),
    "FAILIT": "</think>\n\n" + call("near__fail"),
    "SLOWLY": "</think>\n\n" + call("near__slow", seconds=600),
    "HUGELY": "</think>\n\n" + call("near__huge", length=3000),
    "KEYED": "</think>\n\n" + call("near__environment", name="TOOL_KEY"),
    "CRASHED": "</think>\n\n" + call("far_from_well__crash"),
    "OWNTOOL": "</think>\n\n" + call("get_weather", city="Rome"),
    "BOTHTOOLS": "</think>\n\n"
    + call("near__add", a=1, b=1)
    + "\n"
    + call("get_weather", city="x"),
    "CLASHING": "</think>\n\n" + call("near__add", a=1, b=1),
}

OWN = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def start(start_server, servers, **limits):
    """A server with these MCP servers and limits, once all of them are ready or have failed."""
    options = {"timeout_s": PATIENCE_S, "consent_timeout_s": PATIENCE_S, **limits}
    options |= {"start_timeout_s": PATIENCE_S, "max_result_chars": 1000, "max_rounds": 3}
    answers = [{"when": word, "times": 0, "text": text} for word, text in ANSWERS.items()]
    answers.append(
        {"when": "ROUNDANDROUND", "times": 3, "text": "</think>\n\n" + call("near__add", a=1, b=1)}
    )
    answers.append({"when": "ROUNDANDROUND", "times": 0, "text": "Enough.</think>\n\nEnough."})
    running = start_server(
        {"context": 8192, "answers": answers},
        *("--mcp-servers", json.dumps(servers), "--mcp", json.dumps(options)),
    )
    deadline = time.monotonic() + PATIENCE_S
    while any(entry["status"] == "starting" for entry in listed(running)):
        assert time.monotonic() < deadline, listed(running)
        time.sleep(0.05)
    return running


def near(marks):
    """How a server near by is configured; its tools leave their marks in a folder."""
    environment = {"TOOL_KEY": SECRET, "MARKS": str(marks)}
    return {"command": sys.executable, "args": [TOOLS], "env": environment}


def listed(server):
    return server.http.get("/mcp").json()["servers"]


def whole(server, content, **fields):
    reply = server.chat(content, **{"stratum_mcp": ["near", "far away"], **fields})
    assert reply.status_code == 200, reply.text
    body = reply.json()
    return body, body["choices"][0]


def mcp_events(events):
    return [event["mcp_event"] for event in events if "mcp_event" in event]


def content_of(events):
    return "".join(
        choice["delta"].get("content") or ""
        for event in events
        if event != "[DONE]"
        for choice in event["choices"]
    )


@contextlib.contextmanager
def streaming(server, content, **fields):
    """A streamed chat whose events come one by one."""
    body = {"messages": [{"role": "user", "content": content}], "stream": True, **fields}
    body.setdefault("stratum_mcp", ["near"])
    with server.http.stream("POST", "/v1/chat/completions", json=body) as reply:
        assert reply.status_code == 200, reply.read()
        yield parsed(reply.iter_lines()), reply


def parsed(lines):
    for line in lines:
        data = line.removeprefix("data: ")
        if data != line:
            yield data if data == "[DONE]" else json.loads(data)


def until(events, phase):
    """Read on to an event of a phase."""
    for event in events:
        if isinstance(event, dict) and event.get("mcp_event", {}).get("phase") == phase:
            return event["mcp_event"]
    raise AssertionError(f"no {phase}")


def answer(server, question, **fields):
    path = f"/v1/requests/{question['request_id']}/mcp_consent"
    return server.http.post(path, json={"id": question["id"], **fields})


def wait_for(path, timeout_s=PATIENCE_S):
    deadline = time.monotonic() + timeout_s
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


def fresh(marks):
    for name in ("slow-began", "slow-cancelled"):
        (marks / name).unlink(missing_ok=True)
