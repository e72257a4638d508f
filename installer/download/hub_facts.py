"""Sizes and checksums of wanted files: from the catalogue, from an earlier start, or from the hub.

What the hub said is kept in the model's folder (`hub.json`), so a finished model needs no network. A
file that is not what the catalogue, or an earlier start, says is refused. A pinned revision that has
gone is replaced by the current one only when every wanted file is the same by its checksum.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog import CatalogFile, FileKind
from engine.core.errors import EngineError
from engine.core.files import read_json
from installer.download.disk import write_record
from installer.download.hub import Hub, ListedFile, Listing
from installer.download.plan import Notice
from installer.download.progress import Phase
from installer.download.reporter import Reporter
from installer.download.transfer import Transfer
from installer.errors import HubError

logger = logging.getLogger(__name__)

_METADATA_NAME = "hub.json"
_METADATA_FORMAT = 1


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file that the model needs, before its size and checksum are certain."""

    kind: FileKind
    repository: str
    revision: str
    file: CatalogFile

    @property
    def key(self) -> str:
        """Its place on the hub, as it is kept in `hub.json`."""
        return f"{self.repository}@{self.revision}/{self.file.path}"


class HubFacts:
    """What is known of files on the hub.

    Attributes:
        notices: what the person should know about it.
    """

    def __init__(self, folder: Path, hub: Hub, transfer: Transfer, reporter: Reporter) -> None:
        self.notices: list[Notice] = []
        self._path = folder / _METADATA_NAME
        self._hub = hub
        self._transfer = transfer
        self._reporter = reporter
        self._listings: dict[tuple[str, str], Listing] = {}
        self._known: dict[str, ListedFile] = {}

    def recall(self, wishes: Iterable[WantedFile]) -> None:
        """Take over what the catalogue and an earlier start know."""
        for wish in wishes:
            file = wish.file
            if file.bytes is not None and file.sha256 is not None:
                self._known[wish.key] = ListedFile(file.path, file.bytes, file.sha256)
        if not self._path.exists():
            return
        try:
            files = read_json(self._path, _METADATA_FORMAT).get("files")
        except EngineError as error:
            logger.info("the hub is asked again: %s", error)
            return
        for key, entry in files.items() if isinstance(files, dict) else ():
            if isinstance(entry, list) and len(entry) == 2 and key not in self._known:
                size, sha256 = entry
                if isinstance(size, int) and isinstance(sha256, str):
                    self._known[key] = ListedFile(key.split("/", 2)[-1], size, sha256)

    def keep(self) -> None:
        """Write what is known.

        Raises:
            DiskError: the folder cannot be written.
        """
        files: dict[str, object] = {
            key: [file.bytes, file.sha256] for key, file in self._known.items()
        }
        write_record(self._path, {"format": _METADATA_FORMAT, "files": files})

    def knows(self, wish: WantedFile) -> bool:
        """Whether size and checksum are known."""
        return wish.key in self._known

    def of(self, wish: WantedFile) -> ListedFile:
        """Size and checksum of a file that is known."""
        return self._known[wish.key]

    def commit_of(self, wish: WantedFile) -> str:
        """The commit to fetch a file from."""
        listing = self._listings.get((wish.repository, wish.revision))
        return wish.revision if listing is None else listing.commit

    def learn(self, wishes: Iterable[WantedFile]) -> None:
        """Ask the hub about files, and compare what it says with what is known.

        Raises:
            NetworkError: it cannot be asked.
            HubError: it does not have them, or others.
        """
        groups: dict[tuple[str, str], list[WantedFile]] = {}
        for wish in wishes:
            groups.setdefault((wish.repository, wish.revision), []).append(wish)
        for group in groups.values():
            listing = self._listing(group)
            for wish in group:
                self._known[wish.key] = self._checked(listing, wish)

    def is_listed(self, wish: WantedFile) -> bool:
        """Whether the hub has a file.

        Raises:
            NetworkError: it cannot be asked.
            HubError: it does not have the repository.
        """
        return wish.file.path in self._listing([wish]).files

    def _listing(self, wishes: list[WantedFile]) -> Listing:
        """The listing of the repository that all `wishes` are of."""
        repository, revision = wishes[0].repository, wishes[0].revision
        key = (repository, revision)
        if key not in self._listings:
            self._reporter.begin(Phase.LISTING, repository, 0)
            try:
                listing = self._transfer.ask(lambda: self._hub.listing(repository, revision))
            except HubError as error:
                if error.code != "revision_missing":
                    raise
                listing = self._replacement(wishes, error)
            self._listings[key] = listing
        return self._listings[key]

    def _replacement(self, wishes: list[WantedFile], error: HubError) -> Listing:
        """The current commit instead of one that has gone.

        Raises:
            HubError: the one that was given, when the files are not the same for certain.
        """
        repository, revision = wishes[0].repository, wishes[0].revision
        try:
            listing = self._transfer.ask(lambda: self._hub.listing(repository, "main"))
        except HubError:
            raise error from None
        for wish in wishes:
            known = self._known.get(wish.key)
            sha256 = wish.file.sha256 or (known.sha256 if known is not None else None)
            listed = listing.files.get(wish.file.path)
            if sha256 is None or listed is None or listed.sha256 != sha256:
                raise error
        logger.warning(
            "%s no longer has %s; the same files are at %s", repository, revision, listing.commit
        )
        self.notices.append(
            Notice("revision_replaced", {"repository": repository, "revision": revision[:12]})
        )
        return listing

    def _checked(self, listing: Listing, wish: WantedFile) -> ListedFile:
        path, host = wish.file.path, self._hub.host
        listed = listing.files.get(path)
        if listed is None:
            raise HubError(
                f"{host} does not have {path} in {wish.repository}. Update Stratum, or choose "
                "another model.",
                code="hub_file_missing",
                params={"file": path, "repository": wish.repository, "host": host},
            )
        if not listed.sha256:
            raise HubError(
                f"{host} gives no checksum for {path}, so it could not be verified. Choose another "
                "mirror.",
                code="hub_answer",
                params={"file": path, "host": host},
            )
        known = self._known.get(wish.key)
        before = (known.bytes, known.sha256) if known is not None else (None, None)
        pairs = zip(
            (wish.file.bytes, wish.file.sha256, *before),
            2 * (listed.bytes, listed.sha256),
            strict=True,
        )
        if any(wanted is not None and wanted != said for wanted, said in pairs):
            raise HubError(
                f"{path} on {host} is another file than this version of Stratum knows. Update "
                "Stratum, or choose another mirror.",
                code="hub_file_changed",
                params={"file": path, "host": host},
            )
        return listed
