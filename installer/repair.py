"""Verifies everything that is installed, and fetches only what is bad.

    report = repair(load_catalog(), data_dir, root, on_progress)

The program's files are compared with the release's list, models with their checksums, and the engine
runs its self-test. A bad file of a model is fetched again by the ordinary download, which keeps all
that is right. Packages are the business of `setup.sh` and `START-HERE.bat`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.core.catalog import Catalog, FileKind
from engine.core.config_file import load_config
from engine.core.errors import EngineError
from engine.core.files import keep_backup
from engine.core.settings import load_settings
from installer.download.control import Control
from installer.download.installed import InstalledModel, bad_files, installed_models
from installer.download.job import DownloadJob
from installer.download.options import DownloadOptions
from installer.download.progress import ProgressCallback
from installer.errors import InstallError
from installer.program import RELEASE_NAME
from installer.update import run_self_test

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelRepair:
    """What was found and done for one model.

    Attributes:
        bad: names of files that were missing or damaged.
        is_repaired: they are right again.
        reason: why not; empty otherwise.
    """

    id: str
    title: str
    num_files: int
    bad: tuple[str, ...] = ()
    is_repaired: bool = False
    reason: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result.

    Attributes:
        program: files of the program that are missing or changed; None where there is no list of them.
        broken_configs: run configs that could not be read and were set aside.
        engine: why the engine's self-test failed; empty when it passed.
    """

    models: tuple[ModelRepair, ...] = ()
    program: tuple[str, ...] | None = None
    broken_configs: tuple[str, ...] = ()
    engine: str = ""

    @property
    def is_well(self) -> bool:
        """Everything is right now."""
        return (
            not self.program
            and not self.engine
            and all(not model.bad or model.is_repaired for model in self.models)
        )

    def as_plain(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "ok": self.is_well,
            "program": None if self.program is None else list(self.program),
            "engine": self.engine,
            "broken_configs": list(self.broken_configs),
            "models": [
                {
                    "id": model.id,
                    "files": model.num_files,
                    "bad": list(model.bad),
                    "repaired": model.is_repaired,
                    "reason": model.reason,
                    "code": model.code,
                }
                for model in self.models
            ],
        }


@dataclass(slots=True)
class Repair:
    """One repair; `control` stops it from another thread."""

    catalog: Catalog
    options: DownloadOptions
    root: Path
    self_test: Callable[[Path], str] = run_self_test
    control: Control = field(default_factory=Control)
    _job: DownloadJob | None = None

    def run(self, progress: ProgressCallback | None = None) -> RepairReport:
        """Verify and repair; returns what was found.

        Raises:
            StoppedError: `stop` was called; what was fetched is kept.
        """
        models = tuple(
            self._repair_model(model, progress)
            for model in installed_models(self.options.models_dir)
        )
        return RepairReport(
            models=models,
            program=changed_program_files(self.root),
            broken_configs=set_broken_configs_aside(self.options.data_dir),
            engine=self.self_test(self.root),
        )

    def stop(self) -> None:
        """End `run`."""
        self.control.stop()
        if self._job is not None:
            self._job.stop()

    def _repair_model(
        self, model: InstalledModel, progress: ProgressCallback | None
    ) -> ModelRepair:
        bad = bad_files(self.options.models_dir, model, self.control, progress)
        result = ModelRepair(
            id=model.id,
            title=model.title,
            num_files=len(model.files),
            bad=tuple(file.path.name for file in bad),
        )
        if not bad:
            return result
        entry = self.catalog.find(model.id)
        if entry is None:
            sentence = f"{model.title} is not in this version's list of models."
            return replace(result, reason=sentence, code="model_unknown")
        kinds = {file.kind for file in model.files}
        options = replace(
            self.options,
            with_draft_head=FileKind.DRAFT_HEAD in kinds,
            with_image_encoder=FileKind.IMAGE_ENCODER in kinds,
        )
        self._job = DownloadJob(self.catalog, model.id, options)
        try:
            self._job.run(progress)
        except InstallError as error:
            if error.code in {"download_stopped", "download_cancelled"}:
                raise
            return replace(result, reason=error.message, code=error.code)
        finally:
            self._job = None
        return replace(result, is_repaired=True)


def changed_program_files(root: Path) -> tuple[str, ...] | None:
    """Files of a release that are missing or not what they were; None where there is no list."""
    try:
        listed = json.loads((root / RELEASE_NAME).read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return (RELEASE_NAME,)
    changed = []
    for name, sha256 in listed.items() if isinstance(listed, dict) else ():
        try:
            found = hashlib.sha256((root / name).read_bytes()).hexdigest()
        except OSError:
            found = ""
        if found != sha256:
            changed.append(str(name))
    return tuple(changed)


def set_broken_configs_aside(data_dir: Path) -> tuple[str, ...]:
    """Rename run configs that cannot be read to `.bak`, so that a new one can be written."""
    broken = []
    for path in sorted((data_dir / "configs").glob("*.json")):
        try:
            load_config(path)
        except EngineError as error:
            if error.code == "format_too_new":
                continue
            logger.warning("%s is set aside: %s", path, error)
            try:
                keep_backup(path)
                path.unlink()
            except OSError as problem:
                logger.warning("%s could not be set aside: %s", path, problem)
                continue
            broken.append(path.name)
    return tuple(broken)


def repair_options() -> DownloadOptions:
    """Options for the person's data folder."""
    return DownloadOptions(load_settings().data_dir)
