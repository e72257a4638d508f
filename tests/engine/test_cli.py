"""The command line's dispatcher: help, exit statuses, one line for every error."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine import cli
from engine.core.errors import EngineError, InputError

REPOSITORY = Path(__file__).resolve().parents[2]
MODEL = REPOSITORY / "tests" / "golden" / "nople.gguf"


def command_that(monkeypatch, action):
    """Make `serve` a command that does what the test wants."""

    def add_parser(subparsers):
        subparsers.add_parser("serve").add_argument("--number", type=int)

    fake = SimpleNamespace(add_parser=add_parser, run=action)
    monkeypatch.setattr(cli, "load_command", lambda _name: fake)


def failing(error):
    def run(_arguments):
        raise error

    return run


def test_help_names_every_command_and_imports_none(capsys):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in cli.COMMANDS)
    code = "import sys, engine.cli as c; c.main(['--help']); print(*sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert "engine.commands" not in shown.stdout
    assert "numpy" not in shown.stdout


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(name, capsys):
    assert cli.main([name, "--help"]) == 0
    assert f"engine {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "a command is missing"),
        (["nope"], "invalid choice"),
        (["serve", "--nope"], "unknown argument --nope"),
        (["serve", "--port"], "expected one argument"),
        (["serve", "--por", "1"], "unknown argument --por"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(words, part, capsys):
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert part in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status", "part"),
    [
        (InputError("The file is gone.\nReally."), 2, "engine serve: The file is gone. Really."),
        (EngineError("It broke."), 1, "engine serve: It broke."),
        (EngineError("a\x1b[31mred\x07."), 1, "engine serve: a\\x1b[31mred\\x07."),
        (EngineError("much " * 9999), 1, "…"),
        (ValueError("odd\nvalue"), 1, "engine serve: internal error: ValueError: odd value."),
        (OSError(28, "No space left"), 1, "reading or writing failed: No space left."),
        (PermissionError(13, "Denied", "a.gguf"), 1, "a.gguf cannot be used: Denied."),
        (KeyError(), 1, "internal error: KeyError: no details."),
        (ModuleNotFoundError("x", name="rich"), 1, "the package rich is not installed"),
    ],
)
def test_an_error_is_one_line_without_a_traceback(monkeypatch, capsys, error, status, part):
    command_that(monkeypatch, failing(error))
    assert cli.main(["serve"]) == status
    captured = capsys.readouterr()
    assert part in captured.err
    assert captured.err.count("\n") == 1


def test_an_interrupt_is_quiet_and_130(monkeypatch, capsys):
    command_that(monkeypatch, failing(KeyboardInterrupt()))
    assert cli.main(["serve"]) == 130
    assert capsys.readouterr().err == ""


def test_the_result_of_a_command_is_the_exit_status(monkeypatch):
    seen = []

    def run(arguments):
        seen.append(arguments)
        return 7

    command_that(monkeypatch, run)
    assert cli.main(["serve", "--number", "3", "--debug"]) == 7
    assert isinstance(seen[0], argparse.Namespace)
    assert seen[0].number == 3
    assert seen[0].debug is True


def test_a_reader_that_closes_the_pipe_gets_no_complaint():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as out:
        shown = subprocess.run(
            [sys.executable, "-m", "engine", "--help"],
            cwd=REPOSITORY,
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert shown.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_output_to_a_full_disk_is_one_sentence():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "engine", "inspect", str(MODEL)],
            cwd=REPOSITORY,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell to close streams")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_error(closed):
    code = "import sys, engine.cli as c; print(c.main(['inspect', sys.argv[1]]), len(sys.stdin.read()))"
    code += "; sys.stdout.flush(); print(file=sys.stderr); sys.exit(sys.stdin.fileno())"
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" "$2" {closed}', sys.executable, code, str(MODEL)],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")
