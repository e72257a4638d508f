"""The Codex CLI against a running server: what docs/clients.md says about it works.

Needs the program (`npm install @openai/codex`): as `codex` on the PATH, or where `STRATUM_CODEX` says.
The answers come from a script; the program itself, its tools and its files are real.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.recipes import recipe_blocks

CODEX = os.environ.get("STRATUM_CODEX") or shutil.which("codex")
MCP_SERVER = Path(__file__).parents[2] / "support" / "mcp_tools.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CODEX is None, reason="the program codex is not installed"),
]

CALL = "<tool_call>\n<function={}>\n{}</function>\n</tool_call>"
PARAMETER = "<parameter={}>\n{}\n</parameter>\n"
LIST = CALL.format("exec_command", PARAMETER.format("cmd", "ls; echo seen > proof.txt"))
WHERE = CALL.format("exec_command", PARAMETER.format("cmd", "pwd"))
BROKEN = CALL.format("exec_command", PARAMETER.format("command", "[1,2"))
PATCH = CALL.format(
    "apply_patch",
    PARAMETER.format("input", '*** Begin Patch\n*** Add File: new.txt\n+a "text"\n*** End Patch'),
)
ADD = CALL.format("mcp__demo.add", PARAMETER.format("a", "2") + PARAMETER.format("b", "3"))

# One script for all tests: each task's word chooses among the answers, one after the other.
TASKS = {
    "TASKSHELL": [
        f"I must look.</think>\n\nLooking.\n{LIST}\n{WHERE}",
        f"A mistake.</think>\n\n{BROKEN}",
        "Now I know.</think>\n\nThe file is called hello.txt.",
    ],
    "TASKPATCH": [f"I edit.</think>\n\n{PATCH}", "Done.</think>\n\nEdited."],
    "TASKMCP": [f"I add.</think>\n\n{ADD}", "Sum.</think>\n\nIt is five."],
}
ERRORS = [
    {"when": "TASKERROR", "text": "Hm", "fault": {"kind": "error", "after": 1}},
    {"when": "TASKERROR", "text": "Hm.</think>\n\nThe second time it went well."},
]

# Above the recipe's own settings: nobody is there to be asked.
UNATTENDED = """
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
analytics.enabled = false
"""


@pytest.fixture(scope="module")
def server(start_server):
    answers = [
        {"when": word, "times": 1, "text": text} for word, texts in TASKS.items() for text in texts
    ]
    return start_server({"context": 65536, "answers": [*answers, *ERRORS]})


@pytest.fixture
def run_codex(server, tmp_path):
    """A function that gives a task, and returns the events that the program prints."""
    home, project = tmp_path / "codex home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (project / "hello.txt").write_text("hello", encoding="utf-8")
    settings, model = recipe_blocks("Codex CLI", server.url)
    catalog = home / "stratum.json"
    catalog.write_text(model.replace("32768", "65536"), encoding="utf-8")
    settings = settings.replace('"/home/me/.codex/stratum.json"', json.dumps(str(catalog)))
    (home / "config.toml").write_text(UNATTENDED + settings, encoding="utf-8")

    def run(task, *options):
        done = subprocess.run(
            [CODEX, "exec", "--json", "--skip-git-repo-check", *options, task],
            cwd=project,
            env={**os.environ, "CODEX_HOME": str(home), "NO_PROXY": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return [json.loads(line) for line in lines], project

    return run


def items(events, kind):
    """The finished items of a kind."""
    done = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item for item in done if item["type"] == kind]


def test_commands_run_their_results_come_back_and_the_answer_is_shown(run_codex):
    events, project = run_codex("TASKSHELL: which file is here?")
    assert (project / "proof.txt").read_text(encoding="utf-8").strip() == "seen"
    runs = items(events, "command_execution")
    assert all(run["exit_code"] == 0 for run in runs)
    outputs = "".join(run["aggregated_output"] for run in runs)
    assert "hello.txt" in outputs
    assert str(project) in outputs
    texts = [item["text"] for item in items(events, "agent_message")]
    assert texts == ["Looking.", "The file is called hello.txt."]
    assert events[-1]["type"] == "turn.completed"
    assert events[-1]["usage"]["reasoning_output_tokens"] > 0


def test_a_patch_is_free_text_and_is_applied(run_codex):
    events, project = run_codex("TASKPATCH: add a file")
    assert (project / "new.txt").read_text(encoding="utf-8") == 'a "text"\n'
    assert items(events, "agent_message")[-1]["text"] == "Edited."


def test_tools_of_the_agents_own_mcp_servers_are_called(run_codex):
    server = "mcp_servers.demo"
    options = (
        f"{server}.command={json.dumps(sys.executable)}",
        f"{server}.args={json.dumps([str(MCP_SERVER)])}",
        f"{server}.required=true",
        f"{server}.startup_timeout_sec=60",
    )
    flags = [flag for option in options for flag in ("-c", option)]
    events, _ = run_codex("TASKMCP: add 2 and 3", *flags)
    call = items(events, "mcp_tool_call")[0]
    assert (call["server"], call["tool"], call["status"]) == ("demo", "add", "completed")
    assert "SUMIS5" in json.dumps(call["result"])
    assert items(events, "agent_message")[-1]["text"] == "It is five."


def test_a_failed_response_is_tried_again(run_codex):
    events, _ = run_codex("TASKERROR: say anything")
    texts = [item["text"] for item in items(events, "agent_message")]
    assert texts[-1] == "The second time it went well."
