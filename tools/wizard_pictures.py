"""Takes a picture of each page of the wizard, for the documentation and to be looked at.

    python tools/wizard_pictures.py                              # docs/images, all that is kept there
    python tools/wizard_pictures.py OUT --language zh --dark --suffix=-try
    QT_SCALE_FACTOR=2 python tools/wizard_pictures.py OUT --suffix=-200

The PC in the pictures is made up, and nothing is downloaded. Draws into memory unless
QT_QPA_PLATFORM says otherwise; ImageMagick's `convert` makes the files small where it is there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
MODEL = "qwen-iq3_xxs"
DATA_DIR = Path("D:\\Stratum")  # relative to a temporary folder, and shown as it is
FREE_BYTES = 912_000_000_000
FETCH_BYTES = (47_000_000_000, 28_800_000_000)


def main() -> int:
    """Take them; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", help="folder; default: what docs/ keeps")
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--suffix", default="", help="at the end of the files' names")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    if options.out is None:
        return _take_all()
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["STRATUM_HOME"] = str(Path(folder, "home"))
        _take(out, options.language, options.suffix, is_dark=options.dark)
        os.chdir(ROOT)
    return 0


def _take_all() -> int:
    """The kept ones, each set in a process of its own: the scale is read when Qt starts."""
    sets = (("-en", "1", ()), ("-zh", "1", ("--language", "zh", "--dark")), ("-en-200", "2", ()))
    for suffix, scale, more in sets:
        subprocess.run(
            [sys.executable, __file__, str(IMAGES), f"--suffix={suffix}", *more],
            env={**os.environ, "QT_SCALE_FACTOR": scale, "PYTHONPATH": str(ROOT)},
            check=True,
        )
    for path in IMAGES.glob("wizard-*-200.png"):  # of these, the ones with much on them
        if path.name[7] not in "2346":
            path.unlink()
    return 0


def _take(out: Path, language: str, suffix: str, *, is_dark: bool) -> None:
    from PySide6.QtTest import QTest  # noqa: PLC0415  # after the environment is set
    from PySide6.QtWidgets import QApplication  # noqa: PLC0415

    from engine.core.catalog_file import load_catalog  # noqa: PLC0415
    from engine.core.language import Language  # noqa: PLC0415
    from engine.core.settings import settings_path  # noqa: PLC0415
    from installer.choices import Choices  # noqa: PLC0415
    from installer.run_settings import run_config_path  # noqa: PLC0415
    from installer.steps import STATE_NAME, Installation, State, Step  # noqa: PLC0415
    from installer.wizard.look import dark_palette, set_up_look  # noqa: PLC0415
    from installer.wizard.pages import options as options_page  # noqa: PLC0415
    from installer.wizard.session import Doors, Session  # noqa: PLC0415
    from installer.wizard.window import WizardWindow  # noqa: PLC0415
    from tests.support.pc_profiles import card, pc  # noqa: PLC0415

    app = QApplication([])
    set_up_look(app)
    if is_dark:
        app.setPalette(dark_palette())
    options_page.free_bytes = lambda _folder: FREE_BYTES
    catalog = load_catalog()
    config = run_config_path(DATA_DIR, MODEL)
    _pretend_installed(config)
    graphics = card("NVIDIA GeForce RTX 5070", 12, (12, 0), per_s=672e9)
    seen = pc(62.7, cards=[graphics], system="Windows")
    doors = Doors(
        survey=lambda _folder: seen,
        make_job=_PretendJob,  # type: ignore[arg-type]  # what the page uses of it
        make_tuning=_PretendTuning,  # type: ignore[arg-type]  # the same
        can_tune=lambda: True,
    )
    chosen = Choices(language=Language(language), model_id=MODEL, data_dir=DATA_DIR)
    for number, step in enumerate(Step, start=1):
        is_after = step in (Step.TUNE, Step.DONE)
        licence = catalog.family_of(catalog.models[0]).licence.url
        choices = chosen.model_copy(update={"accepted_licence": licence if number > 5 else None})
        state = State(step=step, choices=choices, config=config if is_after else None)
        session = Session(
            Installation(catalog, state, settings_path().with_name(STATE_NAME)), doors
        )
        session.survey = seen if step is not Step.WELCOME else None
        session.recommend()
        window = WizardWindow(session)
        window.show()
        QTest.qWaitForWindowExposed(window)
        if step in (Step.DOWNLOAD, Step.TUNE):
            deadline = time.monotonic() + 10
            while not window.page.start.isVisible() and time.monotonic() < deadline:  # type: ignore[attr-defined]
                QTest.qWait(30)
            window.page.start.click()  # type: ignore[attr-defined]
        QTest.qWait(500)
        path = out / f"wizard-{number}-{step.value}{suffix}.png"
        window.grab().save(str(path))
        _make_small(path)
        window.page.leave()
        window.close_for_good()
        window.deleteLater()
    _take_care(out / f"care{suffix}.png", language)


def _take_care(path: Path, language: str) -> None:
    """The window to move, repair and go back."""
    from PySide6.QtTest import QTest  # noqa: PLC0415  # after the environment is set

    from engine.core.language import Language  # noqa: PLC0415
    from engine.core.settings import Settings, save_settings  # noqa: PLC0415
    from installer.i18n.texts import Texts  # noqa: PLC0415
    from installer.program import FormerProgram  # noqa: PLC0415
    from installer.wizard.care_window import CareDoors, CareWindow  # noqa: PLC0415

    save_settings(Settings(data_dir=DATA_DIR))
    former = FormerProgram(root=Path(), version="0.0.9")
    care = CareWindow(Texts(Language(language)), CareDoors(former_version=lambda: former))
    care.show()
    QTest.qWaitForWindowExposed(care)
    QTest.qWait(300)
    care.grab().save(str(path))
    _make_small(path)


def _pretend_installed(config: Path) -> None:
    """A folder that looks as if the model were there."""
    from engine.core.catalog import FileKind  # noqa: PLC0415
    from engine.core.files import write_json  # noqa: PLC0415
    from installer.download.installed import (  # noqa: PLC0415
        InstalledFile,
        InstalledModel,
        write_manifest,
    )

    write_json(config, {"format": 1})
    folder = DATA_DIR / "models" / MODEL
    folder.mkdir(parents=True, exist_ok=True)
    file = InstalledFile(kind=FileKind.MODEL, path=Path("m.gguf"), bytes=1, sha256="0" * 64)
    write_manifest(InstalledModel(id=MODEL, title=MODEL, revision="", files=(file,), folder=folder))


class _PretendJob:
    """A download that has come a third of its way."""

    def __init__(self, *_arguments: object) -> None:
        self._is_over = False

    def plan(self, _report: object = None) -> object:
        """The plan of the model's two files."""
        from engine.core.catalog import FileKind  # noqa: PLC0415
        from engine.core.catalog_file import find_model, load_catalog  # noqa: PLC0415
        from installer.download.plan import Action, DownloadPlan, PlannedFile  # noqa: PLC0415

        model = find_model(load_catalog(), MODEL)
        folder = DATA_DIR / "models" / MODEL
        files = tuple(
            PlannedFile(
                FileKind.MODEL, file.name, folder / file.name, Action.FETCH, size, "0" * 64, size
            )
            for file, size in zip(model.files, FETCH_BYTES, strict=True)
        )
        return DownloadPlan(model, folder, files, sum(FETCH_BYTES), FREE_BYTES)

    def run(self, report: Callable[[object], None]) -> object:
        """Report once, then stand still."""
        from engine.core.catalog_file import find_model, load_catalog  # noqa: PLC0415
        from installer.download.progress import DownloadProgress, Phase  # noqa: PLC0415
        from installer.errors import StoppedError  # noqa: PLC0415

        name = find_model(load_catalog(), MODEL).files[0].name
        done, total = 28_100_000_000, sum(FETCH_BYTES)
        report(
            DownloadProgress(
                Phase.DOWNLOADING, name, done, FETCH_BYTES[0], done, total, 46.5e6, 1026.0
            )
        )
        while not self._is_over:
            time.sleep(0.05)
        raise StoppedError("It was stopped.")

    def stop(self) -> None:
        """End it."""
        self._is_over = True


class _PretendTuning:
    """A measurement in its middle."""

    def __init__(self, _config: Path) -> None:
        self._is_over = False

    def run(self, report: Callable[[object], None]) -> Mapping[str, object]:
        """Report once, then stand still."""
        from installer.errors import StoppedError  # noqa: PLC0415
        from installer.tune import TuneProgress  # noqa: PLC0415

        report(TuneProgress(done=5, total=11, name="threads", line="threads 6: 9.41 tokens/s"))
        while not self._is_over:
            time.sleep(0.05)
        raise StoppedError("It was stopped.")

    def stop(self) -> None:
        """End it."""
        self._is_over = True


def _make_small(path: Path) -> None:
    """A palette of few colours: 60 kB at most."""
    convert = shutil.which("convert")
    if convert is None:
        return
    for colours in ("48", "24", "12"):
        command = [convert, str(path), "+dither", "-colors", colours, f"PNG8:{path}"]
        subprocess.run(command, check=True)
        if path.stat().st_size <= 60_000:
            return


if __name__ == "__main__":
    sys.exit(main())
