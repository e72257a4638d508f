"""A wizard whose ways out of the window lead to a made-up PC, the fake hub, and nothing to start."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.core.catalog import Catalog
from engine.core.catalog_file import load_catalog
from engine.core.keep_awake import NoKeepAwake
from engine.core.language import Language
from installer.download.job import DownloadJob
from installer.download.options import DownloadOptions, RetryPolicy
from installer.engine_run import RunProgress
from installer.launch import Started
from installer.steps import Installation
from installer.wizard.session import Doors, Session
from tests.support.pc_profiles import pc

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from installer.wizard.window import WizardWindow

try:
    import PySide6.QtWidgets  # noqa: F401  # whether it can be loaded
except ImportError:
    # They import Qt; `test_qt_is_there.py` says why they are missing.
    collect_ignore_glob = ["test_[!q]*.py"]

PATIENCE_MS = 60_000

OpenWizard = Callable[..., "WizardWindow"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings and data of nobody else, below a name with other scripts."""
    path = tmp_path / "Jürgen 測試 home"
    monkeypatch.setenv("STRATUM_HOME", str(path))
    return path


def impatient_job(catalog: Catalog, model_id: str, options: DownloadOptions) -> DownloadJob:
    """A download that gives up soon."""
    retry = RetryPolicy(max_attempts=2, first_wait_s=0.01, longest_wait_s=0.05, stall_s=60)
    options = dataclasses.replace(options, retry=retry, keep_awake=NoKeepAwake())
    return DownloadJob(catalog, model_id, options)


def pretend_start(log: Path) -> Started:
    """A process that ends at once, with an address where nobody is."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return Started("http://127.0.0.1:9", log, process)


class ScriptedCheck:
    """A check of cards that ends with a report; by default of a PC without any."""

    def __init__(self, *cards: dict[str, object]) -> None:
        self.cards = cards

    def run(self, progress: Callable[[RunProgress], None]) -> dict[str, object]:
        progress(RunProgress(done=1, total=2, name="RTX", line="kernels"))
        return {"cards": list(self.cards)}

    def stop(self) -> None:
        """Ends at once anyway."""


@pytest.fixture
def doors() -> Doors:
    """Ways out for tests."""
    return Doors(
        survey=lambda _folder: pc(62.7),
        make_job=impatient_job,
        can_tune=lambda: False,
        make_card_check=ScriptedCheck,
        start=pretend_start,
        wait_until_ready=lambda _started, _timeout_s: True,
        has_app=lambda: False,
    )


@pytest.fixture
def open_wizard(qtbot: QtBot, doors: Doors) -> OpenWizard:
    """Opens a wizard as a start of the program does; may be called again for the next start."""

    from installer.wizard.window import WizardWindow  # noqa: PLC0415  # where there is Qt

    def open_one(
        catalog: Catalog | None = None,
        language: Language = Language.ENGLISH,
        **changes: Any,
    ) -> WizardWindow:
        ways = dataclasses.replace(doors, **changes)
        installation = Installation.open(catalog or load_catalog())
        if installation.choices.language is None:
            choices = installation.choices.model_copy(update={"language": language})
            installation.choose(choices)
        window = WizardWindow(Session(installation, ways))
        qtbot.addWidget(window, before_close_func=lambda w: w.page.leave())
        window.show()
        qtbot.waitExposed(window)
        return window

    return open_one
