"""Editing a run config's file: nothing of the person's is lost, and nothing bad is written."""

import json

import pytest

from app.settings.config_draft import (
    DEFAULT,
    ConfigDraft,
    ConfigProblemError,
    change_config,
    undo_save,
)
from app.settings.network import EVERY_ADDRESS
from app.settings.problem_words import error_sentence, problem_sentence
from engine.core.config_file import load_config
from engine.core.errors import EngineError
from engine.core.files import write_json


def content(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_only_what_was_changed_is_written_and_unknown_keys_stay(config_path):
    draft = ConfigDraft(config_path)
    assert draft.value("port") == 8080
    assert not draft.is_set("port")
    draft.set("port", 8123)
    draft.set("sampling.temperature", 0.6)
    assert draft.changed_keys == ("port", "sampling.temperature")
    assert draft.save() == ("port", "sampling.temperature")
    assert content(config_path) == {
        "format": 1,
        "model_id": "tiny",
        "from_tomorrow": [1, 2],
        "port": 8123,
        "sampling": {"temperature": 0.6},
    }
    assert draft.changed_keys == ()


def test_a_reset_takes_the_key_out_so_that_the_default_holds(config_path):
    change_config(config_path, {"port": 8123, "sampling.top_k": 5})
    draft = ConfigDraft(config_path)
    draft.reset("port")
    draft.set("sampling.top_k", None)
    draft.save()
    assert content(config_path) == {"format": 1, "model_id": "tiny", "from_tomorrow": [1, 2]}


def test_what_another_program_saved_meanwhile_stays(config_path):
    draft = ConfigDraft(config_path)
    draft.set("port", 8123)
    change_config(config_path, {"context": 4096})
    draft.save()
    assert content(config_path)["context"] == 4096
    assert content(config_path)["port"] == 8123


def test_the_last_save_can_be_undone_and_that_too(config_path):
    before = config_path.read_bytes()
    draft = ConfigDraft(config_path)
    assert not draft.can_undo
    draft.set("threads", 2)
    draft.save()
    assert draft.can_undo
    draft.undo_save()
    assert json.loads(before) == content(config_path)
    assert draft.value("threads") == 0
    draft.undo_save()
    assert draft.value("threads") == 2


def test_a_value_put_back_is_no_change(config_path):
    draft = ConfigDraft(config_path)
    draft.set("model_id", "other")
    draft.set("model_id", "tiny")
    assert draft.changed_keys == ()
    draft.set("lock_memory", True)
    draft.reset("lock_memory")
    assert draft.changed_keys == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("port", 70_000),
        ("port", "eighty"),
        ("port", True),
        ("kv_type", "f8"),
        ("sampling.temperature", 3),
        ("api_keys", ["short"]),
        ("context", 1),
        ("mcp.max_rounds", 0),
    ],
)
def test_a_bad_value_is_named_by_its_key_and_nothing_is_written(config_path, key, value):
    before = config_path.read_bytes()
    draft = ConfigDraft(config_path)
    draft.set(key, value)
    problems = draft.problems()
    assert list(problems) == [key]
    assert problem_sentence(problems[key]).startswith("It must be")
    assert draft.config() is None
    with pytest.raises(ConfigProblemError) as caught:
        draft.save()
    assert caught.value.problem.key == key
    assert error_sentence(caught.value)
    assert config_path.read_bytes() == before
    assert draft.changed_keys == (key,)


def test_a_bad_key_never_stands_in_an_error(config_path):
    draft = ConfigDraft(config_path)
    draft.set("api_keys", ["my-secret"])
    with pytest.raises(ConfigProblemError) as caught:
        draft.save()
    assert "my-secret" not in f"{caught.value} {caught.value.params} {error_sentence(caught.value)}"


def test_listening_beyond_this_machine_needs_a_key(config_path):
    draft = ConfigDraft(config_path)
    draft.set("host", EVERY_ADDRESS)
    assert "key" in problem_sentence(draft.problems()["host"])
    draft.set("api_keys", ["0123456789abcdef"])
    assert draft.problems() == {}
    draft.save()
    assert load_config(config_path).host == EVERY_ADDRESS
    draft.reset("api_keys")
    assert set(draft.problems()) == {"host"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.9"])
def test_this_machine_alone_needs_none(config_path, host):
    draft = ConfigDraft(config_path)
    draft.set("host", host)
    assert draft.problems() == {}


def test_a_file_that_is_not_there_yet_is_made(config_path):
    path = config_path.with_name("new.json")
    change_config(path, {"threads": 3})
    assert content(path) == {"format": 1, "threads": 3}
    change_config(path, {"threads": DEFAULT})
    assert content(path) == {"format": 1}


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}'])
def test_a_broken_file_is_said_and_left_as_it_is(config_path, text):
    config_path.write_text(text, encoding="utf-8")
    with pytest.raises(EngineError):
        ConfigDraft(config_path)
    assert config_path.read_text(encoding="utf-8") == text


def test_a_former_version_that_is_broken_is_not_put_back(config_path):
    write_json(config_path.with_name("tiny.json.bak"), {"format": 1, "port": "x"})
    before = config_path.read_bytes()
    with pytest.raises(ConfigProblemError):
        undo_save(config_path)
    assert config_path.read_bytes() == before
