"""What a download will do: which files are there, which are fetched, and what the disk must hold."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog import CatalogModel, FileKind


class Action(enum.StrEnum):
    """What happens to a file."""

    PRESENT = "present"  # verified, at its place
    LINK = "link"  # verified, elsewhere on this PC: a hard link, no copy
    REFERENCE = "reference"  # verified, elsewhere: used from there
    FETCH = "fetch"
    BUILD = "build"  # made here from fetched parts


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file of the plan.

    Attributes:
        kind: what it is for.
        name: its own name.
        target: where it will be.
        action: what happens.
        bytes: its exact size.
        sha256: of its content; empty for a file that is built here.
        fetch_bytes: what is still to be fetched.
        source: the file that is used, for `link` and `reference`.
        repository: where it is fetched from.
        revision: the commit.
        path: its path there.
    """

    kind: FileKind
    name: str
    target: Path
    action: Action
    bytes: int
    sha256: str
    fetch_bytes: int = 0
    source: Path | None = None
    repository: str = ""
    revision: str = ""
    path: str = ""


# Code -> names of its parameters.
NOTICE_CODES: dict[str, tuple[str, ...]] = {
    # The pinned revision has gone; the same files, by their checksums, come from the current one.
    "revision_replaced": ("repository", "revision"),
    "found_on_disk": ("file", "path"),
    # A file with the name or the size of ours has another content.
    "found_but_different": ("file", "path"),
    "draft_head_built": ("file", "fetch_bytes"),
    # It is there, but on a drive from which it can be neither linked nor used.
    "must_download_again": ("file", "path"),
    # The hub could not be asked for its checksum; it is used as it is.
    "not_verified": ("file", "path"),
}


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the person should know about a plan. `NOTICE_CODES` has all codes."""

    code: str
    params: dict[str, str | int]

    def __post_init__(self) -> None:
        if set(self.params) != set(NOTICE_CODES[self.code]):
            raise ValueError(f"the notice {self.code} has other parameters")


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    """The whole plan.

    Attributes:
        model: the catalogue's entry.
        folder: where its files will be.
        files: in the order in which they are handled.
        disk_bytes: what the drive must still have free, with a margin.
        disk_free_bytes: what it has.
        notices: things to tell the person.
    """

    model: CatalogModel
    folder: Path
    files: tuple[PlannedFile, ...]
    disk_bytes: int
    disk_free_bytes: int
    notices: tuple[Notice, ...] = ()

    @property
    def total_bytes(self) -> int:
        """All files together."""
        return sum(file.bytes for file in self.files)

    @property
    def fetch_bytes(self) -> int:
        """What is still to be fetched."""
        return sum(file.fetch_bytes for file in self.files)

    @property
    def fits_on_disk(self) -> bool:
        """Whether the drive has room."""
        return self.disk_bytes <= self.disk_free_bytes
