"""What `--repair`, `--uninstall`, `--move-data` and `--roll-back` do in a terminal; updates at a start.

repair_here(CareOptions(as_json=True), texts)      # -> exit status
uninstall_here(CareOptions(is_agreed=True), texts)
move_here(CareOptions(is_agreed=True), Path("/big/Stratum"), texts)
roll_back_here(CareOptions(is_agreed=True), texts)
take_over(texts)                                   # -> folder of the program to start
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog_file import PROGRAM_DIR, load_catalog
from engine.core.config_file import load_config
from engine.core.errors import EngineError, InputError, ResourceError
from engine.core.login_start import python_of
from engine.core.setting_paths import whole_path
from engine.core.settings import load_settings
from installer.child import child_environment, detached_flags
from installer.download.options import DownloadOptions
from installer.entries import EntrySystem, system_entries
from installer.i18n.texts import Texts
from installer.move_data import DataMove, MoveReport, pending_move
from installer.program import program_version, read_record
from installer.repair import Repair, RepairReport
from installer.running import require_stopped
from installer.terminal import TerminalProgress, answer_is_yes, say
from installer.uninstall import Inventory, Keep, Part, remove, take_inventory
from installer.update import Adoption, Outcome, adopt, former_version, roll_back

logger = logging.getLogger(__name__)

_MOST_NAMES = 5
_SUMMARY = (
    (Part.PROGRAM, "remove.program"),
    (Part.MODELS, "remove.models"),
    (Part.CHATS, "remove.chats"),
    (Part.OTHER, "remove.other"),
    (Part.SETTINGS, "remove.settings"),
)


@dataclass(frozen=True, slots=True)
class CareOptions:
    """What the command line says.

    Attributes:
        is_agreed: no questions; models and chats are kept.
        as_json: one JSON object.
        data_dir: the data folder; None: the person's.
        root: the program's folder.
    """

    is_agreed: bool = False
    as_json: bool = False
    data_dir: Path | None = None
    root: Path = PROGRAM_DIR

    @property
    def folder(self) -> Path:
        """The data folder."""
        return self.data_dir or load_settings().data_dir


# -- repair ------------------------------------------------------------------------------------------


def repair_here(options: CareOptions, texts: Texts, download: DownloadOptions | None = None) -> int:
    """Verify and repair; 0 when everything is right at the end.

    Raises:
        EngineError: the catalogue cannot be read, or it was stopped.
    """
    if not options.as_json:
        say(texts.say("repair.start"))
    repair = Repair(load_catalog(), download or DownloadOptions(options.folder), options.root)
    with TerminalProgress(texts, as_json=options.as_json) as progress:
        report = repair.run(progress.show)
    if options.as_json:
        sys.stdout.write(json.dumps(report.as_plain(), ensure_ascii=False) + "\n")
    else:
        for line in repair_lines(report, texts):
            say(line)
    return 0 if report.is_well else 1


def repair_lines(report: RepairReport, texts: Texts) -> list[str]:
    """The report in sentences."""
    lines = [] if report.models else [texts.say("repair.nothing")]
    for model in report.models:
        files = _names(model.bad)
        if not model.bad:
            key, params = "repair.model_well", {"num_files": model.num_files}
            lines.append(texts.say(key, title=model.title, **params))
        elif model.is_repaired:
            lines.append(texts.say("repair.model_repaired", title=model.title, files=files))
        else:
            reason = model.reason
            lines.append(
                texts.say("repair.model_bad", title=model.title, files=files, reason=reason)
            )
    if report.program is not None:
        bad = _names(report.program)
        lines.append(
            texts.say("repair.program_bad", files=bad) if bad else texts.say("repair.program_well")
        )
    lines += [texts.say("repair.config_aside", file=name) for name in report.broken_configs]
    engine = report.engine
    lines.append(
        texts.say("repair.engine_bad", reason=engine) if engine else texts.say("repair.engine_well")
    )
    lines.append(texts.say("repair.done" if report.is_well else "repair.not_done"))
    return lines


# -- uninstall ---------------------------------------------------------------------------------------


def uninstall_here(options: CareOptions, texts: Texts, entries: EntrySystem | None = None) -> int:
    """Show what is installed, ask, remove; 0 when it is gone or the person wants it no more.

    Raises:
        InputError: nobody can be asked, and `--yes` was not given.
        InstallError: the server still runs and cannot be ended.
    """
    inventory = take_inventory(options.root, options.folder)
    if not options.as_json:
        for line in inventory_lines(inventory, texts):
            say(line)
    keep = Keep()
    if not options.is_agreed:
        if options.as_json or not sys.stdin.isatty():
            raise InputError(texts.say("remove.needs_yes"), code="needs_yes")
        if not answer_is_yes(texts.say("remove.ask")):
            say(texts.say("remove.not_confirmed"))
            return 0
        keep = _ask_what_to_keep(inventory, texts)
    problems = remove(inventory, keep, entries or system_entries())
    kept = inventory.num_bytes(*_kept_parts(keep))
    if options.as_json:
        report = {
            "ok": not problems,
            "items": inventory.as_plain(),
            "kept": [part.value for part in _kept_parts(keep) if inventory.has(part)],
            "kept_bytes": kept,
            "problems": list(problems),
        }
        sys.stdout.write(json.dumps(report, ensure_ascii=False) + "\n")
        return 1 if problems else 0
    for reason in problems:
        say(texts.say("remove.problem", reason=reason))
    if kept:
        say(texts.say("remove.kept", path=str(inventory.data_dir), num_bytes=kept))
    if inventory.strangers:
        names = _names(tuple(path.name for path in inventory.strangers))
        say(texts.say("remove.strangers", path=str(inventory.data_dir), names=names))
    if not problems:
        say(texts.say("remove.done"))
    return 1 if problems else 0


def inventory_lines(inventory: Inventory, texts: Texts) -> list[str]:
    """What is installed, with sizes."""
    lines = [texts.say("remove.intro")]
    for part, key in _SUMMARY:
        if not inventory.has(part):
            continue
        lines.append(texts.say(key, num_bytes=inventory.num_bytes(part)))
        if part is Part.MODELS:
            lines += [
                texts.say("remove.item", name=item.name, num_bytes=item.num_bytes)
                for item in inventory.items
                if item.model is not None
            ]
    count = sum(item.part is Part.ENTRIES for item in inventory.items)
    return [*lines, texts.say("remove.entries", count=count)] if count else lines


def _ask_what_to_keep(inventory: Inventory, texts: Texts) -> Keep:
    models = chats = True
    if inventory.has(Part.MODELS):
        size = inventory.num_bytes(Part.MODELS)
        models = not answer_is_yes(texts.say("remove.ask_models", num_bytes=size))
    if inventory.has(Part.CHATS):
        chats = not answer_is_yes(texts.say("remove.ask_chats"))
    return Keep(models=models, chats=chats)


def _kept_parts(keep: Keep) -> tuple[Part, ...]:
    return (Part.MODELS,) * keep.models + (Part.CHATS,) * keep.chats


# -- moving ------------------------------------------------------------------------------------------


def move_here(options: CareOptions, target: Path, texts: Texts) -> int:
    """Move the data folder; 0 when it is there, or the person does not want it.

    Raises:
        InputError: nobody can be asked, and `--yes` was not given.
        InstallError: it cannot be moved; nothing is lost.
    """
    pending = pending_move()
    target = whole_path(target)
    source = pending.source if pending is not None and pending.target == target else options.folder
    names = {"source": str(source), "target": str(target)}
    if not _is_confirmed(options, texts, "move", names):
        return 0
    with TerminalProgress(texts, as_json=options.as_json) as progress:
        report = DataMove(source, target).run(progress.show)
    if options.as_json:
        sys.stdout.write(json.dumps(report.as_plain(), ensure_ascii=False) + "\n")
        return 0
    for line in move_lines(report, texts):
        say(line)
    return 0


def move_lines(report: MoveReport, texts: Texts) -> list[str]:
    """The report in sentences."""
    target = str(report.target)
    lines = [texts.say("move.done", target=target, num_bytes=report.num_bytes)]
    if report.strangers:
        names = _names(report.strangers)
        lines.append(texts.say("move.strangers", path=str(report.source), names=names))
    if report.left:
        lines.append(texts.say("move.left", names=_names(report.left)))
    return lines


# -- going back --------------------------------------------------------------------------------------


def roll_back_here(options: CareOptions, texts: Texts, entries: EntrySystem | None = None) -> int:
    """Go back to the former version; 0 when it is the installed one, or the person does not want it.

    Raises:
        InputError: nobody can be asked, and `--yes` was not given; or there is no former version.
        InstallError: Stratum runs.
        ResourceError: the former version does not work, or cannot be put back.
    """
    former = former_version()
    if former is None:
        raise InputError(texts.say("back.none"), code="no_former_version")
    require_stopped(options.folder)
    names = {"version": installed_version(), "former": former.version}
    if not _is_confirmed(options, texts, "back", names):
        return 0
    sentence = go_back(texts, entries or entries_here())
    if options.as_json:
        report = {"ok": True, "version": former.version, "root": str(former.root)}
        sys.stdout.write(json.dumps(report, ensure_ascii=False) + "\n")
    else:
        say(sentence)
    return 0


def installed_version() -> str:
    """The version that is the installed one."""
    record = read_record()
    return record.version if record is not None else program_version(PROGRAM_DIR)


def go_back(texts: Texts, entries: EntrySystem | None = None) -> str:
    """Go back; what to tell the person.

    Raises:
        ResourceError: the former version does not work, or cannot be put back.
    """
    version, former = installed_version(), former_version()
    try:
        adoption = roll_back(entries)
    except OSError as error:
        reason = error.strerror or str(error)
        former_name = former.version if former is not None else ""
        sentence = texts.say("back.failed", former=former_name, reason=reason, version=version)
        raise ResourceError(sentence, code="back_failed") from error
    if adoption is None or former is None:
        raise InputError(texts.say("back.none"), code="no_former_version")
    if adoption.outcome is Outcome.FAILED:
        sentence = texts.say(
            "back.failed", former=former.version, reason=adoption.reason, version=version
        )
        raise ResourceError(sentence, code="back_failed")
    script = "START-HERE.bat" if sys.platform == "win32" else "setup.sh"
    return texts.say("back.done", former=former.version, command=str(adoption.root / script))


def _is_confirmed(options: CareOptions, texts: Texts, what: str, names: dict[str, str]) -> bool:
    """Whether the person wants it; `what` begins the keys of the texts.

    Raises:
        InputError: nobody can be asked.
    """
    if options.is_agreed:
        return True
    if options.as_json or not sys.stdin.isatty():
        raise InputError(texts.say(f"{what}.needs_yes", **names), code="needs_yes")
    if texts.has(f"{what}.plan"):
        say(texts.say(f"{what}.plan", **names))
    if answer_is_yes(texts.say(f"{what}.ask", **names)):
        return True
    say(texts.say(f"{what}.not_confirmed"))
    return False


# -- update ------------------------------------------------------------------------------------------


def take_over(texts: Texts, root: Path = PROGRAM_DIR, *, is_quiet: bool = False) -> Path:
    """Make this the installed program if it is new and works; the folder of the one to start.

    Args:
        texts: for what is said.
        root: of this program.
        is_quiet: standard output belongs to somebody else.

    Raises:
        ResourceError: it does not work, and the former one was put back or there is none.
    """
    adoption = adopt(root, entries_here())
    sentence = update_sentence(adoption, program_version(root), texts)
    if adoption.outcome in {Outcome.PUT_BACK, Outcome.FAILED}:
        raise ResourceError(sentence, code="self_test_failed", params={"reason": adoption.reason})
    if sentence and not is_quiet:
        say(sentence)
    config = load_settings().active_config
    if adoption.outcome in {Outcome.FIRST, Outcome.UPDATED} and config is not None:
        bring_calibration_in_line(config)
    return adoption.root


def update_sentence(adoption: Adoption, new_version: str, texts: Texts) -> str:
    """What to tell the person; empty when there is nothing to tell."""
    match adoption.outcome:
        case Outcome.UPDATED:
            return texts.say("update.updated", version=adoption.version)
        case Outcome.LEFT:
            return texts.say(
                "update.left", new=new_version, version=adoption.version, root=str(adoption.root)
            )
        case Outcome.KEPT_FORMER:
            return texts.say(
                "update.kept_former",
                new=new_version,
                reason=adoption.reason,
                version=adoption.version,
                root=str(adoption.root),
            )
        case Outcome.PUT_BACK:
            return texts.say(
                "update.put_back",
                new=new_version,
                reason=adoption.reason,
                version=adoption.version,
            )
        case Outcome.FAILED:
            return texts.say("update.failed", reason=adoption.reason)
        case _:
            return ""


def start_former(root: Path) -> None:
    """Start the installer of the program in another folder, which starts what is installed.

    Raises:
        OSError: it cannot be started.
    """
    subprocess.Popen(
        [str(python_of(root, with_window=True)), "-m", "installer"],
        cwd=root,
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        creationflags=detached_flags(),
        start_new_session=sys.platform != "win32",
    )


def bring_calibration_in_line(config: Path) -> None:
    """Take over what calibration found out on this machine; take out what belongs to another one."""
    from engine.core.calibration import (  # noqa: PLC0415
        apply_calibration,
        calibration_key_here,
    )

    try:
        key = calibration_key_here(load_config(config))
        apply_calibration(config, load_settings().data_dir, key)
    except (EngineError, OSError) as error:
        logger.warning("the calibration of %s is not looked at: %s", config, error)


def entries_here() -> EntrySystem | None:
    """Entries for a person with a screen; a server has no menus, and a portable copy makes none."""
    if os.environ.get("STRATUM_HOME"):
        return None
    if sys.platform != "win32" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return None
    return system_entries()


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} (+{len(names) - _MOST_NAMES})"
