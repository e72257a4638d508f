"""Moves the data folder to another place: models, chats, caches; settings and configs follow.

    report = DataMove(load_settings().data_dir, Path("E:/Stratum")).run(on_progress)

On the same drive files are renamed. To another drive they are copied, each is read again and compared,
and the old ones go only when all is there and the settings lead to the new place. `moving.json` beside
the settings remembers a move that was interrupted: the same command goes on with it, in the middle of a
file too. The person's own files in the folder stay where they are.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.core.errors import EngineError
from engine.core.files import read_json, write_json
from engine.core.setting_paths import UsablePath, whole_path
from engine.core.settings import settings_path
from engine.core.sizes import size_in_words
from installer.data_folder import owner_of
from installer.download.control import Control
from installer.download.disk import (
    RESERVE_BYTES,
    check_largest_file,
    disk_error,
    existing_parent,
    free_bytes,
    make_folder,
)
from installer.download.lock import LOCK_NAME, download_lock
from installer.download.progress import Phase, ProgressCallback
from installer.download.reporter import Reporter
from installer.errors import DiskError, InstallError, StoppedError
from installer.file_copy import PART_SUFFIX, copied_bytes, copy_verified
from installer.moved_paths import let_settings_follow, rewrite_data_folder
from installer.running import require_stopped

logger = logging.getLogger(__name__)

MOVE_FORMAT: Literal[1] = 1
_LEFT_BEHIND = frozenset({LOCK_NAME, "engine.json"})  # of processes, and of no use elsewhere
_OTHER_DRIVE = 17  # Windows: the system cannot move the file to a different disk drive


class MoveError(InstallError):
    """The data folder cannot be moved there; nothing was changed."""

    code = "move_refused"


class PendingMove(BaseModel):
    """A move that was begun and not finished.

    Attributes:
        is_switched: all is there, and the settings lead to it; only the old files are to go.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    format: Literal[1] = MOVE_FORMAT
    source: UsablePath
    target: UsablePath
    is_switched: bool = False


@dataclass(frozen=True, slots=True)
class MoveReport:
    """The result.

    Attributes:
        num_bytes: of all that was moved.
        strangers: the person's own files, which stay.
        left: what of ours could not be removed in the old folder.
    """

    source: Path
    target: Path
    num_bytes: int
    strangers: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def as_plain(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "ok": True,
            "source": str(self.source),
            "target": str(self.target),
            "bytes": self.num_bytes,
            "strangers": list(self.strangers),
            "left": list(self.left),
        }


def pending_path() -> Path:
    """The record of a move that goes on."""
    return settings_path().with_name("moving.json")


def pending_move() -> PendingMove | None:
    """The move that was interrupted; None when none was."""
    path = pending_path()
    if not path.exists():
        return None
    try:
        return PendingMove.model_validate(read_json(path, MOVE_FORMAT))
    except (EngineError, ValidationError) as error:
        logger.warning("%s cannot be read: %s", path, error)
        return None


def require_no_pending_move() -> None:
    """Refuse to work with a data folder of which half is elsewhere.

    Raises:
        MoveError: a move was interrupted, with the command that goes on.
    """
    pending = pending_move()
    if pending is not None:
        raise MoveError(
            f"Moving {pending.source} to {pending.target} was interrupted. Nothing is lost. Go on with: "
            f"setup --move-data {_quoted(pending.target)}",
            code="move_interrupted",
            params={"source": str(pending.source), "target": str(pending.target)},
        )


@dataclass(slots=True)
class DataMove:
    """One move; `stop` ends it from another thread, and what was moved stays moved."""

    source: Path
    target: Path
    control: Control = field(default_factory=Control)

    def run(self, progress: ProgressCallback | None = None) -> MoveReport:
        """Move everything.

        Raises:
            MoveError: this cannot be the new folder; nothing was changed.
            DiskError: the new drive is full or refuses; the same move goes on from there.
            InstallError: Stratum runs, or downloads.
            StoppedError: `stop` was called.
        """
        self._go_on_with_pending()
        require_stopped(self.source)
        make_folder(self.target)
        try:
            with download_lock(self.source / "models"):
                report = self._run(Reporter(progress))
        except StoppedError as error:
            raise StoppedError(
                "The move was stopped. Nothing is lost; start it again and it goes on.",
                code="move_stopped",
            ) from error
        self._remove_lock()
        return report

    def stop(self) -> None:
        """End `run`."""
        self.control.stop()

    # -- before ----------------------------------------------------------------------------------

    def _go_on_with_pending(self) -> None:
        """Take up an interrupted move, or check that this one can begin."""
        self.target = whole_path(self.target)
        pending = pending_move()
        if pending is not None and pending.target == self.target:
            self.source = pending.source
            return
        require_no_pending_move()
        self.source = self.source.absolute()
        _check_folders(self.source, self.target)

    def _run(self, reporter: Reporter) -> MoveReport:
        files = list(_files_of(self.source))
        pending = pending_move()
        num_bytes = 0
        if pending is None or not pending.is_switched:
            self._check_room(files)
            self._note(is_switched=False)
            num_bytes = self._move_files(files, reporter)
            rewrite_data_folder(self.source, self.target)
            let_settings_follow(self.source, self.target)
            self._note(is_switched=True)
        left = self._remove_old(files)
        pending_path().unlink(missing_ok=True)
        reporter.done()
        logger.info("the data folder was moved from %s to %s", self.source, self.target)
        strangers = [
            path.name
            for path in (sorted(self.source.iterdir()) if self.source.is_dir() else [])
            if owner_of(path.name) is None
        ]
        return MoveReport(self.source, self.target, num_bytes, tuple(strangers), tuple(left))

    def _note(self, *, is_switched: bool) -> None:
        pending = PendingMove(source=self.source, target=self.target, is_switched=is_switched)
        write_json(pending_path(), pending.model_dump(mode="json"))

    def _check_room(self, files: list[Path]) -> None:
        if _device(self.source) == _device(existing_parent(self.target)):
            return
        missing, seen = 0, set[tuple[int, int]]()
        for name in files:
            stat = (self.source / name).lstat()
            if (stat.st_dev, stat.st_ino) in seen and stat.st_nlink > 1:
                continue
            seen.add((stat.st_dev, stat.st_ino))
            check_largest_file(self.target, name.name, stat.st_size)
            missing += max(0, stat.st_size - copied_bytes(self.target / name))
        free = free_bytes(self.target)
        needed = missing + min(RESERVE_BYTES, missing)
        if needed > free:
            raise DiskError(
                f"The drive of {self.target} has {size_in_words(free)} free; moving needs "
                f"{size_in_words(needed)}. Choose another folder, or free some space.",
                code="disk_short",
                params={
                    "path": str(self.target),
                    "free_bytes": free,
                    "needed_bytes": needed,
                    "missing_bytes": needed - free,
                },
            )

    # -- the files -------------------------------------------------------------------------------

    def _move_files(self, files: list[Path], reporter: Reporter) -> int:
        """Bring all files to the new folder; their bytes."""
        sizes = {name: (self.source / name).lstat().st_size for name in files}
        reporter.set_total(sum(sizes.values()), 0)
        linked: dict[tuple[int, int], Path] = {}
        for name, size in sizes.items():
            self.control.wait_while_paused()
            reporter.begin(Phase.MOVING, name.name, size)
            source, target = self.source / name, self.target / name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.is_symlink():
                    target.unlink(missing_ok=True)
                    target.symlink_to(_followed(source, self.source, self.target))
                elif _rename(source, target):
                    reporter.moved(size)
                else:
                    self._copy(source, target, linked, reporter)
            except OSError as error:
                raise disk_error(error, target) from error
        return sum(sizes.values())

    def _copy(
        self,
        source: Path,
        target: Path,
        linked: dict[tuple[int, int], Path],
        reporter: Reporter,
    ) -> None:
        stat = source.lstat()
        key = (stat.st_dev, stat.st_ino)
        if key in linked and not target.exists():
            with contextlib.suppress(OSError):  # a drive without links: copied once more
                os.link(linked[key], target)
        copy_verified(source, target, self.control, reporter)
        if stat.st_nlink > 1:
            linked[key] = target

    def _remove_old(self, files: list[Path]) -> list[str]:
        """Remove what was copied; what cannot be removed comes back."""
        left = []
        for name in files:
            path = self.source / name
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                logger.warning("%s could not be removed: %s", path, error)
                left.append(str(path))
        with contextlib.suppress(OSError):
            (self.source / "engine.json").unlink(missing_ok=True)
        folders = {parent for name in files for parent in name.parents}
        for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
            with contextlib.suppress(OSError):  # something of the person's is in it
                (self.source / folder).rmdir()
        return left

    def _remove_lock(self) -> None:
        """Remove what Windows does not let go before the lock is given back."""
        with contextlib.suppress(OSError):  # the folder holds something of the person's
            (self.source / "models" / LOCK_NAME).unlink(missing_ok=True)
            (self.source / "models").rmdir()
            self.source.rmdir()


def _check_folders(source: Path, target: Path) -> None:
    """Refuse folders that cannot be the new one.

    Raises:
        MoveError: with the reason.
    """
    params = {"source": str(source), "target": str(target)}
    if not source.is_dir():
        raise MoveError(
            f"There is no data folder at {source}. Install a model first, or connect its drive.",
            code="move_nothing",
            params=params,
        )
    if _is_same(source, target):
        raise MoveError(f"Everything is in {target} already.", code="move_same", params=params)
    real, wanted = source.resolve(), target.resolve()
    if wanted.is_relative_to(real) or real.is_relative_to(wanted):
        raise MoveError(
            f"{target} and {source} lie in each other. Choose a folder beside it, or another drive.",
            code="move_nested",
            params=params,
        )
    if target.exists() and not target.is_dir():
        raise MoveError(
            f"{target} is a file. Choose a folder.", code="move_not_a_folder", params=params
        )
    taken = (
        [p.name for p in sorted(target.iterdir()) if owner_of(p.name)] if target.exists() else []
    )
    if taken:
        raise MoveError(
            f"{target} has files of Stratum already ({', '.join(taken[:3])}). Choose an empty folder.",
            code="move_taken",
            params={**params, "names": ", ".join(taken[:3])},
        )


def _is_same(source: Path, target: Path) -> bool:
    return target.exists() and target.samefile(source)


def _files_of(folder: Path) -> Iterator[Path]:
    """Our files in a data folder, relative to it, in order; links count as files."""
    for top in sorted(folder.iterdir()) if folder.is_dir() else ():
        if owner_of(top.name) is None or top.name in _LEFT_BEHIND:
            continue
        if top.is_symlink() or not top.is_dir():
            yield top.relative_to(folder)
            continue
        for current, folders, names in os.walk(top):
            here = Path(current)
            links = [name for name in folders if (here / name).is_symlink()]
            folders[:] = sorted(name for name in folders if name not in links)
            for name in sorted([*names, *links]):
                if name not in _LEFT_BEHIND and not name.endswith(PART_SUFFIX):
                    yield (here / name).relative_to(folder)


def _device(folder: Path) -> int:
    return folder.stat().st_dev


def _rename(source: Path, target: Path) -> bool:
    """Whether the file could be renamed; False: it is on another drive.

    Raises:
        OSError: the system refuses.
    """
    try:
        source.replace(target)
    except OSError as error:
        if error.errno == errno.EXDEV or getattr(error, "winerror", None) == _OTHER_DRIVE:
            return False
        raise
    return True


def _followed(link: Path, source: Path, target: Path) -> Path:
    """Where a link leads once the folder has moved."""
    to = link.readlink()
    if to.is_absolute() and to.is_relative_to(source):
        return target / to.relative_to(source)
    return to


def _quoted(path: Path) -> str:
    return f'"{path}"' if " " in str(path) else str(path)
