"""OpenCode against a running server, over chat completions: what docs/clients.md says about it works.

Needs the program (`npm install opencode-ai`): as `opencode` on the PATH, or where `STRATUM_OPENCODE`
says. The answers come from a script; the program itself, its tools and its files are real.
"""

import json
import os
import shutil
import subprocess

import pytest

from tests.support.recipes import recipe_blocks

OPENCODE = os.environ.get("STRATUM_OPENCODE") or shutil.which("opencode")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(OPENCODE is None, reason="the program opencode is not installed"),
]

PARAMETERS = {"command": "ls; echo seen > proof.txt", "description": "Lists files"}
PARAMETER = "<parameter={}>\n{}\n</parameter>\n"
LIST = "<tool_call>\n<function=bash>\n{}</function>\n</tool_call>".format(
    "".join(PARAMETER.format(name, value) for name, value in PARAMETERS.items())
)


@pytest.fixture(scope="module")
def server(start_server):
    answers = [
        # It asks for a title beside the task itself.
        {"when": "You are a title generator", "times": 0, "text": "Hm.</think>\n\nA title"},
        {"when": "TASKSHELL", "times": 1, "text": f"I must look.</think>\n\nLooking.\n{LIST}"},
        {"when": "TASKSHELL", "times": 1, "text": "I know.</think>\n\nIt is hello.txt."},
    ]
    return start_server({"context": 65536, "answers": answers})


def test_a_command_runs_its_result_comes_back_and_the_answer_is_shown(server, tmp_path):
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    (project / "hello.txt").write_text("hello", encoding="utf-8")
    config = json.loads(recipe_blocks("OpenCode", server.url)[0])
    config["provider"]["stratum"]["models"]["stratum"]["limit"]["context"] = 65536
    # Nobody is there to be asked.
    config |= {"autoupdate": False, "share": "disabled", "permission": {"*": "allow"}}
    (project / "opencode.json").write_text(json.dumps(config), encoding="utf-8")
    # It goes by PWD, not by its working folder.
    folders = {
        f"XDG_{kind}_HOME": str(home / kind) for kind in ("CONFIG", "DATA", "CACHE", "STATE")
    }
    switches = dict.fromkeys(("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH"), "1")
    done = subprocess.run(
        [OPENCODE, "run", "--format", "json", "TASKSHELL: which file is here?"],
        cwd=project,
        env={**os.environ, **folders, **switches, "HOME": str(home), "PWD": str(project)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert (project / "proof.txt").read_text(encoding="utf-8").strip() == "seen"
    texts = [event["part"]["text"] for event in events if event["type"] == "text"]
    assert texts == ["Looking.", "It is hello.txt."]
    tool = next(event["part"] for event in events if event["type"] == "tool_use")
    assert tool["state"]["status"] == "completed"
    assert "hello.txt" in tool["state"]["output"]
    reasons = [event["part"]["reason"] for event in events if event["type"] == "step_finish"]
    assert reasons == ["tool-calls", "stop"]
