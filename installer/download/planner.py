"""Makes the plan of a download: asks the hub what the catalogue does not know, and the disk the rest."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.catalog import (
    Catalog,
    CatalogFile,
    CatalogModel,
    FileKind,
    MtpCheckpoint,
    RemoteFile,
)
from engine.core.catalog_file import PROGRAM_DIR
from engine.core.errors import EngineError
from engine.core.files import read_json, write_json
from installer.download.control import Control
from installer.download.disk import (
    LARGEST_COPY_BYTES,
    RESERVE_BYTES,
    check_largest_file,
    existing_parent,
    free_bytes,
)
from installer.download.found import FileFinder, Wanted, hub_cache_folders
from installer.download.hub import Hub, ListedFile, Listing
from installer.download.installed import installed_models
from installer.download.options import DownloadOptions
from installer.download.part_file import part_length
from installer.download.plan import Action, DownloadPlan, Notice, PlannedFile
from installer.download.progress import Phase
from installer.download.reporter import Reporter
from installer.download.transfer import Transfer
from installer.download.verified import VerifiedFiles
from installer.errors import HubError

logger = logging.getLogger(__name__)

_METADATA_NAME = "hub.json"
_METADATA_FORMAT = 1


@dataclass(frozen=True, slots=True)
class _Wish:
    """A file that the model needs, before its size and checksum are certain."""

    kind: FileKind
    repository: str
    revision: str
    file: CatalogFile

    @property
    def key(self) -> str:
        return f"{self.repository}@{self.revision}/{self.file.path}"


class Planner:
    """Plans one model's download."""

    def __init__(
        self,
        catalog: Catalog,
        model: CatalogModel,
        options: DownloadOptions,
        hub: Hub,
        transfer: Transfer,
        control: Control,
        reporter: Reporter,
    ) -> None:
        self._catalog = catalog
        self._model = model
        self._family = catalog.family_of(model)
        self._options = options
        self._hub = hub
        self._transfer = transfer
        self._reporter = reporter
        self._folder = options.models_dir / model.id
        self._verified = VerifiedFiles(options.models_dir)
        self._finder = FileFinder(self._verified, control, reporter)
        self._listings: dict[tuple[str, str], Listing] = {}
        self._known: dict[str, ListedFile] = {}
        self._notices: list[Notice] = []

    def plan(self) -> DownloadPlan:
        """The plan.

        Raises:
            DownloadError: the hub must be asked and does not answer, or has other files.
            DiskError: the drive cannot hold a file this large.
            StoppedError: that was asked for.
        """
        if self._model.is_bundled:
            return self._bundled_plan()
        self._read_metadata()
        wishes = self._wishes()
        self._learn(wish for wish in wishes if wish.key not in self._known)
        files = [self._place(wish) for wish in wishes]
        files = self._use_found(files)
        self._learn(
            wish for wish, file in zip(wishes, files, strict=True) if file.action is Action.FETCH
        )
        files = [self._with_commit(wish, file) for wish, file in zip(wishes, files, strict=True)]
        self._write_metadata()
        head = self._head_to_build(wishes)
        for file in files:
            if file.action is Action.FETCH:
                check_largest_file(self._folder, file.name, file.bytes)
        return self._finished([*files, *head])

    def _finished(self, files: list[PlannedFile]) -> DownloadPlan:
        fetch = sum(file.fetch_bytes for file in files)
        built = sum(file.bytes for file in files if file.action is Action.BUILD)
        return DownloadPlan(
            model=self._model,
            folder=self._folder,
            files=tuple(files),
            disk_bytes=fetch + built + min(RESERVE_BYTES, 4 * (fetch + built)),
            disk_free_bytes=free_bytes(self._folder),
            notices=tuple(self._notices),
        )

    def _bundled_plan(self) -> DownloadPlan:
        files = []
        for file in self._model.files:
            path = PROGRAM_DIR / file.path
            sha256 = self._finder.sha256_of(path)
            files.append(
                PlannedFile(
                    kind=FileKind.MODEL,
                    name=file.name,
                    target=path,
                    action=Action.REFERENCE,
                    bytes=path.stat().st_size,
                    sha256=sha256,
                    source=path,
                )
            )
        return self._finished(files)

    # -- what is wanted, and what the hub says of it ---------------------------------------------

    def _wishes(self) -> list[_Wish]:
        family = self._family
        repository, revision = family.repository or "", family.revision or ""
        wishes = [_Wish(FileKind.MODEL, repository, revision, f) for f in self._model.files]
        sidecar = self._sidecar()
        if sidecar is not None:
            wishes.append(_wish_of(FileKind.DRAFT_HEAD, sidecar))
        if self._options.with_image_encoder and family.image_encoder is not None:
            wishes.append(_wish_of(FileKind.IMAGE_ENCODER, family.image_encoder))
        return wishes

    def _sidecar(self) -> RemoteFile | None:
        """The finished draft head, if one is wanted and the hub has it."""
        mtp = self._family.mtp
        if not self._options.with_draft_head or mtp is None or mtp.sidecar is None:
            return None
        sidecar = mtp.sidecar
        wish = _wish_of(FileKind.DRAFT_HEAD, sidecar)
        if sidecar.sha256 is not None or wish.key in self._known or mtp.checkpoint is None:
            return sidecar
        listing = self._listing(sidecar.repository, sidecar.revision, [wish])
        return sidecar if sidecar.path in listing.files else None

    def _learn(self, wishes: Iterable[_Wish]) -> None:
        """Ask the hub about files, and compare what it says with what the catalogue says."""
        groups: dict[tuple[str, str], list[_Wish]] = {}
        for wish in wishes:
            groups.setdefault((wish.repository, wish.revision), []).append(wish)
        for (repository, revision), group in groups.items():
            listing = self._listing(repository, revision, group)
            for wish in group:
                self._known[wish.key] = self._listed(listing, wish)

    def _listed(self, listing: Listing, wish: _Wish) -> ListedFile:
        listed = listing.files.get(wish.file.path)
        if listed is None:
            raise HubError(
                f"{self._hub.host} does not have {wish.file.path} in {wish.repository}. Update "
                "Stratum, or choose another model.",
                code="hub_file_missing",
                params={
                    "file": wish.file.path,
                    "repository": wish.repository,
                    "host": self._hub.host,
                },
            )
        if not listed.sha256:
            raise HubError(
                f"{self._hub.host} gives no checksum for {wish.file.path}, so it could not be "
                "verified. Choose another mirror.",
                code="hub_answer",
                params={"file": wish.file.path, "host": self._hub.host},
            )
        before = self._known.get(wish.key)
        for known, said in (
            (wish.file.bytes, listed.bytes),
            (wish.file.sha256, listed.sha256),
            (before.sha256 if before is not None else None, listed.sha256),
        ):
            if known is not None and known != said:
                raise HubError(
                    f"{wish.file.path} on {self._hub.host} is another file than this version of "
                    "Stratum knows. Update Stratum, or choose another mirror.",
                    code="hub_file_changed",
                    params={"file": wish.file.path, "host": self._hub.host},
                )
        return listed

    def _listing(self, repository: str, revision: str, wishes: list[_Wish]) -> Listing:
        key = (repository, revision)
        if key not in self._listings:
            self._reporter.begin(Phase.LISTING, repository, 0)
            try:
                listing = self._transfer.ask(lambda: self._hub.listing(repository, revision))
            except HubError as error:
                if error.code != "revision_missing":
                    raise
                listing = self._replacement(repository, revision, wishes, error)
            self._listings[key] = listing
        return self._listings[key]

    def _replacement(
        self, repository: str, revision: str, wishes: list[_Wish], error: HubError
    ) -> Listing:
        """The current commit instead of one that has gone: only for files whose checksum is known.

        Raises:
            HubError: the one that was given, when the files are not the same for certain.
        """
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
        self._notices.append(
            Notice("revision_replaced", {"repository": repository, "revision": revision[:12]})
        )
        return listing

    # -- what is there ---------------------------------------------------------------------------

    def _place(self, wish: _Wish) -> PlannedFile:
        listed = self._known[wish.key]
        target = self._folder / wish.file.name
        planned = PlannedFile(
            kind=wish.kind,
            name=wish.file.name,
            target=target,
            action=Action.FETCH,
            bytes=listed.bytes,
            sha256=listed.sha256,
            repository=wish.repository,
            revision=wish.revision,
            path=wish.file.path,
        )
        with contextlib.suppress(OSError):
            has_size = target.is_file() and target.stat().st_size == listed.bytes
            if has_size and self._finder.sha256_of(target) == listed.sha256:
                return replace(planned, action=Action.PRESENT)
        have = part_length(target, listed.bytes, listed.sha256)
        return replace(planned, fetch_bytes=listed.bytes - have)

    def _use_found(self, files: list[PlannedFile]) -> list[PlannedFile]:
        """Use files that lie elsewhere on this PC."""
        missing = [file for file in files if file.action is Action.FETCH]
        if not missing:
            return files
        folders = [*self._options.search, self._options.models_dir]
        folders += hub_cache_folders({file.repository for file in missing})
        finding = self._finder.find(
            (Wanted(file.name, file.bytes, file.sha256) for file in missing), folders
        )
        for path in finding.different:
            if not path.is_relative_to(self._folder):
                self._notices.append(Notice("found_but_different", {"path": str(path)}))
        can_link = {sha256: _can_link(path, self._folder) for sha256, path in finding.files.items()}
        in_place = self._all_in_one_folder(files, finding.files)
        result = []
        for file in files:
            source = finding.files.get(file.sha256)
            if file.action is not Action.FETCH or source is None:
                result.append(file)
                continue
            if can_link[file.sha256]:
                action = Action.LINK
            elif in_place or file.kind is not FileKind.MODEL:
                action = Action.REFERENCE
            else:
                self._notices.append(Notice("must_download_again", {"path": str(source)}))
                result.append(file)
                continue
            self._notices.append(Notice("found_on_disk", {"path": str(source)}))
            target = source if action is Action.REFERENCE else file.target
            result.append(replace(file, action=action, source=source, target=target, fetch_bytes=0))
        if any(f.action is Action.REFERENCE and f.kind is FileKind.MODEL for f in result):
            # All or none: the engine looks for the shards of a model in one folder.
            result = [
                replace(f, action=Action.REFERENCE, source=p, target=p, fetch_bytes=0)
                if f.kind is FileKind.MODEL and (p := finding.files.get(f.sha256)) is not None
                else f
                for f in result
            ]
        return result

    def _all_in_one_folder(self, files: list[PlannedFile], found: dict[str, Path]) -> bool:
        """Whether the whole model lies in one other folder under its own names."""
        paths = [found.get(file.sha256) for file in files if file.kind is FileKind.MODEL]
        names = [file.name for file in files if file.kind is FileKind.MODEL]
        return len({path.parent for path in paths if path is not None}) == 1 and names == [
            path.name if path is not None else "" for path in paths
        ]

    def _with_commit(self, wish: _Wish, file: PlannedFile) -> PlannedFile:
        listing = self._listings.get((wish.repository, wish.revision))
        return replace(file, revision=listing.commit) if listing is not None else file

    # -- the draft head --------------------------------------------------------------------------

    def _head_to_build(self, wishes: list[_Wish]) -> list[PlannedFile]:
        """The draft head, when it must be made here."""
        checkpoint = head_checkpoint(self._catalog, self._model)
        if (
            not self._options.with_draft_head
            or checkpoint is None
            or any(wish.kind is FileKind.DRAFT_HEAD for wish in wishes)
        ):
            return []
        target = self._folder / head_name(checkpoint)
        planned = PlannedFile(
            kind=FileKind.DRAFT_HEAD,
            name=target.name,
            target=target,
            action=Action.BUILD,
            bytes=checkpoint.file_bytes,
            sha256="",
            repository=checkpoint.repository,
            revision=checkpoint.revision,
        )
        for model in installed_models(self._options.models_dir):
            for file in model.files:
                path = model.path_of(file)
                if file.kind is not FileKind.DRAFT_HEAD or path.name != target.name:
                    continue
                if not path.is_file() or self._finder.sha256_of(path) != file.sha256:
                    continue
                done = replace(planned, bytes=file.bytes, sha256=file.sha256)
                if path == target:
                    return [replace(done, action=Action.PRESENT)]
                if _can_link(path, self._folder):
                    return [replace(done, action=Action.LINK, source=path)]
                return [replace(done, action=Action.REFERENCE, source=path, target=path)]
        self._notices.append(
            Notice("draft_head_built", {"bytes": checkpoint.download_bytes, "file": target.name})
        )
        have = sum(
            path.stat().st_size
            for path in tensor_folder(self._folder, checkpoint).glob("*.bin*")
            if path.suffix in (".bin", ".part")
        )
        return [replace(planned, fetch_bytes=max(0, checkpoint.download_bytes - have))]

    # -- what the hub said before ----------------------------------------------------------------

    def _read_metadata(self) -> None:
        for model_file in self._wishes_of_catalog():
            if model_file.file.bytes is not None and model_file.file.sha256 is not None:
                self._known[model_file.key] = ListedFile(
                    model_file.file.path, model_file.file.bytes, model_file.file.sha256
                )
        path = self._folder / _METADATA_NAME
        if not path.exists():
            return
        try:
            files = read_json(path, _METADATA_FORMAT).get("files")
        except EngineError as error:
            logger.info("the hub is asked again: %s", error)
            return
        for key, entry in files.items() if isinstance(files, dict) else ():
            if isinstance(entry, list) and len(entry) == 2 and key not in self._known:
                size, sha256 = entry
                if isinstance(size, int) and isinstance(sha256, str):
                    self._known[key] = ListedFile(key.split("/", 2)[-1], size, sha256)

    def _wishes_of_catalog(self) -> list[_Wish]:
        family = self._family
        wishes = [
            _Wish(FileKind.MODEL, family.repository or "", family.revision or "", file)
            for file in self._model.files
        ]
        if family.mtp is not None and family.mtp.sidecar is not None:
            wishes.append(_wish_of(FileKind.DRAFT_HEAD, family.mtp.sidecar))
        if family.image_encoder is not None:
            wishes.append(_wish_of(FileKind.IMAGE_ENCODER, family.image_encoder))
        return wishes

    def _write_metadata(self) -> None:
        files: dict[str, object] = {
            key: [file.bytes, file.sha256] for key, file in self._known.items()
        }
        write_json(self._folder / _METADATA_NAME, {"format": _METADATA_FORMAT, "files": files})


def head_checkpoint(catalog: Catalog, model: CatalogModel) -> MtpCheckpoint | None:
    """The checkpoint that a model's draft head is made from, if it is."""
    mtp = catalog.family_of(model).mtp
    if mtp is None or mtp.checkpoint is None:
        return None
    return catalog.mtp_checkpoints[mtp.checkpoint]


def head_name(checkpoint: MtpCheckpoint) -> str:
    """Name of the draft head that is made from a checkpoint."""
    return f"mtp-{checkpoint.revision[:12]}-{checkpoint.expert_format}.gguf"


def tensor_folder(model_folder: Path, checkpoint: MtpCheckpoint) -> Path:
    """Where the tensors wait until the draft head is made; all models share them."""
    return model_folder.parent / f".mtp-{checkpoint.revision[:12]}"


def _wish_of(kind: FileKind, file: RemoteFile) -> _Wish:
    return _Wish(kind, file.repository, file.revision, file)


def _can_link(source: Path, folder: Path) -> bool:
    """Whether `disk.link` would work without a large copy."""
    if source.stat().st_size <= LARGEST_COPY_BYTES:
        return True
    probe = existing_parent(folder) / f".stratum-link-{secrets.token_hex(4)}"
    for make in (os.link, os.symlink):
        try:
            make(source.resolve(), probe)
        except (OSError, NotImplementedError):
            continue
        probe.unlink()
        return True
    return False
