"""Which models are installed: a model counts when its folder has a finished `model.json`.

    {"format": 1, "id": "qwen-iq2_xs", "model": "models/qwen-iq2_xs/...-00001-of-00002.gguf", ...}

Paths in it are relative to the folder of the file, except for files that lie elsewhere: those that are
used where they were found, and those of a model that was moved to another drive. A folder that cannot
be reached (a drive that is not connected) changes nothing here. The installer writes the files and
deletes models; the app lists and moves them.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.core.catalog import FileKind
from engine.core.errors import EngineError
from engine.core.files import read_json

logger = logging.getLogger(__name__)

MANIFEST_NAME = "model.json"
MANIFEST_FORMAT: Literal[1] = 1


class InstalledFile(BaseModel):
    """One file of an installed model.

    Attributes:
        path: relative to the model's folder, or absolute when it is used where it lies.
        sha256: of its content.
        is_own: whether it is ours to delete.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: FileKind
    path: Path
    bytes: int
    sha256: str
    is_own: bool = True


class InstalledModel(BaseModel):
    """What `model.json` says.

    Attributes:
        id: of the catalogue's entry.
        title: shown to the person.
        revision: the commit that its files are of; empty for the bundled model.
        folder: where the manifest is; not written.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    format: Literal[1] = MANIFEST_FORMAT
    id: str
    title: str
    revision: str
    files: tuple[InstalledFile, ...]
    folder: Path = Path()

    def path_of(self, file: InstalledFile) -> Path:
        """Where a file is."""
        return self.folder / file.path  # an absolute path stays what it is

    def first(self, kind: FileKind) -> Path | None:
        """The first file of a kind: for the model, what the engine is given."""
        return next((self.path_of(file) for file in self.files if file.kind is kind), None)

    @property
    def model_path(self) -> Path:
        """The file that the engine is given."""
        path = self.first(FileKind.MODEL)
        if path is None:
            raise ValueError("a manifest without a model file")
        return path

    @property
    def own_files_elsewhere(self) -> tuple[Path, ...]:
        """Files of ours that do not lie in the model's folder: it was moved to another drive."""
        return tuple(file.path for file in self.files if file.is_own and file.path.is_absolute())

    @property
    def own_bytes(self) -> int:
        """What deleting it frees at most (shared files stay while another model has them)."""
        return sum(file.bytes for file in self.files if file.is_own)


def read_manifest(folder: Path) -> InstalledModel | None:
    """The model of a folder; None when none is finished there."""
    path = folder / MANIFEST_NAME
    if not path.exists():
        return None
    try:
        content = read_json(path, MANIFEST_FORMAT)
        model = InstalledModel.model_validate({**content, "folder": folder})
    except (EngineError, ValidationError) as error:
        logger.warning("%s is not used: %s", path, error)
        return None
    if model.first(FileKind.MODEL) is None:
        logger.warning("%s names no model file and is not used", path)
        return None
    return model


def installed_models(models_dir: Path) -> list[InstalledModel]:
    """All finished models of a data folder, by their ids."""
    if not models_dir.is_dir():
        return []
    found = [read_manifest(folder) for folder in sorted(models_dir.iterdir()) if folder.is_dir()]
    return [model for model in found if model is not None]


def unfinished_models(models_dir: Path) -> dict[str, int]:
    """Models whose download was begun and not finished: id -> bytes that are there."""
    if not models_dir.is_dir():
        return {}
    return {
        folder.name: sum(p.stat().st_size for p in folder.iterdir() if p.is_file())
        for folder in sorted(models_dir.iterdir())
        if folder.is_dir()
        and not folder.name.startswith(".")
        and not (folder / MANIFEST_NAME).exists()
    }
