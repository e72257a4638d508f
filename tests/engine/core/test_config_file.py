"""Reading and writing run configs."""

import json
import logging
import os

import pytest

from engine.core import config_file
from engine.core.config import BUNDLED_MODEL, KvType, RunConfig
from engine.core.config_file import load_config, save_config
from engine.core.errors import ConfigError, InputError, ResourceError


def write(path, data):
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_a_saved_config_reads_back_equal_with_its_unknown_keys(tmp_path, caplog):
    path = tmp_path / "run config ü.json"
    model = str(tmp_path / "m.gguf")
    write(path, {"format": 1, "model": model, "later_key": {"a": [1]}, "sampling": {"zest": 2}})
    with caplog.at_level(logging.WARNING):
        config = load_config(path)
    warned = "\n".join(record.getMessage() for record in caplog.records)
    assert "later_key" in warned
    assert "sampling.zest" in warned
    save_config(config, path)
    assert json.loads(path.read_text(encoding="utf-8"))["later_key"] == {"a": [1]}
    assert load_config(path) == config
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]  # no temporary left


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"prot": 8081}, "prot is not known (is port meant?); it is ignored"),
        ({"mcpServers": {}}, "mcpServers is not known (is mcp_servers meant?)"),
        ({"sampling": {"topk": 5}}, "sampling.topk is not known (is sampling.top_k meant?)"),
        ({"mystery": 1}, "mystery is not known; it is ignored"),
    ],
)
def test_a_misspelt_key_is_warned_about_with_the_one_that_it_resembles(
    tmp_path, caplog, data, words
):
    load_config(write(tmp_path / "c.json", data))
    assert words in caplog.text


def test_an_empty_object_gives_the_defaults(tmp_path):
    config = load_config(write(tmp_path / "c.json", {}))
    assert config == RunConfig()
    assert config.model_path == BUNDLED_MODEL
    assert config.kv_type is KvType.F16


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = tmp_path / "c.json"
    path.write_bytes(b'\xef\xbb\xbf{"port": 81}')
    assert load_config(path).port == 81


def test_a_relative_model_is_looked_for_beside_the_config_file(tmp_path):
    config = load_config(write(tmp_path / "c.json", {"model": "sub/m-00001-of-00002.gguf"}))
    assert config.model == tmp_path.resolve() / "sub" / "m-00001-of-00002.gguf"
    assert config.model_name == "m"


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ({"port": 70000}, ["port", "70000", "from 0 to 65535"]),
        ({"port": "8080"}, ["port", '"8080"', "whole number"]),
        ({"port": True}, ["port", "true"]),
        ({"kv_type": "q4"}, ["kv_type", '"q4"', "f16, f32"]),
        ({"aliases": "a"}, ["aliases", "a list of texts"]),
        ({"sampling": {"top_p": 0}}, ["sampling.top_p", "above 0 and up to 1"]),
        ({"sampling": 3}, ["sampling", "a table with temperature"]),
        ({"fit_max_tokens": "yes"}, ["fit_max_tokens", "true or false"]),
        ({"queue_timeout_s": float("inf")}, ["not valid JSON", "Infinity is not a number"]),
        ({"format": "one"}, ["format", "whole number"]),
        ({"model": "a\0b.gguf"}, ["model", "a path"]),
        ({"model_id": "\ud800"}, ["surrogate"]),
    ],
)
def test_a_bad_value_is_one_sentence_with_key_value_and_what_is_allowed(tmp_path, data, parts):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path / "c.json", data))
    assert caught.value.exit_status == 2
    assert "\n" not in caught.value.message
    for part in parts:
        assert part in caught.value.message


def test_a_short_api_key_is_refused_without_being_shown(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path / "c.json", {"api_keys": ["sesame"]}))
    assert "api_keys" in caught.value.message
    assert "16 characters" in caught.value.message
    assert "sesame" not in caught.value.message


def test_a_text_that_is_none_does_not_bring_out_the_keys(tmp_path):
    with pytest.raises(ConfigError, match="surrogate") as caught:
        load_config(write(tmp_path / "c.json", {"api_keys": ["\ud800 and sesame, open yourself"]}))
    assert "sesame" not in caught.value.message


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[]", "JSON object"),
        (b"[" * 100_000, "not valid JSON"),
        (b" " * (2 << 20), "larger than 1 MiB"),
    ],
)
def test_a_file_that_is_no_config_is_refused_with_a_sentence(tmp_path, raw, words):
    path = tmp_path / "c.json"
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match=words):
        load_config(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError) as caught:
            load_config(path)
        assert str(path) in caught.value.message


def test_a_newer_format_is_refused_and_left_alone(tmp_path):
    path = write(tmp_path / "c.json", {"format": 99, "port": 1})
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="newer version"):
        load_config(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_an_older_format_is_migrated_and_kept_as_bak(tmp_path, monkeypatch):
    monkeypatch.setattr(config_file, "CONFIG_FORMAT", 2)
    monkeypatch.setitem(config_file.MIGRATIONS, 1, lambda data: {"port": data["listen"]})
    path = write(tmp_path / "c.json", {"format": 1, "listen": 81})
    assert load_config(path).port == 81
    assert json.loads(path.read_text(encoding="utf-8")) == {"port": 81, "format": 2}
    old = json.loads((tmp_path / "c.json.bak").read_text(encoding="utf-8"))
    assert old == {"format": 1, "listen": 81}


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = write(tmp_path / "c.json", {"port": 81})

    def fail(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ResourceError, match="No space"):
        save_config(RunConfig(port=82), path)
    assert load_config(path).port == 81
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.json"]


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("auto", ("auto",)),
        ([], ("auto",)),
        (1, ("1",)),
        ([0, 1], ("0", "1")),
        ("0, 2", ("0", "2")),
        (["GPU-1f3a77b0-aa"], ("GPU-1f3a77b0-aa",)),
    ],
)
def test_cards_are_named_by_numbers_uuids_or_left_to_the_program(tmp_path, written, names):
    path = write(tmp_path / "c.json", {"gpus": written})
    config = load_config(path)
    assert config.gpus == names
    save_config(config, path)
    assert load_config(path) == config


@pytest.mark.parametrize("written", [["auto", 0], [1, 1], ["first"], [True], -1, [1.5], {"a": 1}])
def test_cards_that_are_none_are_refused_with_what_is_allowed(tmp_path, written):
    with pytest.raises(ConfigError, match=r"gpus is .*; it must be a list of cards .* or `auto`"):
        load_config(write(tmp_path / "c.json", {"gpus": written}))
