"""One model's download, from the plan to the finished folder. The door for wizard and headless.

    job = DownloadJob(load_catalog(), "qwen-iq2_xs", DownloadOptions(data_dir))
    plan = job.plan()                     # sizes, what is there already, room on the drive
    model = job.run(on_progress)          # blocks; -> InstalledModel
    job.pause(); job.resume(); job.stop(); job.cancel()      # from any thread

`stop` keeps what was fetched for the next start, `cancel` deletes it. `run` may be called again after
an error: it goes on from what is there. Knows no window and no language: errors carry codes.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog import Catalog, FileKind
from engine.core.catalog_file import find_model
from engine.core.sizes import size_in_words
from installer.download.control import Control
from installer.download.disk import hash_file, link, make_folder
from installer.download.hub import Hub, make_client
from installer.download.installed import (
    MANIFEST_NAME,
    InstalledFile,
    InstalledModel,
    write_manifest,
)
from installer.download.lock import download_lock
from installer.download.options import DownloadOptions
from installer.download.part_file import delete_part
from installer.download.plan import Action, DownloadPlan, PlannedFile
from installer.download.planner import Planner, head_checkpoint, tensor_folder
from installer.download.progress import Phase, ProgressCallback
from installer.download.reporter import Reporter
from installer.download.transfer import RemoteRange, Transfer
from installer.download.verified import VerifiedFiles
from installer.errors import CancelledError, DiskError, NetworkError
from installer.mtp_source.build import HeadBuild, build_draft_head
from installer.mtp_source.tensors import TensorFiles, TensorSource

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Tools:
    """What one `plan` or `run` works with."""

    hub: Hub
    transfer: Transfer
    planner: Planner
    reporter: Reporter


class DownloadJob:
    """The download of one model. Methods other than `plan` and `run` may be called anywhere."""

    def __init__(self, catalog: Catalog, model_id: str, options: DownloadOptions) -> None:
        """Prepare a download; nothing is read or written yet.

        Raises:
            InputError: there is no such model.
        """
        self.model = find_model(catalog, model_id)
        self.options = options
        self._catalog = catalog
        self._control = Control(options.max_bytes_per_s)

    def plan(self, progress: ProgressCallback | None = None) -> DownloadPlan:
        """What would be done. Reads files that may be ours; fetches nothing but listings.

        Raises:
            DownloadError: the hub must be asked and does not answer.
            StoppedError: `stop` or `cancel` was called.
        """
        with self._tools(progress) as tools:
            return tools.planner.plan()

    def run(self, progress: ProgressCallback | None = None) -> InstalledModel:
        """Download, verify, prepare; returns when the model can be used.

        Raises:
            BusyError: another process downloads into this data folder.
            DownloadError: it cannot go on; what was fetched is kept.
            PreparationError: the draft head could not be made; the model's files are there.
            StoppedError: `stop` was called; what was fetched is kept.
            CancelledError: `cancel` was called; what was fetched is deleted.
        """
        options = self.options
        with (
            download_lock(options.models_dir),
            options.keep_awake.hold("Downloading a model"),
            self._tools(progress) as tools,
        ):
            try:
                return self._run(tools)
            except CancelledError:
                self._delete_parts()
                raise

    def pause(self) -> None:
        """Stop transferring; `run` waits for `resume`."""
        self._control.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._control.resume()

    def stop(self) -> None:
        """End `run` with StoppedError; the next job goes on from there."""
        self._control.stop()

    def cancel(self) -> None:
        """End `run` with CancelledError; what was fetched is deleted."""
        self._control.cancel()

    def set_rate_limit(self, max_bytes_per_s: float | None) -> None:
        """Change the rate limit; None: none."""
        self._control.set_rate_limit(max_bytes_per_s)

    @contextlib.contextmanager
    def _tools(self, progress: ProgressCallback | None) -> Iterator[_Tools]:
        options, control = self.options, self._control
        reporter = Reporter(progress)
        try:
            client = make_client(options)
        except (ValueError, ImportError) as error:  # no address, or a SOCKS proxy
            raise NetworkError(
                "The proxy is not one that can be used here. Enter its HTTP address, such as "
                "http://NAME:PASSWORD@PROXY:PORT, or leave it empty for the system's.",
                code="proxy_unusable",
            ) from error
        with client:
            hub = Hub(options)
            transfer = Transfer(hub, client, control, options.retry, reporter)
            planner = Planner(self._catalog, self.model, options, hub, transfer, control, reporter)
            yield _Tools(hub, transfer, planner, reporter)

    def _run(self, tools: _Tools) -> InstalledModel:
        plan = tools.planner.plan()
        if plan.fetch_bytes and not plan.fits_on_disk:
            missing = plan.disk_bytes - plan.disk_free_bytes
            raise DiskError(
                f"The drive of {plan.folder} has {size_in_words(plan.disk_free_bytes)} free; the "
                f"download needs {size_in_words(plan.disk_bytes)}, so {size_in_words(missing)} are "
                "missing. Choose another folder or a smaller size, or free some space.",
                code="disk_short",
                params={
                    "path": str(plan.folder),
                    "free_bytes": plan.disk_free_bytes,
                    "needed_bytes": plan.disk_bytes,
                    "missing_bytes": missing,
                },
            )
        make_folder(plan.folder)
        tools.reporter.set_total(
            sum(f.bytes for f in plan.files if f.action is Action.FETCH)
            + sum(f.fetch_bytes for f in plan.files if f.action is Action.BUILD),
            sum(f.bytes - f.fetch_bytes for f in plan.files if f.action is Action.FETCH),
        )
        verified = VerifiedFiles(self.options.models_dir)
        done: list[InstalledFile] = []
        for file in plan.files:
            self._control.wait_while_paused()
            done.append(self._provide(file, plan, tools, verified))
        model = InstalledModel(
            id=self.model.id,
            title=self._catalog.title_of(self.model),
            revision=plan.files[0].revision,
            files=tuple(done),
            folder=plan.folder,
        )
        write_manifest(model)
        tools.reporter.done()
        return model

    def _provide(
        self, file: PlannedFile, plan: DownloadPlan, tools: _Tools, verified: VerifiedFiles
    ) -> InstalledFile:
        """Bring one file to its place."""
        num_bytes, sha256 = file.bytes, file.sha256
        if file.action is Action.LINK and file.source is not None:
            if not link(file.source, file.target):  # the plan tried one: the drive has changed
                self._fetch(file, tools)
        elif file.action is Action.FETCH:
            self._fetch(file, tools)
        elif file.action is Action.BUILD:
            sha256 = self._build_head(file, plan, tools, verified)
            num_bytes = file.target.stat().st_size
        if verified.sha256_of(file.target) != sha256:
            verified.remember(file.target, sha256)
        is_own = file.action is not Action.REFERENCE
        return InstalledFile(
            kind=file.kind,
            path=Path(file.name) if is_own else file.target,
            bytes=num_bytes,
            sha256=sha256,
            is_own=is_own,
        )

    def _fetch(self, file: PlannedFile, tools: _Tools) -> None:
        wanted = RemoteRange.whole(file.repository, file.revision, file.path, file.bytes)
        tools.transfer.fetch(wanted, file.target, file.sha256)

    def _build_head(
        self, file: PlannedFile, plan: DownloadPlan, tools: _Tools, verified: VerifiedFiles
    ) -> str:
        """Fetch the draft head's tensors and have the engine make it; its SHA-256."""
        checkpoint = head_checkpoint(self._catalog, self.model)
        if checkpoint is None:
            raise ValueError("a draft head is to be made of no checkpoint")
        tensors = TensorSource(checkpoint, tools.hub, tools.transfer).find()
        files = TensorFiles(tensor_folder(plan.folder, checkpoint), verified)
        tools.reporter.correct_total(files.missing_bytes(tensors) - file.fetch_bytes)
        files.fetch(tensors, tools.transfer, self._control, tools.reporter)
        model = next(f.target for f in plan.files if f.kind is FileKind.MODEL)
        build = HeadBuild(files.list_path, model, file.target, checkpoint.expert_format)
        build_draft_head(build, self._control, tools.reporter, self.options.engine_command)
        tools.reporter.begin(Phase.VERIFYING, file.name, file.target.stat().st_size)
        sha256 = hash_file(file.target, self._control, tools.reporter.read)
        verified.remember(file.target, sha256)
        for tensor in tensors:
            verified.forget(files.folder / tensor.file_name)
        shutil.rmtree(files.folder, ignore_errors=True)
        return sha256

    def _delete_parts(self) -> None:
        """Delete what was fetched for a model that is not installed; parts only of one that is."""
        folder = self.options.models_dir / self.model.id
        checkpoint = head_checkpoint(self._catalog, self.model)
        if checkpoint is not None:
            shutil.rmtree(tensor_folder(folder, checkpoint), ignore_errors=True)
        if (folder / MANIFEST_NAME).exists():
            for part in folder.glob("*.part"):
                delete_part(part.with_suffix(""))
        else:
            shutil.rmtree(folder, ignore_errors=True)
