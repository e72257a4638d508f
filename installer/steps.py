"""The steps of an installation: which there are, which comes next, and where a later start goes on.

    installation = Installation.open(load_catalog())
    installation.choose(installation.choices.model_copy(update={"model_id": "tiny"}))
    while (problem := installation.problem) is None: installation.next()

The wizard and the headless installer share this; it knows no window and prints nothing. Every change
is written to `installation.json` beside the settings, so closing at any moment loses nothing: the
download has its own record of what it has fetched.
"""

from __future__ import annotations

import enum
import logging
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.core.catalog import Catalog, CatalogModel, Family
from engine.core.catalog_file import find_model
from engine.core.errors import ConfigError
from engine.core.files import keep_backup, read_json, write_json
from engine.core.keep_awake import system_keep_awake
from engine.core.note import Note
from engine.core.setting_paths import UsablePath
from engine.core.settings import load_settings, settings_path
from engine.core.survey import Survey
from installer.card_check import aftermath
from installer.choices import Choices
from installer.download.installed import InstalledModel, read_manifest
from installer.download.options import DownloadOptions
from installer.run_settings import remember_installation, write_run_config

logger = logging.getLogger(__name__)

STATE_FORMAT: Literal[1] = 1
STATE_NAME = "installation.json"


class Step(enum.StrEnum):
    """A step; one page of the wizard."""

    WELCOME = "welcome"
    PC = "pc"
    MODEL = "model"
    OPTIONS = "options"
    LICENCE = "licence"
    DOWNLOAD = "download"
    TUNE = "tune"
    DONE = "done"


class Tuning(enum.StrEnum):
    """How far the measurement of settings has come."""

    NOT_RUN = "not_run"
    SKIPPED = "skipped"
    DONE = "done"
    FAILED = "failed"


class Problem(enum.StrEnum):
    """Why a step cannot be left forwards yet."""

    NO_MODEL = "no_model"
    LICENCE = "licence_not_accepted"
    NOT_PREPARED = "not_prepared"
    NOT_TUNED = "not_tuned"


class State(BaseModel):
    """What `installation.json` holds. Unknown keys are kept.

    Attributes:
        step: where the person is.
        is_download_started: the download was begun, so a later start goes on by itself.
        config: the run config of the model that is ready; None while none is.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    format: Literal[1] = STATE_FORMAT
    step: Step = Step.WELCOME
    choices: Choices = Choices()
    is_download_started: bool = False
    config: UsablePath | None = None
    tuning: Tuning = Tuning.NOT_RUN


class Installation:
    """One installation from the first step to the last."""

    def __init__(self, catalog: Catalog, state: State, path: Path) -> None:
        self.catalog = catalog
        self._state = state
        self._path = path

    @classmethod
    def open(cls, catalog: Catalog, path: Path | None = None) -> Installation:
        """Go on where the last start ended, or begin.

        Raises:
            ConfigError: the record was written by a newer version.
        """
        path = path or settings_path().with_name(STATE_NAME)
        installation = cls(catalog, _read_state(path), path)
        installation._resume()
        return installation

    # -- what is ---------------------------------------------------------------------------------

    @property
    def step(self) -> Step:
        """The step that the person is at."""
        return self._state.step

    @property
    def choices(self) -> Choices:
        """What was chosen so far."""
        return self._state.choices

    @property
    def tuning(self) -> Tuning:
        """How far tuning has come."""
        return self._state.tuning

    @property
    def is_download_started(self) -> bool:
        """Whether the download was begun in this or an earlier start."""
        return self._state.is_download_started

    @property
    def config_path(self) -> Path | None:
        """The run config of the model that is ready."""
        return self._state.config

    @property
    def is_finished(self) -> bool:
        """Whether all was done, and the model is still there."""
        return self.step is Step.DONE and self._config_exists()

    @property
    def model(self) -> CatalogModel | None:
        """The chosen model."""
        model_id = self.choices.model_id
        return self.catalog.find(model_id) if model_id is not None else None

    @property
    def family(self) -> Family | None:
        """The chosen model's family."""
        return self.catalog.family_of(self.model) if self.model is not None else None

    @property
    def data_dir(self) -> Path:
        """The chosen data folder, else the one of the settings."""
        return self.choices.data_dir or load_settings().data_dir

    @property
    def asks_for_licence(self) -> bool:
        """Whether the chosen model has a licence to accept."""
        return self.family is not None and self.family.licence.must_accept

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of this installation, in order."""
        if self.model is not None and not self.asks_for_licence:
            return tuple(step for step in Step if step is not Step.LICENCE)
        return tuple(Step)

    @property
    def problem(self) -> Problem | None:
        """What this step still lacks."""
        if self.step is Step.MODEL and self.model is None:
            return Problem.NO_MODEL
        if self.step is Step.LICENCE and not self._is_licence_accepted():
            return Problem.LICENCE
        if self.step is Step.DOWNLOAD and not self._config_exists():
            return Problem.NOT_PREPARED
        if self.step is Step.TUNE and self.tuning is Tuning.NOT_RUN:
            return Problem.NOT_TUNED
        return None

    # -- what changes it ---------------------------------------------------------------------------

    def choose(self, choices: Choices) -> None:
        """Take over other choices; what no longer fits them is to be done again.

        Raises:
            InputError: there is no such model.
        """
        before = self.choices
        if choices == before:
            return
        if choices.model_id is not None:
            find_model(self.catalog, choices.model_id)
        changes: dict[str, object] = {"choices": choices}
        if (choices.model_id, choices.data_dir) != (before.model_id, before.data_dir):
            changes |= {"config": None, "tuning": Tuning.NOT_RUN, "is_download_started": False}
        elif (choices.context, choices.effort) != (before.context, before.effort):
            # The files stay; the run config is written again by the next `prepared`.
            changes |= {"config": None, "tuning": Tuning.NOT_RUN}
        self._change(changes)

    def next(self) -> Step:
        """Go to the next step; stays when the step lacks something."""
        if self.problem is None and self.step is not Step.DONE:
            self._go(self.steps[self.steps.index(self.step) + 1])
        return self.step

    def back(self) -> Step:
        """Go to the step before; stays at the first."""
        earlier = [step for step in self.steps if _number(step) < _number(self.step)]
        if earlier:
            self._go(earlier[-1])
        return self.step

    def go_back_to(self, step: Step) -> Step:
        """Go back to a step, such as the options after a full disk."""
        if _number(step) < _number(self.step):
            self._go(step)
        return self.step

    def begin_again(self) -> None:
        """Install another model: the choices stay as suggestions."""
        self._change(
            {
                "step": Step.PC,
                "config": None,
                "tuning": Tuning.NOT_RUN,
                "is_download_started": False,
            }
        )

    def accept_licence(self, is_accepted: bool) -> None:  # a check box's value
        """Note whether the person accepts the chosen model's licence."""
        licence = self.family.licence if self.family is not None else None
        url = licence.url if licence is not None and is_accepted else None
        self.choose(self.choices.model_copy(update={"accepted_licence": url}))

    def download_options(
        self, token: str | None = None, proxy: str | None = None
    ) -> DownloadOptions:
        """How the chosen model is downloaded; secrets are given each time and not kept."""
        choices = self.choices
        limit = choices.max_mb_per_s
        return DownloadOptions(
            data_dir=self.data_dir,
            endpoint=choices.mirror,
            token=token,
            proxy=proxy,
            search=choices.search,
            with_draft_head=choices.has_draft_head,
            max_bytes_per_s=limit * 1e6 if limit is not None else None,
            keep_awake=system_keep_awake(),
        )

    def download_started(self) -> None:
        """Note that the download was begun."""
        self._change({"is_download_started": True})

    def download_cancelled(self) -> None:
        """Note that the person took the download back."""
        self._change({"is_download_started": False})

    def prepared(self, installed: InstalledModel) -> Path:
        """Write run config and settings for a model whose files are there; the config's path.

        Raises:
            EngineError: a file cannot be written.
        """
        model = self.catalog.find(installed.id)
        if model is None:
            raise ValueError(f"{installed.id} is not in the catalogue")
        path = write_run_config(self.catalog, model, installed, self.choices, self.data_dir)
        remember_installation(self.choices, self.data_dir, path)
        self._change({"config": path})
        return path

    def tuned(self, tuning: Tuning) -> None:
        """Note how tuning ended."""
        self._change({"tuning": tuning})

    def adapt_to(self, seen: Survey) -> tuple[Note, ...]:
        """Change what was chosen for a graphics card that failed its check; what to tell the person.

        Args:
            seen: the PC with what is known against its cards.

        Raises:
            EngineError: the run config cannot be written.
        """
        model, config = self.model, self.config_path
        if model is None or config is None:
            return ()
        after = aftermath(seen, self.catalog, model, self.choices.context)
        installed = read_manifest(self.data_dir / "models" / model.id)
        if after.context is not None and installed is not None:
            choices = self.choices.model_copy(update={"context": after.context})
            path = write_run_config(self.catalog, model, installed, choices, self.data_dir)
            self._change({"choices": choices, "config": path})
        return after.notes

    def read_again(self) -> None:
        """Take over what another part has changed in the record, such as a moved data folder.

        Raises:
            ConfigError: the record was written by a newer version.
        """
        self._state = _read_state(self._path)
        self._resume()

    # -- inner -------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Step back to where something that was there has gone meanwhile."""
        if self.choices.model_id is not None and self.model is None:  # of an older catalogue
            self.choose(self.choices.model_copy(update={"model_id": None}))
        step = self.step
        if _number(step) > _number(Step.MODEL) and self.model is None:
            step = Step.MODEL
        elif step is Step.LICENCE and not self.asks_for_licence:
            step = Step.OPTIONS
        elif _number(step) > _number(Step.DOWNLOAD) and not self._config_exists():
            step = Step.DOWNLOAD
        elif (
            _number(step) > _number(Step.LICENCE)
            and self.asks_for_licence
            and not self._is_licence_accepted()
        ):
            step = Step.LICENCE
        if step is not self.step:
            logger.info("the installation goes on at %s, not at %s", step, self.step)
            self._go(step)

    def _is_licence_accepted(self) -> bool:
        family = self.family
        return family is not None and (
            not family.licence.must_accept or self.choices.accepted_licence == family.licence.url
        )

    def _config_exists(self) -> bool:
        config, model = self._state.config, self.choices.model_id
        if config is None or model is None or not config.is_file():
            return False
        return read_manifest(self.data_dir / "models" / model) is not None

    def _go(self, step: Step) -> None:
        self._change({"step": step})

    def _change(self, changes: dict[str, object]) -> None:
        self._state = self._state.model_copy(update=changes)
        write_json(self._path, self._state.model_dump(mode="json"))


def _number(step: Step) -> int:
    return tuple(Step).index(step)


def _read_state(path: Path) -> State:
    """The saved state; a broken record is set aside, since everything in it can be chosen again.

    Raises:
        ConfigError: it was written by a newer version.
    """
    if not path.exists():
        return State()
    try:
        return State.model_validate(read_json(path, STATE_FORMAT))
    except ConfigError as error:
        if error.code == "format_too_new":
            raise
        reason = str(error)
    except ValidationError as error:
        reason = f"{error.error_count()} values cannot be used"
    logger.warning("%s is not used (%s); it is kept as .bak", path, reason)
    keep_backup(path)
    return State()
