"""Looks for model files that are on this PC already, so that 60 GB are not fetched twice.

Looked through: the folders that the person names, the models of this and of an older data folder, and
the hub's own cache. A file counts when its size is right, it is a GGUF file as far as its header says,
and its SHA-256 fits; its name does not matter. Sizes are compared first: only what may fit is read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import ModelFileError
from engine.core.gguf_header import read_header
from installer.download.control import Control
from installer.download.disk import hash_file
from installer.download.progress import Phase
from installer.download.reporter import Reporter
from installer.download.verified import VerifiedFiles
from installer.errors import DiskError

logger = logging.getLogger(__name__)

_MAX_DEPTH = 6
_MAX_FILES = 20_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that is looked for."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found for the wanted files.

    Attributes:
        files: SHA-256 -> where a file with that content lies.
        different: files that have a wanted file's name and another content.
    """

    files: dict[str, Path]
    different: tuple[Path, ...]


class FileFinder:
    """Finds wanted files among those of some folders."""

    def __init__(self, verified: VerifiedFiles, control: Control, reporter: Reporter) -> None:
        self._verified = verified
        self._control = control
        self._reporter = reporter

    def find(self, wanted: Iterable[Wanted], folders: Iterable[Path]) -> Finding:
        """Look through folders and their subfolders.

        Raises:
            StoppedError: that was asked for.
        """
        missing = {file.sha256: file for file in wanted}
        names = {file.name: file for file in missing.values()}
        candidates: dict[Path, list[Wanted]] = {}
        different: list[Path] = []
        for path in _files_below(folders):
            try:
                size = path.stat().st_size
            except OSError:
                continue
            fitting = [file for file in missing.values() if file.bytes == size]
            if fitting:
                # Hash names and right names first: most searches then read one file only.
                candidates[path] = fitting
            elif path.name in names:
                different.append(path)
        found: dict[str, Path] = {}
        for path in sorted(candidates, key=lambda p: self._rank(p, candidates[p])):
            if all(file.sha256 in found for file in candidates[path]):
                continue
            sha256 = self.sha256_of(path)
            if any(file.sha256 == sha256 for file in candidates[path]):
                found[sha256] = path
            elif path.name in names:
                different.append(path)
        return Finding(found, tuple(different))

    def sha256_of(self, path: Path) -> str:
        """The content's SHA-256, remembered or read; empty when the file cannot be used."""
        known = self._verified.sha256_of(path)
        if known is not None:
            return known
        try:
            if path.suffix.lower() == ".gguf":
                read_header(path)  # refuses what is cut off, without reading it all
            self._reporter.begin(Phase.CHECKING, path.name, path.stat().st_size)
            sha256 = hash_file(path, self._control, self._reporter.read)
        except (ModelFileError, DiskError, OSError) as error:
            logger.info("%s is not used: %s", path, error)
            return ""
        self._verified.remember(path, sha256)
        return sha256

    def _rank(self, path: Path, fitting: list[Wanted]) -> tuple[int, str]:
        known = self._verified.sha256_of(path)
        if any(file.sha256 in (path.name, known) for file in fitting):
            return 0, str(path)
        return (1 if any(file.name == path.name for file in fitting) else 2), str(path)


def find_whole_files(names: Sequence[str], folders: Iterable[Path]) -> list[Path] | None:
    """Files with these names in one of the folders, each a whole GGUF file as its header says.

    None unless one folder has them all. Their content is not looked at.
    """
    by_folder: dict[Path, list[str]] = {}
    for path in _files_below(folders):
        if path.name in names and is_whole_gguf(path):
            by_folder.setdefault(path.parent, []).append(path.name)
    for folder, present in by_folder.items():
        if all(name in present for name in names):
            return [folder / name for name in names]
    return None


def is_whole_gguf(path: Path) -> bool:
    """Whether a file is as long as its own tensor directory says, and no longer."""
    try:
        header = read_header(path)  # refuses what is too short
        size = path.stat().st_size
    except (ModelFileError, OSError) as error:
        logger.info("%s is not used: %s", path, error)
        return False
    ends = [header.data_start + tensor.offset + tensor.num_bytes for tensor in header.tensors]
    return size < max(ends, default=header.data_start) + 2 * header.alignment


def hub_cache_folders(repositories: Iterable[str]) -> list[Path]:
    """Where the hub's own tools keep the content of these repositories on this PC."""
    home = os.environ.get("HF_HUB_CACHE")
    if home:
        cache = Path(home)
    elif os.environ.get("HF_HOME"):
        cache = Path(os.environ["HF_HOME"]) / "hub"
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cache = cache / "huggingface" / "hub"
    folders = (cache / f"models--{name.replace('/', '--')}" / "blobs" for name in repositories)
    return [folder for folder in folders if folder.is_dir()]


def _files_below(folders: Iterable[Path]) -> Iterator[Path]:
    """Files in the folders, not too deep and not too many; each once."""
    seen: set[Path] = set()
    count = 0
    for folder in folders:
        base = len(folder.parts)
        for current, subfolders, names in os.walk(folder):
            here = Path(current)
            if len(here.parts) - base >= _MAX_DEPTH:
                subfolders.clear()
            for name in names:
                count += 1
                if count > _MAX_FILES:
                    logger.warning("only the first %d files were looked at", _MAX_FILES)
                    return
                path = here / name
                if name.endswith((".part", ".json", ".link", ".lock")):
                    continue
                resolved = path.absolute()
                if resolved not in seen:
                    seen.add(resolved)
                    yield path
