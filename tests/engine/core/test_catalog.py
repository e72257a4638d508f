"""`models.json`: what it must say, and the sentence for a mistake made by hand."""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest

from engine.core.catalog import Catalog
from engine.core.catalog_file import (
    CATALOG_PATH,
    SCHEMA_PATH,
    bundled_model_path,
    catalog_schema,
    find_model,
    load_catalog,
)
from engine.core.errors import ConfigError, InputError

RAW = json.loads(CATALOG_PATH.read_text("utf-8"))


@pytest.fixture
def raw():
    return copy.deepcopy(RAW)


def load(tmp_path, raw):
    path = tmp_path / "models.json"
    path.write_text(json.dumps(raw), "utf-8")
    return load_catalog(path)


def test_the_catalogue_of_the_program_is_right():
    catalog = load_catalog()
    assert [model.id for model in catalog.models] == [
        "qwen-q2_0",
        "qwen-iq2_xs",
        "qwen-iq3_xxs",
        "qwen-iq3_s",
        "swift-iq2_xs",
        "swift-iq3_xxs",
        "coder-iq1_m",
        "unsloth-ud-iq4_xs",
        "unsloth-ud-q4_k_xl",
        "tiny",
    ]
    for model in catalog.models:
        needs = model.needs
        assert needs.dense_bytes + needs.expert_bytes + needs.ngram_bytes == needs.download_bytes
        assert model.is_bundled or catalog.family_of(model).mtp is not None
    for checkpoint in catalog.mtp_checkpoints.values():
        assert len(checkpoint.tensors) == 31
        assert len(set(checkpoint.tensors.values())) == 31


def test_the_bundled_model_is_there():
    catalog = load_catalog()
    assert bundled_model_path(catalog).is_file()
    assert catalog.title_of(catalog.bundled) == catalog.families["tiny"].title


def test_known_bytes_are_exact_or_none():
    catalog = load_catalog()
    assert find_model(catalog, "unsloth-ud-q4_k_xl").known_bytes == 111_334_654_784
    assert find_model(catalog, "qwen-q2_0").known_bytes is None


def test_the_schema_in_the_documents_is_that_of_the_types():
    assert SCHEMA_PATH.read_text("utf-8") == catalog_schema()


def test_the_schema_accepts_the_catalogue():
    jsonschema.validate(RAW, json.loads(catalog_schema()))


def test_an_unknown_model_is_answered_with_those_that_there_are():
    with pytest.raises(InputError, match="qwen-iq2_xs"):
        find_model(load_catalog(), "gpt-5")


def set_at(raw, path, value):
    *folders, last = path
    place = raw
    for part in folders:
        place = place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("models", 0, "files", 0, "sha256"), "abc", ("models[0].files[0].sha256", "64 digits")),
        (("models", 0, "files", 0, "bytes"), "12", ("models[0].files[0].bytes", "whole number")),
        (("models", 0, "files", 0, "bytes"), -1, ("bytes", "too small")),
        (("models", 0, "files", 0, "path"), "../x.gguf", ("models[0].files[0]", "without ..")),
        (("models", 0, "files", 0, "path"), "x.gguf", ("models[0]", "NAME-00001-of-00002.gguf")),
        (("models", 0, "files"), [], ("models[0].files", "must not be empty")),
        (("models", 0, "family"), "qwern", ("qwen-q2_0", "qwern")),
        (("models", 0, "id"), "qwen-iq2_xs", ("qwen-iq2_xs", "twice")),
        (("models", 0, "id"), None, ("models[0].id", "is missing")),
        (("models", 0, "needs", "ram_byte"), 3, ("ram_byte", "does not exist")),
        (("models", 0, "is_bundled"), True, ("exactly one",)),
        (("models", 0, "files", 1, "bytes"), 5, ("shared as qwen-ngram-table",)),
        (("families", "qwen", "revision"), "main", ("families.qwen.revision", "40 digits")),
        (
            ("families", "qwen", "repository"),
            "qwen",
            ("families.qwen.repository", "publisher/name"),
        ),
        (("families", "qwen", "repository"), None, ("family qwen", "repository")),
        (("families", "qwen", "mtp", "checkpoint"), "x", ("checkpoint x",)),
        (("sampling", "thinking", "temperature"), 9.5, ("temperature", "too large")),
        (("models",), {}, ("models", "list in brackets")),
        (("families", "qwen", "licence"), [], ("licence", "object in braces")),
        (("families", "qwen", "licence", "must_accept"), "yes", ("must_accept", "true or false")),
        (("format",), 2, ("newer version",)),
    ],
)
def test_a_mistake_made_by_hand_is_named_in_one_sentence(tmp_path, raw, path, value, words):
    set_at(raw, path, value)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, raw)
    for word in (*words, "models.json"):
        assert word in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("text", ["", "{", "[]", '{"models": NaN}', "\xff"])
def test_what_is_no_json_object_is_refused(tmp_path, text):
    path = tmp_path / "models.json"
    path.write_text(text, "latin-1")
    with pytest.raises(ConfigError):
        load_catalog(path)


def test_a_missing_catalogue_is_said_so(tmp_path):
    with pytest.raises(InputError, match=r"models\.json"):
        load_catalog(tmp_path / "models.json")


def test_adding_a_model_is_adding_an_entry(tmp_path, raw):
    entry = copy.deepcopy(raw["models"][0])
    entry |= {"id": "mine", "files": [{"path": "mine.gguf"}]}
    raw["models"].append(entry)
    assert load(tmp_path, raw).find("mine") is not None


def test_a_catalogue_survives_being_written_and_read():
    catalog = load_catalog()
    assert Catalog.model_validate_json(catalog.model_dump_json(by_alias=True)) == catalog
