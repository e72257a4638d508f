"""A newer version takes over, or the former one stays: all or nothing.

    adoption = adopt(root)          # at each start of the installer; quick when nothing has changed

A person updates by unpacking a release into a new folder, or over the old one, or with git. The new
version must pass its self-test (`engine doctor`) before entries lead to it. If it does not, the former
one is what starts: its folder is still there, or its files are put back from the copy that was made when
it was the new one. Models, chats and settings are never touched.
"""

from __future__ import annotations

import contextlib
import enum
import json
import logging
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog_file import PROGRAM_DIR
from engine.core.files import replacing
from engine.core.login_start import python_of
from engine.core.settings import load_settings
from installer.child import child_environment, child_flags
from installer.entries import EntryPlan, EntrySystem, MadeEntry, add_entries, remove_entries
from installer.program import (
    FormerProgram,
    ProgramRecord,
    is_checkout,
    program_bytes,
    program_files,
    program_stamp,
    program_version,
    read_record,
    write_record,
)

logger = logging.getLogger(__name__)

SELF_TEST_S = 300.0
_RESTORE_MARK = "restoring.json"
_REFUSED_BEFORE = "it failed its self-test before, and nothing has changed since"

SelfTest = Callable[[Path], str]


class Outcome(enum.StrEnum):
    """What `adopt` came to."""

    UNCHANGED = "unchanged"
    FIRST = "first"  # nothing was installed before
    UPDATED = "updated"
    LEFT = "left"  # the person went back from this one; the former one is in another folder
    KEPT_FORMER = "kept_former"  # the new one failed; the former one is in another folder
    PUT_BACK = "put_back"  # the new one failed; the former files are in this folder again
    FAILED = "failed"  # the new one failed, and there is nothing to go back to


@dataclass(frozen=True, slots=True)
class Adoption:
    """The result.

    Attributes:
        root: the program to start.
        version: of it.
        reason: why the new one failed; empty otherwise.
    """

    outcome: Outcome
    root: Path
    version: str
    reason: str = ""


def adopt(
    root: Path,
    entries: EntrySystem | None = None,
    *,
    self_test: SelfTest | None = None,
    with_desktop: bool = False,
) -> Adoption:
    """Take over as the installed program, if it is another than before and works.

    Args:
        root: the folder of the program that runs now.
        entries: where entries are made; None: nowhere (no desktop here).
        self_test: says why the program in a folder does not work, empty when it does.
        with_desktop: an icon on the desktop too.

    Raises:
        ConfigError: what is known was written by a newer version.
        ResourceError: the folder of settings cannot be written.
    """
    _finish_restoring(root)
    before = read_record()
    version, stamp = program_version(root), program_stamp(root)
    if before is not None and before.root == root and before.stamp == stamp:
        return Adoption(Outcome.UNCHANGED, root, version)
    is_refused = before is not None and before.refused == stamp
    if before is not None and is_refused and before.is_left_by_person:
        return Adoption(Outcome.LEFT, before.root, before.version)
    reason = _REFUSED_BEFORE if is_refused else (self_test or run_self_test)(root)
    if not reason:
        return _take_over(root, version, stamp, before, entries, with_desktop=with_desktop)
    logger.error("version %s in %s failed its self-test: %s", version, root, reason)
    if before is None:
        return Adoption(Outcome.FAILED, root, version, reason)
    return _go_back(root, version, stamp, before, reason)


def run_self_test(root: Path) -> str:
    """Why the program in a folder does not work, in a sentence; empty when it does."""
    python = python_of(root)
    if root == PROGRAM_DIR and not python.exists():  # an environment elsewhere
        python = Path(sys.executable)
    try:
        done = subprocess.run(
            # A card that fails is no fault of the program: the processor computes then.
            [str(python), "-m", "engine", "doctor", "--json", "--without-card"],
            cwd=root,
            env=child_environment(),
            capture_output=True,
            check=False,
            timeout=SELF_TEST_S,
            creationflags=child_flags(),
        )
    except subprocess.TimeoutExpired:
        return f"the self-test did not end within {SELF_TEST_S:.0f} s"
    except OSError as error:
        return f"its Python cannot be started ({error.strerror or error})"
    if done.returncode == 0:
        return ""
    try:
        checks = json.loads(done.stdout)["checks"]
        wrong = [f"{c['subject']}: {c['detail']}" for c in checks if c["health"] == "failed"]
    except (ValueError, KeyError, TypeError):
        wrong = []
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    return "; ".join(wrong or last) or f"the self-test ended with {done.returncode}"


def _take_over(
    root: Path,
    version: str,
    stamp: str,
    before: ProgramRecord | None,
    entries: EntrySystem | None,
    *,
    with_desktop: bool,
) -> Adoption:
    archive = _make_archive(root, version, stamp)
    made: tuple[MadeEntry, ...] = before.entries if before is not None else ()
    if entries is not None:
        plan = EntryPlan(root, version, program_bytes(root), with_desktop)
        new = add_entries(entries, plan)
        # What the former version made and this one does not make would lead nowhere.
        made = (*new, *remove_entries(entries, [entry for entry in made if entry not in new]))
    former = None
    if before is not None:
        in_place = before.root == root
        former = FormerProgram(
            root=before.root, version=before.version, archive=before.archive if in_place else None
        )
    extra = dict(before.model_extra or {}) if before is not None else {}
    record = ProgramRecord.model_validate(
        {
            **extra,
            "root": root,
            "version": version,
            "stamp": stamp,
            "archive": archive,
            "entries": made,
            "former": former,
        }
    )
    write_record(record)
    _prune_archives(record)
    outcome = Outcome.FIRST if before is None else Outcome.UPDATED
    return Adoption(outcome, root, version)


def _go_back(root: Path, version: str, stamp: str, before: ProgramRecord, reason: str) -> Adoption:
    if before.root != root:
        if before.refused != stamp:
            write_record(before.model_copy(update={"refused": stamp, "is_left_by_person": False}))
        if python_of(before.root).exists():
            return Adoption(Outcome.KEPT_FORMER, before.root, before.version, reason)
        return Adoption(Outcome.FAILED, root, version, reason)
    if before.archive is None or not before.archive.is_file() or is_checkout(root):
        return Adoption(Outcome.FAILED, root, version, reason)
    restore(root, before.archive)
    write_record(before.model_copy(update={"refused": "", "stamp": program_stamp(root)}))
    return Adoption(Outcome.PUT_BACK, root, before.version, reason)


def former_version() -> FormerProgram | None:
    """The version that `roll_back` leads to; None when there is none, or git keeps it."""
    record = read_record()
    if record is None or record.former is None:
        return None
    former = record.former
    if former.root != record.root:
        return former if python_of(former.root).exists() else None
    has_copy = former.archive is not None and former.archive.is_file()
    return former if has_copy and not is_checkout(record.root) else None


def roll_back(
    entries: EntrySystem | None = None,
    *,
    self_test: SelfTest | None = None,
) -> Adoption | None:
    """Go back to the former version at the person's wish; None when there is none.

    The version that is left is what the next `roll_back` leads to, and is not taken again by itself.

    Raises:
        OSError: its files cannot be put back.
        ResourceError: the folder of settings cannot be written.
    """
    record, former = read_record(), former_version()
    if record is None or former is None:
        return None
    root = record.root
    left = FormerProgram(root=root, version=record.version, archive=record.archive)
    if former.root == root:
        if former.archive is None:
            raise ValueError("a former version without a copy in the same folder")
        restore(root, former.archive)
        write_record(
            record.model_copy(
                update={
                    "version": former.version,
                    "stamp": program_stamp(root),
                    "archive": former.archive,
                    "former": left,
                }
            )
        )
        return Adoption(Outcome.PUT_BACK, root, former.version)
    reason = (self_test or run_self_test)(former.root)
    if reason:
        return Adoption(Outcome.FAILED, root, record.version, reason)
    stamp, made = program_stamp(former.root), record.entries
    if entries is not None:
        plan = EntryPlan(former.root, former.version, program_bytes(former.root))
        new = add_entries(entries, plan)
        made = (*new, *remove_entries(entries, [entry for entry in made if entry not in new]))
    record = record.model_copy(
        update={
            "root": former.root,
            "version": former.version,
            "stamp": stamp,
            "archive": _make_archive(former.root, former.version, stamp),
            "entries": made,
            "former": left.model_copy(update={"archive": None}),
            "refused": record.stamp,
            "is_left_by_person": True,
        }
    )
    write_record(record)
    _prune_archives(record)
    return Adoption(Outcome.KEPT_FORMER, former.root, former.version)


# -- copies of the program ---------------------------------------------------------------------------


def archive_folder() -> Path:
    """Where copies of the program's files are."""
    return load_settings().data_dir / "program"


def _make_archive(root: Path, version: str, stamp: str) -> Path | None:
    """Copy the program's files aside; None where git has them, or where there is no room."""
    if is_checkout(root):
        return None
    path = archive_folder() / f"{version or 'unknown'}-{stamp}.zip"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in program_files(root):
                archive.write(root / name, name.as_posix())
    except Exception as error:  # noqa: BLE001  # without it an update can still succeed
        logger.warning("no copy of this version could be kept: %s", error)
        return None
    return path


def _prune_archives(record: ProgramRecord) -> None:
    former = record.former.archive if record.former is not None else None
    kept = {path for path in (record.archive, former) if path is not None}
    with contextlib.suppress(OSError):
        for path in archive_folder().glob("*.zip"):
            if path not in kept:
                path.unlink()


def restore(root: Path, archive: Path) -> None:
    """Make the program's files those of an archive. Interrupted, the next start finishes it.

    Raises:
        OSError: a file cannot be written.
    """
    mark = root / ".state" / _RESTORE_MARK
    mark.parent.mkdir(exist_ok=True)
    mark.write_text(json.dumps({"archive": str(archive)}), encoding="utf-8")
    with zipfile.ZipFile(archive) as copy:
        names = {Path(name) for name in copy.namelist()}
        for name in names:
            if name.is_absolute() or ".." in name.parts:
                raise OSError(f"{archive} is no copy of this program")
        for name in program_files(root):
            if name not in names:
                (root / name).unlink()
        for info in copy.infolist():
            target = root / info.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(target.name + ".restored")
            with copy.open(info) as source, temporary.open("wb") as file:
                shutil.copyfileobj(source, file)
            mode = info.external_attr >> 16
            if mode:
                temporary.chmod(mode & 0o777)
            temporary.replace(target)
    for cache in list((root / "engine").rglob("__pycache__")):
        shutil.rmtree(cache, ignore_errors=True)
    mark.unlink()


def _finish_restoring(root: Path) -> None:
    """Go on with a restoration that was interrupted."""
    mark = root / ".state" / _RESTORE_MARK
    if not mark.exists():
        return
    try:
        archive = Path(json.loads(mark.read_text(encoding="utf-8"))["archive"])
    except (OSError, ValueError, KeyError, TypeError):
        mark.unlink(missing_ok=True)
        return
    if archive.is_file():
        restore(root, archive)
