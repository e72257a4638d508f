"""The take-over at a start: what the person reads, and what is brought in line."""

import json
from pathlib import Path

import pytest

from engine.core.calibration import Calibration, calibration_key_here, save_calibration
from engine.core.config import RunConfig
from engine.core.errors import ResourceError
from engine.core.language import Language
from engine.core.settings import Settings, save_settings
from installer import care
from installer.care import take_over, update_sentence
from installer.i18n.texts import Texts
from installer.update import Adoption, Outcome

TEXTS = Texts(Language.ENGLISH)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def adopts(monkeypatch: pytest.MonkeyPatch, outcome: Outcome, root: Path, reason: str = "") -> None:
    adoption = Adoption(outcome, root, "1.0", reason)
    monkeypatch.setattr(care, "adopt", lambda *_arguments, **_options: adoption)


@pytest.mark.parametrize("language", list(Language))
@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_has_its_sentence(outcome: Outcome, language: Language):
    adoption = Adoption(outcome, Path("/opt/one"), "1.0", "the kernels disagree")
    sentence = update_sentence(adoption, "2.0", Texts(language))
    is_silent = outcome in {Outcome.UNCHANGED, Outcome.FIRST}
    assert bool(sentence) is not is_silent
    if outcome is Outcome.KEPT_FORMER:
        assert all(word in sentence for word in ("2.0", "1.0", "/opt/one", "disagree"))


def test_a_version_that_does_not_work_is_an_error_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    adopts(monkeypatch, Outcome.FAILED, tmp_path, "no numpy")
    with pytest.raises(ResourceError, match="--repair"):
        take_over(TEXTS, tmp_path)


def test_the_former_version_is_the_one_to_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    adopts(monkeypatch, Outcome.KEPT_FORMER, tmp_path / "old", "no numpy")
    assert take_over(TEXTS, tmp_path, is_quiet=True) == tmp_path / "old"
    assert capsys.readouterr().out == ""


def test_an_update_takes_over_what_calibration_found_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: Path
):
    config = tmp_path / "run.json"
    config.write_text('{"format": 1}')
    data = home / "data"
    save_settings(Settings(data_dir=data, active_config=config))
    found = Calibration(measured_at="", settings={"threads": 3})
    save_calibration(data, calibration_key_here(RunConfig()), found)
    adopts(monkeypatch, Outcome.UPDATED, tmp_path)
    take_over(TEXTS, tmp_path)
    assert json.loads(config.read_text())["threads"] == 3
