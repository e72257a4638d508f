"""The command line: picks the command, and turns errors into one line and an exit status.

    python -m engine serve | run | demo | chat | logits | inspect | bench | calibrate
        | card-check | lookup | mtp-import | doctor

Each command is a module `engine.commands.NAME` with `add_parser(subparsers)` and
`run(arguments) -> int`, imported only when it is used, so `--help` and the light commands are
quick. Exit status: 0 success, 2 wrong use or unusable input, 130 interrupted, 1 anything else. No
traceback reaches a person; with `--debug` it goes to the log on standard error.
"""

from __future__ import annotations

import argparse
import importlib
import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol, cast

from engine import __version__
from engine.core.error_lines import error_line, wants_error_lines
from engine.core.errors import EngineError
from engine.core.gguf_values import printable

logger = logging.getLogger(__name__)

# Name and summary, in the order of `--help`.
COMMANDS = {
    "serve": "run the HTTP server",
    "run": "answer one prompt",
    "demo": "show the bundled model at work",
    "chat": "chat in the terminal with a running server",
    "logits": "compute the logits of given tokens",
    "inspect": "show what a model file holds and whether it fits this machine",
    "bench": "measure the speed on this machine",
    "calibrate": "find the settings that make decoding faster on this machine",
    "card-check": "check the graphics cards that were not checked on this PC yet",
    "lookup": "n-gram caches: build one of a corpus, or try drafting through a text",
    "mtp-import": "make a draft head file from a checkpoint's tensors",
    "doctor": "check what works on this machine",
}

MAX_REPORT_CHARS = 2000

SETUP = "START-HERE.bat" if os.name == "nt" else "./setup.sh"

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells expect


class Command(Protocol):
    """What a module in `engine.commands` offers."""

    def add_parser(self, subparsers: argparse._SubParsersAction[CommandParser]) -> None:
        """Declare the command's flags."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; the result is the exit status."""


class CommandParser(argparse.ArgumentParser):
    """argparse without abbreviations, and with errors of one line.

    Abbreviated flags would change their meaning when a setting is added.
    """

    def __init__(
        self,
        prog: str | None = None,
        usage: str | None = None,
        description: str | None = None,
        epilog: str | None = None,
        formatter_class: type[argparse.HelpFormatter] = argparse.HelpFormatter,
        *,
        add_help: bool = True,
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=formatter_class,
            add_help=add_help,
            allow_abbrev=False,
        )
        self.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="log details and tracebacks to standard error",
        )

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, and exit with status 2."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see `{self.prog} --help`)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the result is the exit status."""
    open_missing_streams()
    use_utf8()
    words = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in words if word in COMMANDS), "")
    try:
        return dispatch(parse(words))
    except ModuleNotFoundError as error:
        sentence = f"the package {error.name} is not installed. Run {SETUP} again."
        params = {"package": error.name}
        _tell_program(EngineError(sentence, code="package_missing", params=params))
        report(command, sentence)
        return EXIT_FAILURE
    except SystemExit as stop:  # argparse: --help (0) or a usage error (2)
        return stop.code if isinstance(stop.code, int) else EXIT_FAILURE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader (`| head`) has enough
        discard_output()
        return EXIT_FAILURE


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words after `engine`; only the named command's module is imported.

    Raises:
        SystemExit: help was asked for, or the words are wrong (status 2).
    """
    parser = CommandParser(
        prog="engine", description="Stratum's engine: runs a model, and serves it on localhost."
    )
    parser.add_argument("--version", action="version", version=f"Stratum {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    wanted = next((word for word in words if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        if name != wanted:
            subparsers.add_parser(name, help=summary)
            continue
        load_command(name).add_parser(subparsers)
    arguments, unknown = parser.parse_known_args(words)
    if arguments.command is None:
        parser.error("a command is missing")
    if unknown:
        command = f"{parser.prog} {arguments.command}"
        message = f"{command}: unknown argument {unknown[0]} (see `{command} --help`)\n"
        parser.exit(EXIT_USAGE, message)
    return arguments


def dispatch(arguments: argparse.Namespace) -> int:
    """Run the parsed command; errors become one line on standard error and an exit status."""
    debug = getattr(arguments, "debug", False)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if debug else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    try:
        return _run(arguments)
    except EngineError as error:
        logger.debug("the command failed", exc_info=True)
        _tell_program(error)
        report(arguments.command, error.message)
        return error.exit_status
    except (BrokenPipeError, ModuleNotFoundError):
        raise
    except OSError as error:
        logger.debug("the command failed", exc_info=True)
        thing = (
            f"{error.filename} cannot be used" if error.filename else "reading or writing failed"
        )
        report(arguments.command, f"{thing}: {error.strerror or error}.")
        try:
            sys.stdout.flush()
        except OSError:
            discard_output()
        return EXIT_FAILURE
    except Exception as error:  # the last place where a traceback can be kept from a person
        logger.debug("the command failed", exc_info=True)
        text = " ".join(str(error).split()) or "no details"
        hint = "" if debug else " Run it again with --debug for the details."
        report(arguments.command, f"internal error: {type(error).__name__}: {text}.{hint}")
        return EXIT_FAILURE


def _run(arguments: argparse.Namespace) -> int:
    status = load_command(arguments.command).run(arguments)
    sys.stdout.flush()  # a full disk is said here, and not by Python after the end
    return status


def load_command(name: str) -> Command:
    """The command's module."""
    return cast("Command", importlib.import_module(f"engine.commands.{name.replace('-', '_')}"))


def report(command: str, message: str) -> None:
    """One line on standard error, without what would move a terminal's cursor."""
    line = " ".join(message.split())
    print(f"engine {command}: {printable(line, MAX_REPORT_CHARS)}", file=sys.stderr)


def _tell_program(error: EngineError) -> None:
    """Give the error's code to a program that reads it."""
    if wants_error_lines():
        print(error_line(error), file=sys.stderr)


def discard_output() -> None:
    """Let what was not written yet go nowhere: Python would complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def open_missing_streams() -> None:
    """Give standard streams that were closed at the start (or by `pythonw`) to nothing.

    Files that are opened later would else get their numbers, and Python has None in their place.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123  # for good
            setattr(sys, name, stream)


def use_utf8() -> None:
    """Make the standard streams UTF-8: Windows consoles default to a code page."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding="utf-8", errors="replace")
