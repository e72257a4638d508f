"""Makes the plan of a download: which files are there, which are fetched, which are made here."""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import replace
from pathlib import Path

from engine.core.catalog import Catalog, CatalogModel, FileKind, MtpCheckpoint, RemoteFile
from engine.core.catalog_file import PROGRAM_DIR
from installer.download.control import Control
from installer.download.disk import (
    LARGEST_COPY_BYTES,
    RESERVE_BYTES,
    check_largest_file,
    existing_parent,
    free_bytes,
)
from installer.download.found import FileFinder, Wanted, find_whole_files, hub_cache_folders
from installer.download.hub import Hub
from installer.download.hub_facts import HubFacts, WantedFile
from installer.download.installed import installed_models
from installer.download.options import DownloadOptions
from installer.download.part_file import part_length
from installer.download.plan import Action, DownloadPlan, Notice, PlannedFile
from installer.download.reporter import Reporter
from installer.download.transfer import Transfer
from installer.download.verified import VerifiedFiles
from installer.errors import NetworkError


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
        self._folder = options.models_dir / model.id
        verified = VerifiedFiles(options.models_dir)
        self._finder = FileFinder(verified, control, reporter)
        self._facts = HubFacts(self._folder, hub, transfer, reporter)
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
        try:
            return self._verified_plan()
        except NetworkError:
            files = self._unverified_files() if self._options.accept_unverified else []
            if not files:
                raise
            return self._finished(files)

    def _verified_plan(self) -> DownloadPlan:
        facts = self._facts
        facts.recall(self._all_wishes())
        wishes = self._wishes()
        facts.learn(wish for wish in wishes if not facts.knows(wish))
        files = self._use_found([self._place(wish) for wish in wishes])
        pairs = list(zip(wishes, files, strict=True))
        facts.learn(wish for wish, file in pairs if file.action is Action.FETCH)
        files = [replace(file, revision=facts.commit_of(wish)) for wish, file in pairs]
        facts.keep()
        for file in files:
            if file.action is Action.FETCH:
                check_largest_file(self._folder, file.name, file.bytes)
        return self._finished([*files, *self._head_to_build(wishes)])

    def _finished(self, files: list[PlannedFile]) -> DownloadPlan:
        fetch = sum(file.fetch_bytes for file in files)
        built = sum(file.bytes for file in files if file.action is Action.BUILD)
        return DownloadPlan(
            model=self._model,
            folder=self._folder,
            files=tuple(files),
            disk_bytes=fetch + built + min(RESERVE_BYTES, 4 * (fetch + built)),
            disk_free_bytes=free_bytes(self._folder),
            notices=(*self._facts.notices, *self._notices),
        )

    def _bundled_plan(self) -> DownloadPlan:
        files = []
        for file in self._model.files:
            path = PROGRAM_DIR / file.path
            files.append(self._as_it_is(FileKind.MODEL, path))
        return self._finished(files)

    def _as_it_is(self, kind: FileKind, path: Path) -> PlannedFile:
        """A file that is used where it lies, whatever it holds."""
        return PlannedFile(
            kind=kind,
            name=path.name,
            target=path,
            action=Action.REFERENCE,
            bytes=path.stat().st_size,
            sha256=self._finder.sha256_of(path),
            source=path,
        )

    # -- what is wanted --------------------------------------------------------------------------

    def _wishes(self) -> list[WantedFile]:
        """The files to provide, those that are made here excepted.

        Raises:
            DownloadError: the hub must be asked whether it has a file, and does not answer.
        """
        wishes = []
        for wish in self._all_wishes():
            is_wanted = {
                FileKind.MODEL: True,
                FileKind.DRAFT_HEAD: self._options.with_draft_head,
                FileKind.IMAGE_ENCODER: self._options.with_image_encoder,
            }[wish.kind]
            if is_wanted and (wish.kind is not FileKind.DRAFT_HEAD or self._has_ready_head(wish)):
                wishes.append(wish)
        return wishes

    def _all_wishes(self) -> list[WantedFile]:
        family = self._family
        repository, revision = family.repository or "", family.revision or ""
        wishes = [WantedFile(FileKind.MODEL, repository, revision, f) for f in self._model.files]
        if family.mtp is not None and family.mtp.sidecar is not None:
            wishes.append(_wish_of(FileKind.DRAFT_HEAD, family.mtp.sidecar))
        if family.image_encoder is not None:
            wishes.append(_wish_of(FileKind.IMAGE_ENCODER, family.image_encoder))
        return wishes

    def _has_ready_head(self, wish: WantedFile) -> bool:
        """Whether the finished draft head can be fetched; else it is made, if it can be."""
        can_build = head_checkpoint(self._catalog, self._model) is not None
        return self._facts.knows(wish) or not can_build or self._facts.is_listed(wish)

    # -- what is there ---------------------------------------------------------------------------

    def _place(self, wish: WantedFile) -> PlannedFile:
        listed = self._facts.of(wish)
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
                self._note("found_but_different", path)
        in_place = _is_whole_model(files, finding.files)
        return [self._use(file, finding.files.get(file.sha256), in_place) for file in files]

    def _use(self, file: PlannedFile, source: Path | None, in_place: bool) -> PlannedFile:
        """The file, taken from `source` if that is possible without a copy.

        Args:
            file: as planned so far.
            source: another file with its content.
            in_place: whether the whole model lies there under its own names: the engine looks for the
                shards of a model in one folder.
        """
        if file.action is not Action.FETCH or source is None:
            return file
        if _can_link(source, self._folder):
            self._note("found_on_disk", source)
            return replace(file, action=Action.LINK, source=source, fetch_bytes=0)
        if in_place or file.kind is not FileKind.MODEL:
            self._note("found_on_disk", source)
            return replace(
                file, action=Action.REFERENCE, source=source, target=source, fetch_bytes=0
            )
        self._note("must_download_again", source)
        return file

    def _unverified_files(self) -> list[PlannedFile]:
        """The person's own files by their names, when the hub cannot be asked; [] unless all are there."""
        folders = [*self._options.search, self._folder]
        paths = find_whole_files([file.name for file in self._model.files], folders)
        if paths is None:
            return []
        for path in paths:
            self._note("not_verified", path)
        return [self._as_it_is(FileKind.MODEL, path) for path in paths]

    def _note(self, code: str, path: Path) -> None:
        self._notices.append(Notice(code, {"file": path.name, "path": str(path.parent)}))

    # -- the draft head --------------------------------------------------------------------------

    def _head_to_build(self, wishes: list[WantedFile]) -> list[PlannedFile]:
        """The draft head, when it must be made here."""
        checkpoint = head_checkpoint(self._catalog, self._model)
        has_ready = any(wish.kind is FileKind.DRAFT_HEAD for wish in wishes)
        if not self._options.with_draft_head or checkpoint is None or has_ready:
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
        made = self._made_head(planned)
        if made is not None:
            return [made]
        have = sum(
            path.stat().st_size
            for path in tensor_folder(self._folder, checkpoint).glob("*.bin*")
            if path.suffix in (".bin", ".part")
        )
        missing = max(0, checkpoint.download_bytes - have)
        self._notices.append(
            Notice("draft_head_built", {"file": target.name, "fetch_bytes": missing})
        )
        return [replace(planned, fetch_bytes=missing)]

    def _made_head(self, planned: PlannedFile) -> PlannedFile | None:
        """The same draft head, if it was made before, for this model or another."""
        for model in installed_models(self._options.models_dir):
            for file in model.files:
                path = model.path_of(file)
                if file.kind is not FileKind.DRAFT_HEAD or path.name != planned.name:
                    continue
                if not path.is_file() or self._finder.sha256_of(path) != file.sha256:
                    continue
                made = replace(planned, bytes=file.bytes, sha256=file.sha256)
                if path == planned.target:
                    return replace(made, action=Action.PRESENT)
                if _can_link(path, self._folder):
                    return replace(made, action=Action.LINK, source=path)
                return replace(made, action=Action.REFERENCE, source=path, target=path)
        return None


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


def _wish_of(kind: FileKind, file: RemoteFile) -> WantedFile:
    return WantedFile(kind, file.repository, file.revision, file)


def _is_whole_model(files: list[PlannedFile], found: dict[str, Path]) -> bool:
    """Whether the whole model lies in one other folder under its own names."""
    shards = [file for file in files if file.kind is FileKind.MODEL]
    paths = [found.get(file.sha256) for file in shards]
    folders = {path.parent for path in paths if path is not None}
    names = [path.name if path is not None else "" for path in paths]
    return len(folders) == 1 and names == [file.name for file in shards]


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
