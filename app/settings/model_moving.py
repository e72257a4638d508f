"""Moves an installed model to another folder, and removes one. Nothing is lost at any moment.

    plan = plan_move(model, Path("E:/Models"))
    copy_files(plan, task)                 # copied, read again and compared; the old files still count
    switch_to(plan, configs_dir)           # manifest and run configs name the new files
    delete_old(plan)                       # only now

A crash before the switch leaves copies that nobody uses, in a folder that says so by its `.moving`
file; one after it leaves old files, which the manifest names (`moved_from`) until they are deleted.
Blocks: off the main thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.background import Task
from app.settings.config_draft import change_config, read_config_object
from engine.core.drives import existing_parent
from engine.core.errors import EngineError, ResourceError
from engine.core.files import write_json
from engine.core.installed_models import MANIFEST_NAME, InstalledFile, InstalledModel
from engine.core.sizes import size_in_words

_BLOCK_BYTES = 4 << 20
# Never filled: a full drive breaks other programs.
_RESERVE_BYTES = 1 << 30
_MARK = ".moving"
MOVED_FROM = "moved_from"


@dataclass(frozen=True, slots=True)
class MovedFile:
    """One file on its way."""

    file: InstalledFile
    source: Path
    target: Path


@dataclass(frozen=True, slots=True)
class MovePlan:
    """What goes where.

    Attributes:
        folder: the model's new folder.
        files: only those that are ours; files used where they lie stay there.
    """

    model: InstalledModel
    folder: Path
    files: tuple[MovedFile, ...]

    @property
    def num_bytes(self) -> int:
        """What is copied."""
        return sum(moved.file.bytes for moved in self.files)


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """How far copying is; every byte counts twice, because the copy is read again."""

    done_bytes: int
    total_bytes: int
    name: str


class MoveError(ResourceError):
    """The model cannot be moved there; it stays where it is."""

    code = "move_failed"


def plan_move(model: InstalledModel, target: Path, free_bytes: int | None = None) -> MovePlan:
    """What moving a model below a folder means.

    Args:
        model: it.
        target: the folder that is to hold the model's own folder.
        free_bytes: in place of what the drive says.

    Raises:
        MoveError: no room, or something is there already.
    """
    folder = (target / model.id).absolute()
    own = [file for file in model.files if file.is_own]
    files = tuple(
        MovedFile(file, model.path_of(file), folder / model.path_of(file).name) for file in own
    )
    others = [path for path in _entries(folder) if path.name not in (_MARK, MANIFEST_NAME)]
    if any(moved.source == moved.target for moved in files) or (
        others and not (folder / _MARK).exists()
    ):
        raise MoveError(
            f"{folder} is there already. Choose another folder.",
            code="already_there",
            params={"path": str(folder)},
        )
    plan = MovePlan(model, folder, files)
    if free_bytes is None:
        try:
            free_bytes = shutil.disk_usage(existing_parent(folder)).free
        except OSError as error:
            raise _disk_error(error, folder) from error
    needed = plan.num_bytes + _RESERVE_BYTES
    if free_bytes < needed:
        raise MoveError(
            f"{target} has {size_in_words(free_bytes)} free; the model needs {size_in_words(needed)}. "
            "Choose another folder, or free some space.",
            code="drive_short",
            params={"folder": str(target), "free": free_bytes, "needed": needed},
        )
    return plan


def copy_files(plan: MovePlan, task: Task[MoveProgress]) -> None:
    """Copy, and read every copy again. What was copied is deleted when this does not come to its end.

    Raises:
        MoveError: a file cannot be read or written, or its copy differs.
        OperationCancelled: that was asked for.
    """
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        (plan.folder / _MARK).write_text("", encoding="utf-8")
    except OSError as error:
        raise _disk_error(error, plan.folder) from error
    done = 0
    total = 2 * plan.num_bytes
    try:
        for moved in plan.files:
            done = _copy(moved, task, done, total)
    except BaseException:
        for moved in plan.files:
            with contextlib.suppress(OSError):
                moved.target.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (plan.folder / _MARK).unlink(missing_ok=True)
            plan.folder.rmdir()
        raise


def switch_to(plan: MovePlan, configs_dir: Path) -> None:
    """Let manifest and run configs name the new files.

    Raises:
        EngineError: one of them cannot be written; the old files are still there then.
    """
    model = plan.model
    targets = {moved.file.path: moved.target for moved in plan.files}
    files = [
        file.model_copy(update={"path": _relative(targets.get(file.path, file.path), model.folder)})
        for file in model.files
    ]
    changed = model.model_copy(update={"files": tuple(files)})
    content = changed.model_dump(mode="json", exclude={"folder"})
    content[MOVED_FROM] = [str(moved.source) for moved in plan.files]
    old = {_normal(moved.source): str(moved.target) for moved in plan.files}
    for path in sorted(configs_dir.glob("*.json")):
        _switch_config(path, old)
    write_json(model.folder / MANIFEST_NAME, content)
    with contextlib.suppress(OSError):
        (plan.folder / _MARK).unlink(missing_ok=True)


def delete_old(plan: MovePlan) -> None:
    """Delete what was moved away.

    Raises:
        MoveError: something cannot be deleted; the model works from its new place.
    """
    _delete((moved.source for moved in plan.files), plan.model.folder)


def finish_moves(models: Iterable[InstalledModel]) -> None:
    """Delete what moves that were cut off left behind.

    Raises:
        MoveError: something cannot be deleted.
    """
    for model in models:
        left = (model.model_extra or {}).get(MOVED_FROM)
        if not isinstance(left, list):
            continue
        used = {_normal(model.path_of(file)) for file in model.files}
        old = [Path(str(path)) for path in left if _normal(Path(str(path))) not in used]
        _delete(old, model.folder)


def remove_model(model: InstalledModel, configs_dir: Path) -> None:
    """Delete a model's own files and its folder; its settings stay beside as `.bak`.

    Raises:
        MoveError: something cannot be deleted.
    """
    try:
        for path in model.own_files_elsewhere:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # somebody else's file is there
                path.parent.rmdir()
        (model.folder / MANIFEST_NAME).unlink(missing_ok=True)
        if model.folder.exists():
            shutil.rmtree(model.folder)
        config = configs_dir / f"{model.id}.json"
        if config.exists():
            config.replace(config.with_name(config.name + ".bak"))
    except OSError as error:
        raise _not_deleted(error, model.folder) from error


def remove_unfinished(folder: Path) -> None:
    """Delete what an unfinished download left.

    Raises:
        MoveError: it cannot be deleted.
    """
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise _not_deleted(error, folder) from error


def _copy(moved: MovedFile, task: Task[MoveProgress], done: int, total: int) -> int:
    part = moved.target.with_name(moved.target.name + ".part")
    written = hashlib.sha256()
    try:
        with moved.source.open("rb") as source, part.open("wb") as target:
            while block := source.read(_BLOCK_BYTES):
                task.check()
                written.update(block)
                target.write(block)
                done += len(block)
                task.report(MoveProgress(done, total, moved.source.name))
            target.flush()
            os.fsync(target.fileno())
        read = hashlib.sha256()
        with part.open("rb") as copied:
            while block := copied.read(_BLOCK_BYTES):
                task.check()
                read.update(block)
                done += len(block)
                task.report(MoveProgress(done, total, moved.source.name))
        expected = moved.file.sha256 or written.hexdigest()
        if not read.hexdigest() == written.hexdigest() == expected:
            raise MoveError(
                f"The copy of {moved.source.name} is not what was copied, so nothing was changed. Check "
                "the drive, and try again.",
                code="copy_differs",
                params={"file": moved.source.name},
            )
        part.replace(moved.target)
    except OSError as error:
        raise _disk_error(error, moved.target) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return done


def _switch_config(path: Path, old: dict[str, str]) -> None:
    """Every path in a run config that names an old file names the new one."""
    try:
        content = read_config_object(path)
    except EngineError:  # broken by hand: the person sees that when it is chosen
        return
    changes = {
        key: old[_normal(path.parent / value)]
        for key, value in content.items()
        if isinstance(value, str) and _normal(path.parent / value) in old
    }
    if changes:
        change_config(path, changes)


def _delete(paths: Iterable[Path], folder: Path) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _not_deleted(error, path) from error
        if path.parent != folder:
            with contextlib.suppress(OSError):  # not empty, or not ours
                path.parent.rmdir()
    manifest = folder / MANIFEST_NAME
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        content.pop(MOVED_FROM, None)
        write_json(manifest, content)
    except (OSError, ValueError) as error:
        raise _not_deleted(error, manifest) from error


def _relative(path: Path, folder: Path) -> Path:
    """Paths in the model's own folder are relative, as the installer writes them."""
    return path.relative_to(folder) if path.is_absolute() and path.parent == folder else path


def _normal(path: Path) -> str:
    return os.path.normcase(os.path.abspath(path))  # noqa: PTH100  # resolve() would follow links


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _disk_error(error: OSError, path: Path) -> MoveError:
    return MoveError(
        f"{path} cannot be written ({error.strerror or error}). Free some space, or choose another "
        "folder.",
        code="file_not_writable",
        params={"path": str(path)},
    )


def _not_deleted(error: Exception, path: Path) -> MoveError:
    return MoveError(
        f"{path} cannot be deleted ({error}). Stop the model, and try again.",
        code="not_deleted",
        params={"path": str(path)},
    )
