"""`python -m installer`: what setup starts.

    python -m installer                       the wizard; when all is installed, what is installed
    python -m installer --headless --yes      the same in this terminal, without questions
    python -m installer --check [--json]      look at this PC, change nothing

Exit status: 0 success, 2 wrong use or unusable input, 130 interrupted, 1 anything else. Of `--check`:
1 when only the bundled model can run.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import io
import json
import logging
import logging.handlers
import os
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine import __version__
from engine.core.catalog_file import PROGRAM_DIR, find_model, load_catalog
from engine.core.errors import EngineError, InputError, ResourceError
from engine.core.language import Language, system_language
from engine.core.setting_paths import whole_path
from engine.core.settings import load_settings, settings_path
from installer.i18n.texts import Texts

if TYPE_CHECKING:
    from installer.steps import Installation

logger = logging.getLogger(__name__)

EXIT_INTERRUPTED = 130
_LOG_BYTES = 1 << 20
_START_S = 900.0  # a large model from a hard disk


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the result is the exit status."""
    _open_missing_streams()
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):  # a pipe on Windows has another encoding
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    texts = Texts(options.language or system_language())
    with _log_file():
        return _guarded(options, texts)


def _open_missing_streams() -> None:
    """Started without a console (pythonw) there are no streams; what is printed goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # until the end


def _guarded(options: argparse.Namespace, texts: Texts) -> int:
    """Run; whatever goes wrong is a sentence."""
    try:
        return _run(options, texts)
    except EngineError as error:
        logger.info("ended with %s", error.code, exc_info=True)
        return _fail(error, options, texts)
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{texts.say('cli.stopped')}\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # until the end
        return 1
    except Exception as error:
        logger.exception("the installer failed")
        reason = f"{type(error).__name__}: {error}"
        unexpected = EngineError(
            f"Something unexpected happened ({reason}). The log has the details: {_log_path()}",
            code="unexpected",
            params={"reason": reason},
        )
        return _fail(unexpected, options, texts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="installer", allow_abbrev=False, description="Install Stratum's models."
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="look at this PC, change nothing")
    what.add_argument("--calibrate", action="store_true", help="measure the fastest settings")
    what.add_argument("--repair", action="store_true", help="verify all, fetch what is damaged")
    what.add_argument("--uninstall", action="store_true", help="remove what was installed")
    what.add_argument("--move-data", type=Path, metavar="DIR", help="move models and chats there")
    what.add_argument("--roll-back", action="store_true", help="go back to the version before")
    what.add_argument("--care", action="store_true", help="the window to move, repair, go back")
    what.add_argument(
        "--wizard", action="store_true", help="the wizard, also when all is installed"
    )
    parser.add_argument("--headless", action="store_true", help="no window")
    parser.add_argument("--yes", action="store_true", help="agree to plan and licence")
    parser.add_argument("--model", metavar="ID", help="this model, not the recommended one")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where models and chats go")
    parser.add_argument("--context", type=int, metavar="N", help="with this context, in tokens")
    parser.add_argument("--agents", action="store_true", help="coding agents will use it")
    parser.add_argument("--no-start", action="store_true", help="install only")
    parser.add_argument("--json", action="store_true", help="one JSON object; implies --no-start")
    parser.add_argument("--at-login", action="store_true", help="start without opening the chat")
    parser.add_argument("--language", type=Language, choices=list(Language), help="of the texts")
    return parser


def _run(options: argparse.Namespace, texts: Texts) -> int:
    if options.check:
        return _check(options, texts)
    if options.repair or options.uninstall or options.move_data or options.roll_back:
        return _care(options, texts)
    from installer.move_data import pending_move, require_no_pending_move  # noqa: PLC0415

    if options.care or (pending_move() is not None and _is_window_wanted(options)):
        reason = _why_no_window()
        if not reason:
            from installer.wizard.app import run_care  # noqa: PLC0415  # Qt is not always there

            return run_care(texts)
    require_no_pending_move()
    if options.care:
        raise InputError(texts.say("cli.no_care"), code="no_window")
    from installer.steps import Installation  # noqa: PLC0415  # the tasks above need none

    installation = Installation.open(load_catalog())
    if options.language is not None:
        choices = installation.choices.model_copy(update={"language": options.language})
        installation.choose(choices)
    elif installation.choices.language is not None:
        texts = Texts(installation.choices.language)
    if options.at_login:
        return _start_at_login(installation, texts)
    if _is_window_wanted(options):
        if installation.is_finished and not _wants_wizard(options):
            return _start_installed(installation.config_path, texts)
        reason = _why_no_window()
        if not reason:
            return _wizard(options, installation, texts)
        sys.stdout.write(texts.say("cli.no_window", reason=reason) + "\n")
    return _headless(options, installation, texts)


def _wants_wizard(options: argparse.Namespace) -> bool:
    return bool(options.wizard or options.model or options.data_dir or options.context)


def _check(options: argparse.Namespace, texts: Texts) -> int:
    from installer.check import check, check_as_plain, check_lines  # noqa: PLC0415

    catalog = load_catalog()
    if options.model is not None:
        find_model(catalog, options.model)
    report = check(
        options.data_dir or load_settings().data_dir,
        catalog,
        for_coding_agents=options.agents,
        model_id=options.model,
        context=options.context,
    )
    if options.json:
        sys.stdout.write(json.dumps(check_as_plain(report), ensure_ascii=False) + "\n")
    else:
        for line in check_lines(report, texts):
            sys.stdout.write(line + "\n")
    return report.exit_status


def _care(options: argparse.Namespace, texts: Texts) -> int:
    """Repair, move, go back, or uninstall."""
    from installer.care import (  # noqa: PLC0415
        CareOptions,
        move_here,
        repair_here,
        roll_back_here,
        uninstall_here,
    )
    from installer.move_data import require_no_pending_move  # noqa: PLC0415

    data_dir = whole_path(options.data_dir) if options.data_dir else None
    care = CareOptions(is_agreed=options.yes, as_json=options.json, data_dir=data_dir)
    if options.move_data:
        return move_here(care, options.move_data, texts)
    require_no_pending_move()
    if options.roll_back:
        return roll_back_here(care, texts)
    return repair_here(care, texts) if options.repair else uninstall_here(care, texts)


def _headless(options: argparse.Namespace, installation: Installation, texts: Texts) -> int:
    from installer.headless import Headless, HeadlessOptions  # noqa: PLC0415

    headless = Headless(
        installation,
        HeadlessOptions(
            is_agreed=options.yes,
            is_start_wanted=not options.no_start,
            as_json=options.json,
            model_id=options.model,
            data_dir=options.data_dir,
            context=options.context,
            is_for_agents=True if options.agents else None,
        ),
        texts,
        lambda: _take_over(
            texts, is_quiet=options.json, starts_former=not (options.no_start or options.json)
        ),
    )
    status = headless.calibrate() if options.calibrate else headless.run()
    if options.json:
        sys.stdout.write(json.dumps(headless.report, ensure_ascii=False) + "\n")
    return status


def _wizard(options: argparse.Namespace, installation: Installation, texts: Texts) -> int:
    from installer.wizard.app import run_wizard  # noqa: I001, PLC0415  # Qt first: it is the slowest
    from installer.care import take_over  # noqa: PLC0415
    from installer.program import read_record  # noqa: PLC0415

    changes: dict[str, object] = {}
    if options.model is not None:
        find_model(installation.catalog, options.model)
        changes["model_id"] = options.model
    if options.data_dir is not None:
        changes["data_dir"] = whole_path(options.data_dir)
    if options.context is not None:
        changes["context"] = options.context
    if options.agents:
        changes["is_for_agents"] = True
    if installation.is_finished:
        installation.begin_again()
    if changes:
        installation.choose(installation.choices.model_copy(update=changes))
    if read_record() is not None and not _take_over(texts):
        return 0
    # Of a first installation: when the model is there, behind the window.
    return run_wizard(installation, lambda: take_over(texts, is_quiet=True))


def _take_over(texts: Texts, *, is_quiet: bool = False, starts_former: bool = True) -> bool:
    """Whether this program is the one to use; else the former one was started, where that is wanted.

    A version that is new here tests itself first, and makes its entries in the menus.

    Raises:
        ResourceError: it does not work, and there is no other.
    """
    from installer.care import start_former, take_over  # noqa: PLC0415

    root = take_over(texts, is_quiet=is_quiet)
    if root == PROGRAM_DIR:
        return True
    if starts_former:
        start_former(root)
    return False


def _start_at_login(installation: Installation, texts: Texts) -> int:
    """Start what is installed and say nothing; or go on with the download that was asked for."""
    from installer.launch import start  # noqa: PLC0415

    if not installation.is_finished and installation.choices.resumes_at_login:
        from installer.wizard.app import run_wizard  # noqa: PLC0415  # Qt is not always there

        return 0 if _why_no_window() else run_wizard(installation)
    config = installation.config_path
    if installation.is_finished and config is not None and _take_over(texts, is_quiet=True):
        start(config, is_at_login=True)
    return 0


def _start_installed(config: Path | None, texts: Texts) -> int:
    """Start what is installed, and show the chat when it answers."""
    from installer.care import bring_calibration_in_line  # noqa: PLC0415
    from installer.launch import has_app, last_words, start, stays, wait_until_ready  # noqa: PLC0415

    if config is None:
        raise ValueError("nothing is installed")
    if not _take_over(texts):
        return 0
    bring_calibration_in_line(config)
    started = start(config)
    if has_app():  # it says the rest itself, in its own window
        is_there = stays(started)
    else:
        sys.stdout.write(texts.say("done.starting") + "\n")
        sys.stdout.flush()
        is_there = wait_until_ready(started, _START_S)
    if not is_there:
        sentence = texts.say("done.not_running", reason=last_words(started.log))
        raise ResourceError(sentence, code="not_running")
    if not has_app():
        sys.stdout.write(texts.say("cli.running", url=started.url) + "\n")
        webbrowser.open(started.url)
    return 0


def _why_no_window() -> str:
    """Why no window can be opened here; empty when one can.

    Asked before Qt is: without a screen, or without one library of X11, Qt ends the whole process.
    """
    try:
        import PySide6.QtWidgets  # noqa: F401, PLC0415  # it, or a library that it needs, may be missing
    except ImportError as error:
        return str(error)
    if sys.platform == "win32" or os.environ.get("QT_QPA_PLATFORM") == "offscreen":
        return ""
    if os.environ.get("WAYLAND_DISPLAY"):
        return ""
    if not os.environ.get("DISPLAY"):
        return "DISPLAY"
    try:
        ctypes.CDLL("libxcb-cursor.so.0")
    except OSError:
        return "libxcb-cursor.so.0"
    return ""


def _fail(error: EngineError, options: argparse.Namespace, texts: Texts) -> int:
    """Say it where the person looks: on the terminal, or in a window where there is none."""
    sentence = texts.error(error)
    if options.json:
        report = {"ok": False, "code": error.code, "message": sentence, "params": error.params}
        sys.stdout.write(json.dumps(report, ensure_ascii=False) + "\n")
    sys.stderr.write(f"installer: {sentence}\n")
    if _is_window_wanted(options) and not sys.stderr.isatty() and not _why_no_window():
        from installer.wizard.app import show_error  # noqa: PLC0415  # Qt is not always there

        show_error(texts.say("app.title"), sentence)
    return error.exit_status


def _is_window_wanted(options: argparse.Namespace) -> bool:
    in_terminal = (
        *(options.headless, options.json, options.yes, options.at_login),
        *(options.check, options.calibrate, options.repair, options.uninstall),
        *(options.move_data, options.roll_back),
    )
    return not any(in_terminal)


def _log_path() -> Path:
    return settings_path().parent / "logs" / "installer.log"


@contextlib.contextmanager
def _log_file() -> Iterator[None]:
    """Keep what a supporter would want to see; without a place for it nothing is kept."""
    path = _log_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=_LOG_BYTES, backupCount=2, encoding="utf-8"
        )
    except OSError:
        yield
        return
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    kept = [logging.getLogger(name) for name in ("installer", "engine")]
    for parent in kept:
        parent.addHandler(handler)
        parent.setLevel(logging.INFO)
    logger.info("Stratum %s, %s", __version__, sys.platform)
    try:
        yield
    finally:
        for parent in kept:
            parent.removeHandler(handler)
        handler.close()


if __name__ == "__main__":
    sys.exit(main())
