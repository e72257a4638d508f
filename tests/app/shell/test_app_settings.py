"""The app's own switches: kept whole, unknown keys too, and never in the way of a start."""

from __future__ import annotations

import json
import sys

import pytest
from pydantic import ValidationError

from app.app_settings import AppSettings, AppSettingsStore, Theme, app_settings_path
from engine.core.language import Language


def test_login_tray_and_notifications_begin_as_people_want_them(qapp):
    settings = AppSettingsStore(app_settings_path()).value
    assert not settings.closes_to_tray
    assert settings.shows_tray
    assert settings.theme is Theme.SYSTEM


def test_a_change_is_there_after_the_next_start_and_unknown_keys_stay(qtbot):
    app_settings_path().write_text('{"format": 1, "of_a_later_version": [1]}', "utf-8")
    store = AppSettingsStore(app_settings_path())
    with qtbot.waitSignal(store.changed):
        store.put(store.value.model_copy(update={"language": Language.CHINESE}))
    assert AppSettingsStore(app_settings_path()).value.language is Language.CHINESE
    assert json.loads(app_settings_path().read_text("utf-8"))["of_a_later_version"] == [1]


def test_no_change_writes_nothing(qapp):
    store = AppSettingsStore(app_settings_path())
    store.put(AppSettings())
    assert not app_settings_path().exists()


@pytest.mark.parametrize("content", ["{", '{"theme": "pink"}', "[]", '{"window": 3}'])
def test_a_broken_file_is_kept_beside_and_the_app_starts(qapp, content, caplog):
    app_settings_path().write_text(content, "utf-8")
    assert AppSettingsStore(app_settings_path()).value == AppSettings()
    backup = app_settings_path().with_name("app.json.bak")
    assert backup.read_text("utf-8") == content
    assert "is not used" in caplog.text


def test_a_file_of_a_newer_version_is_not_touched(qapp, caplog):
    app_settings_path().write_text('{"format": 2}', "utf-8")
    assert AppSettingsStore(app_settings_path()).value == AppSettings()
    assert not app_settings_path().with_name("app.json.bak").exists()
    assert "newer version" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in the file's place is POSIX's way")
def test_a_switch_works_even_when_it_cannot_be_kept(qtbot, home, caplog):
    store = AppSettingsStore(home / "file" / "app.json")
    (home / "file").write_text("not a folder", "utf-8")
    with qtbot.waitSignal(store.changed):
        store.put(store.value.model_copy(update={"theme": Theme.DARK}))
    assert store.value.theme is Theme.DARK
    assert "not kept" in caplog.text


def test_words_as_a_list_gives_them_back_are_taken_for_what_they_mean(qapp):
    store = AppSettingsStore(app_settings_path())
    store.put(store.value.model_copy(update={"language": "zh", "theme": "dark"}))
    assert store.value.language is Language.CHINESE
    assert store.value.theme is Theme.DARK
    with pytest.raises(ValidationError):
        store.put(store.value.model_copy(update={"theme": "pink"}))
    assert store.value.theme is Theme.DARK
