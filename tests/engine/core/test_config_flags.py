"""Run config keys as flags."""

import argparse
import json
from pathlib import Path

import pytest

from engine.core import config_docs
from engine.core.config import KvType, OpsName, RunConfig
from engine.core.config_file import load_config
from engine.core.config_flags import add_config_flags, config_from_arguments, flag_name
from engine.core.errors import ConfigError


def config(*flags):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_config_flags(parser)
    return config_from_arguments(parser.parse_args(flags))


def test_every_key_but_the_format_is_a_flag():
    parser = argparse.ArgumentParser()
    add_config_flags(parser)
    text = parser.format_help()
    for key in RunConfig.model_fields:
        assert (flag_name(key) in text) is (key != "format")


def test_no_flag_gives_the_defaults():
    assert config() == RunConfig()


def test_flags_of_every_kind_are_read():
    got = config(
        *("--port", "9", "--aliases", "a, b,", "--no-fit-max-tokens", "--strict-model"),
        *("--sampling", '{"temperature": 0.5}', "--model", "x ü.gguf", "--kv-type", "f32"),
        *("--queue-timeout-s", "1.5", "--gpus", "0,1"),
    )
    assert got.port == 9
    assert got.gpus == ("0", "1")
    assert got.aliases == ("a", "b")
    assert got.fit_max_tokens is False
    assert got.strict_model is True
    assert got.sampling.temperature == 0.5
    assert got.model == Path("x ü.gguf")
    assert got.kv_type is KvType.F32
    assert got.queue_timeout_s == 1.5


def test_a_flag_wins_over_the_file_and_unknown_keys_stay(tmp_path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"port": 81, "context": 64, "later": 1, "parallel": 2}))
    got = config("--config", str(path), "--port", "82", "--context", "")
    assert (got.port, got.context, got.parallel) == (82, None, 2)
    assert got.model_extra == {"later": 1}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--port", "x"), 'port is "x"; it must be a whole number from 0 to 65535'),
        (("--ops", "magic"), 'ops is "magic"; it must be one of auto, reference, host, cuda'),
        (("--gpus", "0,first"), 'gpus is "first"; it must be a list of cards (numbers or UUIDs'),
        (("--sampling", "{"), "--sampling takes JSON"),
        (("--sampling", "[" * 100_000), "--sampling takes JSON"),
        (("--sampling", '{"top_k": -1}'), "sampling.top_k is -1"),
    ],
)
def test_a_bad_flag_is_one_sentence(flags, words):
    with pytest.raises(ConfigError) as caught:
        config(*flags)
    assert words in caught.value.message


def test_the_committed_page_is_what_the_code_generates():
    committed = config_docs.PAGE.read_text(encoding="utf-8")
    assert committed == config_docs.render(), "run `python -m engine.core.config_docs`"


def test_an_unknown_sampling_value_in_a_flag_is_warned_about(caplog):
    parser = argparse.ArgumentParser()
    add_config_flags(parser)
    config_from_arguments(parser.parse_args(["--sampling", '{"temprature": 0}']))
    assert "the setting sampling.temprature is not known" in caplog.text


@pytest.mark.parametrize(
    ("flags", "ops"),
    [
        (("--reproducible",), OpsName.HOST),
        (("--reproducible", "--ops", "host"), OpsName.HOST),
        (("--reproducible", "--ops", "reference"), OpsName.REFERENCE),
        (("--no-reproducible",), OpsName.AUTO),
    ],
)
def test_what_is_to_be_reproducible_is_computed_on_the_processor(flags, ops):
    assert config(*flags).ops is ops


def test_the_file_keeps_what_it_says_of_the_operations(tmp_path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"reproducible": True}))
    assert config("--config", str(path)).ops is OpsName.HOST
    assert load_config(path).ops is OpsName.AUTO


def test_a_card_and_reproducible_answers_exclude_each_other():
    with pytest.raises(ConfigError, match="reproducible and ops cuda exclude each other"):
        config("--reproducible", "--ops", "cuda")
