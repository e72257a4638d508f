from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.errors import ConfigError
from engine.core.settings import (
    EngineRecord,
    Settings,
    engine_record_path,
    load_settings,
    read_engine_record,
    remove_engine_record,
    save_settings,
    settings_path,
    write_engine_record,
)


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "settings.json").active_config is None


def test_settings_round_trip_and_keep_unknown_keys(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"format": 1, "data_dir": "/d", "from_the_future": [1]}')
    settings = load_settings(path)
    save_settings(settings.model_copy(update={"active_config": Path("/c.json")}), path)
    again = load_settings(path)
    assert again.active_config == Path("/c.json")
    assert again.model_dump()["from_the_future"] == [1]


def test_an_unusable_value_names_the_key(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    for value in ("7", '"a\\u0000b"'):
        path.write_text(f'{{"format": 1, "data_dir": {value}}}')
        with pytest.raises(ConfigError, match="data_dir"):
            load_settings(path)


def test_one_variable_moves_everything_below_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path))
    assert settings_path() == tmp_path / "settings.json"
    assert Settings().data_dir == tmp_path / "data"


def test_the_engine_record_is_removed_only_by_its_owner(tmp_path: Path) -> None:
    first, second = EngineRecord(pid=1, port=2), EngineRecord(pid=3, port=4)
    write_engine_record(tmp_path, first)
    write_engine_record(tmp_path, second)
    remove_engine_record(tmp_path, first.nonce)
    assert read_engine_record(tmp_path) == second
    remove_engine_record(tmp_path, second.nonce)
    assert read_engine_record(tmp_path) is None


def test_a_damaged_engine_record_is_no_record(tmp_path: Path) -> None:
    engine_record_path(tmp_path).write_bytes(b"{]")
    assert read_engine_record(tmp_path) is None
