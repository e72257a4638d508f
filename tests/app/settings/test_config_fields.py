"""The rows of the editor are those of the run config, and each has its words."""

import json

import pytest

from app.settings.config_fields import FIRST_KEYS, Kind, config_rows
from app.settings.config_texts import (
    DESCRIPTIONS,
    LABELS,
    allowed_in_words,
    description_of,
    group_title,
    label_of,
)
from engine.core.config import RunConfig, SamplingDefaults
from engine.core.config_mcp import McpSettings
from engine.core.config_words import allowed_values, field_at

ROWS = {row.key: row for row in config_rows()}
ADD = "add it to app/settings/config_texts.py, and its Chinese with python -m app.i18n.update"


def test_every_setting_of_the_run_config_has_one_row():
    wanted = {key for key in RunConfig.model_fields if key not in ("format", "sampling", "mcp")}
    wanted |= {f"sampling.{key}" for key in SamplingDefaults.model_fields}
    wanted |= {f"mcp.{key}" for key in McpSettings.model_fields}
    assert set(ROWS) == wanted


def test_every_setting_has_a_label_and_its_description_can_be_translated():
    assert set(ROWS) - set(LABELS) == set(), ADD
    assert {row.description for row in ROWS.values() if row.description} == set(DESCRIPTIONS), ADD
    for row in ROWS.values():
        assert label_of(row)
        assert description_of(row), row.key
        assert group_title(row.group)


def test_the_groups_begin_with_keys_that_there_are():
    assert set(FIRST_KEYS) <= set(RunConfig.model_fields)


def test_limits_are_those_of_the_run_config_in_the_same_words():
    for row in ROWS.values():
        field = field_at(RunConfig, row.path)
        assert field is not None
        if row.kind in (Kind.INTEGER, Kind.NUMBER):
            plain = allowed_in_words(row).replace(".0", "")
            assert plain == allowed_values(field).replace(".0", ""), row.key
        if row.kind is Kind.CHOICE:
            assert set(row.choices) == set(
                allowed_values(field).removeprefix("one of ").split(", ")
            )


@pytest.mark.parametrize("key", ["api_keys", "upstream_key", "mcp_servers", "upstream"])
def test_values_that_may_be_secret_are_marked(key):
    assert ROWS[key].is_secret


def test_defaults_are_plain_values_that_the_run_config_takes_back():
    values = {
        row.key: row.default
        for row in ROWS.values()
        if "." not in row.key and row.default is not None and row.kind is not Kind.ELSEWHERE
    }
    config = RunConfig.model_validate_json(json.dumps(values), strict=True)
    assert config == RunConfig()
