"""Presets: built-in ones stay, own ones are kept."""

import json

import pytest

from app.chat.presets import BUILT_IN, FILE_NAME, PresetStore, applied
from app.history.records import ConversationSettings, Sampling
from engine.core.config import Effort


def test_built_in_presets_leave_the_system_prompt_alone():
    settings = ConversationSettings(system_prompt="Be kind.", uses_tools=False)
    for preset in BUILT_IN:
        new = applied(preset, settings)
        assert (new.preset, new.system_prompt, new.uses_tools) == (preset.id, "Be kind.", False)
        assert new.sampling == preset.settings.sampling
    assert BUILT_IN[0].id == "balanced"
    assert BUILT_IN[0].settings.sampling == Sampling()


def test_own_presets_survive_a_restart(tmp_path):
    presets = PresetStore(tmp_path)
    settings = ConversationSettings(system_prompt="You are a poet.", effort=Effort.LOW)
    own = presets.save(" Poet ", settings)
    presets.set_default(own.id)
    again = PresetStore(tmp_path)
    assert [p.title for p in again.all()][-1] == "Poet"
    assert again.default_settings().system_prompt == "You are a poet."
    assert again.default_settings().preset == own.id
    again.save("Bard", settings, own.id)
    assert [p.title for p in PresetStore(tmp_path).all() if not p.is_built_in] == ["Bard"]
    again.remove(own.id)
    assert PresetStore(tmp_path).default_id == "balanced"


@pytest.mark.parametrize("content", ["{", '{"presets": [{"id": 3}]}', '{"format": 99}', "[]"])
def test_a_broken_file_is_kept_beside_and_the_built_in_ones_work(tmp_path, content):
    (tmp_path / FILE_NAME).write_text(content, encoding="utf-8")
    presets = PresetStore(tmp_path)
    assert list(presets.all()) == list(BUILT_IN)
    assert (tmp_path / (FILE_NAME + ".bak")).read_text(encoding="utf-8") == content
    presets.save("New", ConversationSettings())
    assert len(PresetStore(tmp_path).all()) == len(BUILT_IN) + 1


def test_keys_of_other_versions_are_kept(tmp_path):
    path = tmp_path / FILE_NAME
    path.write_text(json.dumps({"format": 1, "presets": [], "order": ["x"]}), encoding="utf-8")
    PresetStore(tmp_path).save("New", ConversationSettings())
    assert json.loads(path.read_text(encoding="utf-8"))["order"] == ["x"]
