"""Marks a model as installed, checks its files, and deletes it.

What is installed is read by `engine/core/installed_models.py`, which the app uses too.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.core.installed_models import (
    MANIFEST_NAME,
    InstalledFile,
    InstalledModel,
    installed_models,
    read_manifest,
    unfinished_models,
)
from installer.download.control import Control
from installer.download.disk import disk_error, write_record
from installer.download.progress import ProgressCallback
from installer.download.reporter import Reporter
from installer.download.transfer import verify_file
from installer.download.verified import VerifiedFiles

__all__ = [
    "MANIFEST_NAME",
    "InstalledFile",
    "InstalledModel",
    "bad_files",
    "installed_models",
    "read_manifest",
    "remove_model",
    "unfinished_models",
    "write_manifest",
]


def write_manifest(model: InstalledModel) -> None:
    """Mark a model as installed.

    Raises:
        DiskError: its folder cannot be written.
    """
    write_record(model.folder / MANIFEST_NAME, model.model_dump(mode="json", exclude={"folder"}))


def bad_files(
    models_dir: Path,
    model: InstalledModel,
    control: Control,
    progress: ProgressCallback | None = None,
) -> list[InstalledFile]:
    """Read all files of a model and say which are missing or not what they were.

    A bad file of ours loses its verdict, so that the next download fetches it, and only it.

    Raises:
        DiskError: a file is there and cannot be read.
        StoppedError: that was asked for.
    """
    verified = VerifiedFiles(models_dir)
    reporter = Reporter(progress)
    bad = []
    for file in model.files:
        path = model.path_of(file)
        if not path.is_file() or not verify_file(path, file.sha256, control, reporter):
            verified.forget(path)
            bad.append(file)
        else:
            verified.remember(path, file.sha256)
    return bad


def remove_model(model: InstalledModel) -> None:
    """Delete a model's folder, and its own files on other drives; files used where they lie stay.

    Raises:
        DiskError: something in it cannot be deleted.
    """
    try:
        for path in model.own_files_elsewhere:
            path.unlink(missing_ok=True)
        (model.folder / MANIFEST_NAME).unlink(missing_ok=True)
        shutil.rmtree(model.folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise disk_error(error, model.folder) from error
