"""The steps of an installation: order, what holds a step, and going on after a closed window."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.core.catalog import Catalog
from engine.core.catalog_file import load_catalog
from engine.core.config import Effort
from engine.core.config_file import load_config
from engine.core.errors import ConfigError, InputError
from engine.core.settings import load_settings
from installer.choices import Choices
from installer.download.job import DownloadJob
from installer.steps import Installation, Problem, Step, Tuning

LARGE = "qwen-iq2_xs"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "Jürgen 測試 home"
    monkeypatch.setenv("STRATUM_HOME", str(path))
    return path


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture
def installation(home: Path, catalog: Catalog) -> Installation:
    return Installation.open(catalog)


def choose(installation: Installation, **changes: object) -> None:
    installation.choose(installation.choices.model_copy(update=changes))


def go_to(installation: Installation, step: Step) -> None:
    while installation.step is not step:
        before = installation.step
        assert installation.next() is not before, installation.problem


def prepare(installation: Installation) -> Path:
    """Install the chosen model as the download page does."""
    model_id = installation.choices.model_id
    assert model_id is not None
    job = DownloadJob(installation.catalog, model_id, installation.download_options())
    return installation.prepared(job.run())


def test_the_bundled_model_has_no_licence_step_to_accept(installation):
    choose(installation, model_id="tiny")
    assert Step.LICENCE not in installation.steps
    choose(installation, model_id=LARGE)
    assert Step.LICENCE in installation.steps


def test_a_step_that_lacks_something_cannot_be_left(installation):
    go_to(installation, Step.MODEL)
    assert installation.problem is Problem.NO_MODEL
    assert installation.next() is Step.MODEL
    choose(installation, model_id=LARGE)
    go_to(installation, Step.LICENCE)
    assert installation.problem is Problem.LICENCE
    assert installation.next() is Step.LICENCE
    installation.accept_licence(is_accepted=True)
    assert installation.next() is Step.DOWNLOAD
    assert installation.problem is Problem.NOT_PREPARED
    assert installation.next() is Step.DOWNLOAD


def test_the_bundled_model_is_installed_without_a_network(installation, home, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    choose(installation, model_id="tiny", context=2048, effort=Effort.LOW)
    go_to(installation, Step.DOWNLOAD)
    path = prepare(installation)
    config = load_config(path)
    assert config.model_path.name == "stratum-tiny.gguf"
    assert (config.context, config.default_reasoning_effort) == (2048, Effort.LOW)
    settings = load_settings()
    assert settings.active_config == path
    assert settings.data_dir == home / "data"
    assert installation.next() is Step.TUNE
    installation.tuned(Tuning.SKIPPED)
    assert installation.next() is Step.DONE
    assert installation.is_finished


def test_start_at_login_is_off_unless_chosen(installation):
    choose(installation, model_id="tiny")
    prepare(installation)
    assert (load_settings().model_extra or {})["starts_at_login"] is False


def test_another_start_goes_on_at_the_same_step_with_the_same_choices(installation, catalog):
    choose(installation, model_id=LARGE, is_for_agents=True, mirror="https://mirror.example")
    go_to(installation, Step.LICENCE)
    again = Installation.open(catalog)
    assert again.step is Step.LICENCE
    assert again.choices == installation.choices
    assert again.back() is Step.OPTIONS


def test_a_started_download_is_remembered(installation, catalog):
    choose(installation, model_id="tiny")
    go_to(installation, Step.DOWNLOAD)
    installation.download_started()
    assert Installation.open(catalog).is_download_started
    choose(installation, model_id=LARGE)
    assert not Installation.open(catalog).is_download_started


def test_a_model_that_was_deleted_is_to_be_downloaded_again(installation, catalog):
    choose(installation, model_id="tiny")
    go_to(installation, Step.DOWNLOAD)
    prepare(installation)
    installation.next()
    (installation.data_dir / "models" / "tiny" / "model.json").unlink()
    again = Installation.open(catalog)
    assert again.step is Step.DOWNLOAD
    assert not again.is_finished


def test_a_model_that_is_no_longer_in_the_catalogue_is_to_be_chosen_again(installation, home):
    choose(installation, model_id=LARGE)
    go_to(installation, Step.LICENCE)
    whole = load_catalog()
    fewer = whole.model_copy(update={"models": tuple(m for m in whole.models if m.id != LARGE)})
    again = Installation.open(fewer)
    assert again.step is Step.MODEL
    assert again.choices.model_id is None


def test_a_licence_of_another_model_is_not_this_ones(installation):
    choose(installation, model_id=LARGE)
    installation.accept_licence(is_accepted=True)
    choose(installation, model_id="swift-iq2_xs")
    go_to(installation, Step.LICENCE)
    assert installation.problem is Problem.LICENCE


def test_another_model_or_folder_undoes_what_was_prepared(installation, tmp_path):
    choose(installation, model_id="tiny")
    prepare(installation)
    choose(installation, data_dir=tmp_path / "other")
    assert installation.config_path is None
    assert installation.tuning is Tuning.NOT_RUN


def test_an_unknown_model_is_refused_with_the_list(installation):
    with pytest.raises(InputError, match="Choose one of"):
        choose(installation, model_id="nonsense")


def test_settings_made_by_hand_survive_another_installation(installation):
    choose(installation, model_id="tiny", context=2048)
    path = prepare(installation)
    content = json.loads(path.read_text("utf-8"))
    content |= {"port": 9090, "sampling": {"temperature": 0.3}, "of_a_later_version": 1}
    path.write_text(json.dumps(content), "utf-8")
    choose(installation, context=4096)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.core.config_file.logger.disabled", True)
        prepare(installation)
    changed = json.loads(path.read_text("utf-8"))
    assert changed["context"] == 4096
    assert (changed["port"], changed["sampling"]) == (9090, {"temperature": 0.3})
    assert changed["of_a_later_version"] == 1
    assert json.loads(path.with_name("tiny.json.bak").read_text("utf-8"))["context"] == 2048


def test_the_run_config_holds_only_what_was_chosen(installation):
    choose(installation, model_id="tiny", context=2048)
    content = json.loads(prepare(installation).read_text("utf-8"))
    assert set(content) == {"format", "model", "model_id", "context"}


def test_a_broken_record_is_kept_aside_and_begun_anew(installation, home, catalog, caplog):
    home.mkdir(parents=True)
    record = home / "installation.json"
    record.write_text('{"format": 1, "step": "nowhere"}', "utf-8")
    assert Installation.open(catalog).step is Step.WELCOME
    assert (home / "installation.json.bak").exists()
    assert "is not used" in caplog.text


def test_a_record_of_a_newer_version_is_refused_with_a_sentence(home, catalog):
    home.mkdir(parents=True)
    (home / "installation.json").write_text('{"format": 99}', "utf-8")
    with pytest.raises(ConfigError, match="newer version"):
        Installation.open(catalog)


def test_unknown_keys_of_the_record_are_kept(installation, home, catalog):
    choose(installation, model_id="tiny")
    record = home / "installation.json"
    content = json.loads(record.read_text("utf-8"))
    content["later"] = True
    content["choices"]["later_choice"] = 7
    record.write_text(json.dumps(content), "utf-8")
    again = Installation.open(catalog)
    again.next()
    kept = json.loads(record.read_text("utf-8"))
    assert kept["later"] is True
    assert kept["choices"]["later_choice"] == 7


def test_secrets_are_never_written(installation, home):
    choose(installation, model_id="tiny")
    options = installation.download_options(token="hf_secret", proxy="http://me:pass@proxy:1")
    assert (options.token, options.proxy) == ("hf_secret", "http://me:pass@proxy:1")
    written = "".join(p.read_text("utf-8") for p in home.rglob("*.json"))
    assert "hf_secret" not in written
    assert "me:pass" not in written


def test_choices_know_no_secret():
    assert not {"token", "proxy", "password"} & set(Choices.model_fields)
