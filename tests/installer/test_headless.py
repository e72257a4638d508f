"""The installation in a terminal: real processes against the fake hub."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.card_record import CardRecord, keep_record, read_records, record_key
from engine.core.catalog_file import PROGRAM_DIR, load_catalog
from engine.core.config_file import load_config
from engine.core.emulated_cards import EMULATED_DRIVER, EMULATED_VARIABLE
from engine.core.gpu import probe_gpus
from engine.core.settings import load_settings
from installer.__main__ import main
from installer.download.part_file import part_path
from installer.steps import Installation
from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import BytesContent
from tests.fake_hub.faults import Fault, Kind, Where
from tests.support.pc_profiles import pc

ROOT = Path(__file__).resolve().parents[2]
DATA = random.Random(5).randbytes(300_000)  # noqa: S311  # test data

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "Jürgen 測試 home"
    monkeypatch.setenv("STRATUM_HOME", str(path))
    monkeypatch.setenv("LANGUAGE", "en")
    # In this process: a self-test of the engine for each test would take too long.
    monkeypatch.setattr("installer.care.take_over", lambda *_arguments, **_names: PROGRAM_DIR)
    return path


@pytest.fixture
def catalog(hub, monkeypatch):
    """The installer of this process knows one small model on the fake hub."""
    found = catalog_for(hub, {"m": {"model.gguf": BytesContent(DATA)}})
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setattr("installer.__main__.load_catalog", lambda: found)
    monkeypatch.setattr("installer.headless.is_tuning_available", lambda: False)
    monkeypatch.setattr("installer.check.survey", lambda *_arguments: pc(62.7))
    return found


@pytest.fixture
def run(home: Path) -> Run:
    """Runs `python -m installer` as setup does, without anybody at the keyboard."""

    def run_one(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "installer", *arguments],
            cwd=ROOT,
            env={**os.environ, "STRATUM_HOME": str(home), "PYTHONUTF8": "1", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )

    return run_one


def arguments(*more: str) -> list[str]:
    return ["--headless", "--yes", "--no-start", "--context", "2048", *more]


def test_the_bundled_model_is_installed_in_one_command(run, home):
    done = run(
        "--headless", "--yes", "--no-start", "--model", "tiny", HF_ENDPOINT="http://127.0.0.1:9"
    )
    assert done.returncode == 0, done.stderr
    config = load_config(home / "data" / "configs" / "tiny.json")
    assert config.model_path.name == "stratum-tiny.gguf"
    assert load_settings().active_config == home / "data" / "configs" / "tiny.json"
    assert "-m engine serve --config" in done.stdout


def test_the_card_is_checked_and_its_result_said(run, home):
    card = {EMULATED_VARIABLE: "1500"}
    done = run("--headless", "--yes", "--no-start", "--model", "tiny", **card)
    assert done.returncode == 0, done.stderr
    assert "Emulated card 0 computes rightly" in done.stdout
    (record,) = read_records(home / "data")
    assert record.is_passed


def test_a_card_that_failed_before_is_said_and_does_not_stop_the_installation(
    run, home, monkeypatch
):
    monkeypatch.setenv(EMULATED_VARIABLE, "1500")
    (card,) = probe_gpus().cards
    params = {"card": card.name, "seconds": 120}
    record = CardRecord(
        key=record_key(card, EMULATED_DRIVER),
        card=card.name,
        is_passed=False,
        code="card_hangs",
        params=params,
        sentence="It hangs.",
    )
    keep_record(home / "data", record)
    done = run("--json", "--yes", "--model", "tiny")
    report = json.loads(done.stdout)
    assert report["ok"] is True
    (result,) = report["cards"]
    assert result["is_passed"] is False
    assert result["note"] == {"code": "card_hangs", "params": params}


def test_json_is_one_object_and_nothing_else(run, home):
    done = run("--json", "--yes", "--model", "tiny", "--context", "2048")
    report = json.loads(done.stdout)
    assert report["ok"] is True
    assert report["model"] == "tiny"
    assert Path(report["config"]).exists()
    assert report["start"][-1] == report["config"]
    for line in done.stderr.splitlines():
        assert json.loads(line)["event"]


def test_without_yes_and_without_a_terminal_nothing_is_installed(run, home):
    done = run("--headless", "--no-start", "--model", "tiny")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert not (home / "data" / "configs").exists()


def test_an_unknown_model_is_refused_with_the_list(run):
    done = run("--headless", "--yes", "--model", "nonsense")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "qwen-iq2_xs" in done.stderr


def test_an_error_as_json_has_code_and_values(run):
    done = run("--json", "--yes", "--model", "nonsense")
    report = json.loads(done.stdout)
    assert done.returncode == 2
    assert (report["ok"], report["code"]) == (False, "model_unknown")
    assert report["params"]["model"] == "nonsense"


def test_errors_speak_the_systems_language(run):
    done = run("--headless", "--yes", "--model", "nonsense", LANGUAGE="zh_CN")
    assert "没有模型 nonsense" in done.stderr


def test_without_a_screen_the_terminal_takes_over(run):
    done = run("--model", "tiny", "--no-start", DISPLAY="", WAYLAND_DISPLAY="", QT_QPA_PLATFORM="")
    assert "No window can be opened here" in done.stdout
    assert done.returncode == 2  # nobody can be asked


def test_a_model_of_the_hub_is_downloaded_and_its_config_written(home, hub, catalog, capsys):
    assert main(arguments("--model", "m")) == 0
    config = load_config(home / "data" / "configs" / "m.json")
    assert config.model_path.read_bytes() == DATA
    assert config.context == 2048
    assert config.sampling.temperature == 1.0
    said = capsys.readouterr().out
    assert "MIT License" in said  # what --yes accepts is said
    assert Installation.open(catalog).is_finished


def test_the_data_folder_of_the_command_line_is_kept(home, hub, catalog, tmp_path):
    elsewhere = tmp_path / "other drive"
    assert main(arguments("--model", "m", "--data-dir", str(elsewhere))) == 0
    assert (elsewhere / "models" / "m" / "model.gguf").exists()
    assert load_settings().data_dir == elsewhere


def test_a_second_run_fetches_nothing_again(home, hub, catalog):
    assert main(arguments("--model", "m")) == 0
    before = hub.sent_bytes
    assert main(arguments("--model", "m")) == 0
    assert hub.sent_bytes == before


def test_a_broken_line_ends_with_a_sentence_and_the_next_run_goes_on(home, hub, catalog, capsys):
    hub.faults.add(Fault(Kind.CUT, after_bytes=100_000))
    hub.faults.add(Fault(Kind.STATUS, Where.LOCATION, status=404, times=-1, skip=1))
    assert main(arguments("--model", "m")) == 1
    assert capsys.readouterr().err.count("installer: ") == 1
    hub.faults.clear()
    assert main(arguments("--model", "m")) == 0
    assert any(r.range not in (None, "bytes=0-") for r in hub.byte_requests)


def test_the_next_start_goes_on_with_the_chosen_model(home, hub, catalog):
    hub.faults.add(Fault(Kind.STATUS, Where.LOCATION, status=404, times=-1))
    assert main(arguments("--model", "m")) == 1
    hub.faults.clear()
    assert main(["--headless", "--yes", "--no-start"]) == 0
    assert (home / "data" / "configs" / "m.json").exists()


def test_an_interrupted_download_keeps_its_part_and_says_so(
    home, hub, catalog, monkeypatch, capsys
):
    hub.bytes_per_s = 200_000.0

    def interrupt(*_arguments: object) -> None:
        if hub.sent_bytes > 60_000:
            raise KeyboardInterrupt

    monkeypatch.setattr("installer.terminal.TerminalProgress.show", interrupt)
    assert main(arguments("--model", "m")) == 130
    assert part_path(home / "data" / "models" / "m" / "model.gguf").stat().st_size > 0
    assert "start again to go on" in capsys.readouterr().err


def test_progress_without_a_terminal_is_lines_now_and_then(home, hub, catalog, capsys):
    assert main(arguments("--model", "m")) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any("model.gguf" in line for line in lines)
    assert len(lines) < 12


def test_calibrate_before_anything_is_installed_says_what_to_do(home, capsys):
    assert main(["--calibrate", "--headless"]) == 2
    assert "Nothing is installed yet" in capsys.readouterr().err


def test_calibrate_measures_what_is_installed(home, hub, catalog, monkeypatch, capsys):
    assert main(arguments("--model", "tiny")) == 0
    asked = []

    class Scripted:
        def __init__(self, config: Path) -> None:
            asked.append(config)

        def run(self, _progress: object) -> dict[str, object]:
            return {"settings": {"threads": 3}, "findings": []}

    monkeypatch.setattr("installer.headless.TuneRun", Scripted)
    monkeypatch.setattr("installer.headless.is_tuning_available", lambda: True)
    capsys.readouterr()
    assert main(["--calibrate", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert asked == [home / "data" / "configs" / "tiny.json"]
    assert (report["settings"], report["tuning"]) == ({"threads": 3}, "done")


def test_a_measurement_that_fails_does_not_undo_the_installation(
    home, hub, catalog, monkeypatch, capsys
):
    from installer.tune import TuneError  # noqa: PLC0415  # only here

    class Failing:
        def __init__(self, _config: Path) -> None:
            pass

        def run(self, _progress: object) -> dict[str, object]:
            raise TuneError("It broke.", params={"reason": "it broke"})

    monkeypatch.setattr("installer.headless.TuneRun", Failing)
    monkeypatch.setattr("installer.headless.is_tuning_available", lambda: True)
    assert main(arguments("--model", "m")) == 0
    assert "It broke." in capsys.readouterr().out
    assert Installation.open(catalog).is_finished


def test_a_mistake_in_models_json_is_one_sentence(home, monkeypatch, capsys, tmp_path):
    broken = tmp_path / "models.json"
    broken.write_text('{"format": 1}', "utf-8")
    monkeypatch.setattr("installer.__main__.load_catalog", lambda: load_catalog(broken))
    assert main(arguments()) == 2
    said = capsys.readouterr().err
    assert "models.json has a mistake" in said
    assert said.count("\n") == 1


def test_a_fault_of_ours_is_a_sentence_and_a_traceback_in_the_log(home, monkeypatch, capsys):
    def fail() -> None:
        raise ZeroDivisionError("never")

    monkeypatch.setattr("installer.__main__.load_catalog", fail)
    assert main(arguments()) == 1
    said = capsys.readouterr().err
    assert "unexpected" in said
    assert "Traceback" not in said
    assert "ZeroDivisionError" in (home / "logs" / "installer.log").read_text("utf-8")


def test_a_finished_installation_is_started_at_once(home, hub, catalog, monkeypatch):
    assert main(arguments("--model", "tiny")) == 0
    started = []  # the server, also where there is an app: a terminal is where somebody wants it
    monkeypatch.setattr("os.execve", lambda *call: started.append(call[1]))
    main(["--headless", "--yes"])
    assert started[0][-2:] == ["--config", str(home / "data" / "configs" / "tiny.json")]


@pytest.mark.parametrize(("words", "is_started"), [((), True), (("--no-start",), False)])
def test_the_former_version_is_started_only_where_a_start_is_wanted(
    home, monkeypatch, words: tuple[str, ...], is_started: bool
):
    started = []
    monkeypatch.setattr("installer.care.take_over", lambda *_, **__: home / "former")
    monkeypatch.setattr("installer.care.start_former", started.append)
    assert main(["--headless", "--yes", "--model", "tiny", *words]) == 0
    assert started == [home / "former"] * is_started


def test_help_names_every_option(run):
    done = run("--help")
    care = ("--repair", "--move-data", "--roll-back", "--care", "--uninstall")
    for option in ("--check", "--calibrate", *care, "--yes", "--no-start"):
        assert option in done.stdout


def test_an_error_before_the_window_is_shown_where_there_is_no_terminal(
    home, monkeypatch, tmp_path, capsys
):
    pytest.importorskip("PySide6.QtWidgets", exc_type=ImportError)
    shown = []
    broken = tmp_path / "models.json"
    broken.write_text("{}", "utf-8")
    monkeypatch.setattr("installer.__main__.load_catalog", lambda: load_catalog(broken))
    monkeypatch.setattr("installer.__main__._why_no_window", lambda: "")
    monkeypatch.setattr("installer.wizard.app.show_error", lambda *words: shown.append(words))
    assert main([]) == 2
    assert "models.json has a mistake" in shown[0][1]
    assert main(["--headless"]) == 2
    assert len(shown) == 1


def test_at_login_nothing_is_started_that_is_not_installed(home, monkeypatch):
    monkeypatch.setattr("installer.launch.start", lambda *_, **__: pytest.fail("started"))
    assert main(["--at-login"]) == 0


def test_at_login_what_is_installed_is_started_without_its_page(home, hub, catalog, monkeypatch):
    started = []
    assert main(arguments("--model", "tiny")) == 0
    monkeypatch.setattr(
        "installer.launch.start",
        lambda config, *, is_at_login: started.append((config, is_at_login)),
    )
    monkeypatch.setattr("webbrowser.open", lambda _url: pytest.fail("opened"))
    assert main(["--at-login"]) == 0
    assert started == [(home / "data" / "configs" / "tiny.json", True)]


def test_a_missing_library_of_qt_is_named_and_the_terminal_takes_over(run, tmp_path):
    broken = tmp_path / "packages" / "PySide6"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libEGL.so.1 is not there')", "utf-8")
    done = run("--model", "tiny", DISPLAY=":1", PYTHONPATH=str(broken.parent), QT_QPA_PLATFORM="")
    assert "libEGL.so.1 is not there" in done.stdout
    assert done.returncode == 2  # nobody can be asked
