"""Claude Code itself against the server: scripted sessions from the question to the last answer.

Needs the program `claude` on PATH, or its path in STRATUM_CLAUDE. What it sends changes with its
versions; seen working with 2.1.197.
"""

import json
import os
import re
import shutil
import subprocess

import pytest

CLAUDE = os.environ.get("STRATUM_CLAUDE") or shutil.which("claude")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CLAUDE is None, reason="the program claude is not installed"),
]

KEY = "local-key-of-a-test"
CALL = "<tool_call>\n<function={}>\n{}</function>\n</tool_call>"
PARAMETER = "<parameter={}>\n{}\n</parameter>\n"

# Only the requests of the session itself declare tools; titles and the like do not.
SESSION = '"Bash"'

# What a file may hold: quotes, the call format itself, letters beyond ASCII. (No trailing blanks:
# the program takes them away.)
WRITTEN = "def f():\n    return '<parameter=x>\\n\"quoted\"'\n\n# é 😀\n" * 10


def call(name, **parameters):
    return CALL.format(name, "".join(PARAMETER.format(*item) for item in parameters.items()))


class Session:
    """A person's home and project folder, and a way to run the program there."""

    def __init__(self, folder):
        self.home = folder / "home"
        self.project = folder / "project ü"
        for path in (self.home, self.project):
            path.mkdir()
        (self.project / "note.txt").write_text("the secret word is HERON\n", encoding="utf-8")

    def run(self, server, *arguments, **environment):
        """Run the program to its end, its messages going to the server."""
        variables = {
            **{key: os.environ[key] for key in ("PATH", "SYSTEMROOT") if key in os.environ},
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_AUTH_TOKEN": server.key,
            "ANTHROPIC_MODEL": "qwen3.8-flash-next",
            # Not CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: it would leave the title out.
            **dict.fromkeys(("DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY"), "1"),
            **dict.fromkeys(("DISABLE_ERROR_REPORTING", "DISABLE_BUG_COMMAND"), "1"),
            **environment,
        }
        try:
            return subprocess.run(
                [CLAUDE, *arguments],
                cwd=self.project,
                env=variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                timeout=300,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            pytest.fail(f"claude did not end: {error.stdout!r}; the server: {server.log()}")


@pytest.fixture
def session(tmp_path):
    return Session(tmp_path)


def event_lines(ended):
    """What `--output-format stream-json` printed."""
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def turns(*texts):
    """Answers to the session's requests, one after the other, and one for all other requests."""
    answers = [{"when": SESSION, "text": text} for text in texts]
    return [*answers, {"times": 0, "text": '{"title": "A note"}'}]


def test_a_session_with_tool_calls_completes_and_can_be_continued(session, start_server):
    target = session.project / "new.py"
    script = turns(
        "I should look.</think>\n\nI read the note.\n"
        + call("Bash", command="cat note.txt", description="Show the note")
        + "\n"
        + call("Read", file_path=session.project / "note.txt"),
        "It says HERON.</think>\n\n" + call("Write", file_path=target, content=WRITTEN),
        "All is done.</think>\n\nThe word is HERON, and the file is written.",
        "Nothing is left.</think>\n\nGood bye.",
    )
    server = start_server(
        {"context": 262_144, "answers": script}, environment={"STRATUM_API_KEYS": KEY}
    )
    server.key = KEY
    ended = session.run(
        server,
        *("-p", "Which word is in note.txt? Then write new.py.", "--max-turns", "6"),
        *("--allowedTools", "Bash(cat:*)", "Read", "Write", "--permission-mode", "acceptEdits"),
        *("--output-format", "stream-json", "--verbose"),
    )
    events = event_lines(ended)
    assert events[-1]["type"] == "result"
    assert events[-1]["result"] == "The word is HERON, and the file is written."
    assert events[-1]["is_error"] is False
    blocks = [
        block
        for event in events
        if event["type"] in ("assistant", "user")
        for block in event["message"]["content"]
    ]
    assert [block["name"] for block in blocks if block["type"] == "tool_use"] == [
        *("Bash", "Read", "Write"),
    ]
    thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
    assert thoughts == ["I should look.", "It says HERON.", "All is done."]
    results = [block for block in blocks if block["type"] == "tool_result"]
    assert len(results) == 3
    assert not any(block.get("is_error") for block in results)
    assert target.read_text(encoding="utf-8") == WRITTEN

    ended = session.run(server, "-c", "-p", "Is anything left?")
    assert (ended.returncode, ended.stdout.strip()) == (0, "Good bye."), ended.stderr

    ended = session.run(server, "-p", "/context", CLAUDE_CODE_MAX_CONTEXT_TOKENS="98304")
    assert ended.returncode == 0, ended.stderr
    assert "98.3k" in ended.stdout
    assert "refused" not in server.log()
    assert "finish=error" not in server.log()


def test_a_conversation_over_the_context_is_compacted(session, start_server):
    server = start_server({"context": 262_144, "answers": turns("</think>\n\nHello.")})
    assert session.run(server, "-p", "Hello").stdout.strip() == "Hello."
    sizes = [int(size) for size in re.findall(r"prompt=(\d+)", server.log())]

    count = call("Bash", command="seq 1000 1400", description="Count")  # some 2,000 tokens
    script = turns(
        *["I look.</think>\n\n" + count] * 4,
        "I sum up.</think>\n\n<summary>We counted.</summary>",
        "Now I know.</think>\n\nDone.",
    )
    server = start_server({"context": max(sizes) + 7000, "answers": script})
    events = event_lines(
        session.run(
            server,
            *("-p", "Count four times.", "--max-turns", "9", "--allowedTools", "Bash(seq:*)"),
            *("--output-format", "stream-json", "--verbose"),
        )
    )
    assert "context_length_exceeded" in server.log()
    assert "success" in [event.get("compact_result") for event in events]
    assert events[-1]["result"] == "Done."


def test_a_prompt_over_the_context_is_understood(session, start_server):
    server = start_server({"context": 4096, "answers": turns("</think>\n\nNever said.")})
    ended = session.run(server, "-p", "Hello", "--output-format", "json")
    answer = json.loads(ended.stdout)
    assert answer["is_error"] is True
    assert answer["api_error_status"] == 400
    assert "Prompt is too long" in answer["result"]
    assert "limit 4096" in answer["result"]  # it has read the numbers
