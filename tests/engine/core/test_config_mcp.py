"""MCP servers and the upstream in a run config."""

import json
import logging

import pytest

from engine.core.config import RunConfig
from engine.core.config_file import load_config, save_config
from engine.core.errors import ConfigError

ENTRY = {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "sk-secret-value"}}


def write(path, data):
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_entries_are_read_in_their_order_and_survive_saving(tmp_path):
    path = write(tmp_path / "c.json", {"mcp_servers": {"b": ENTRY, "a": {"url": "https://x/mcp"}}})
    config = load_config(path)
    assert list(config.mcp_servers) == ["b", "a"]
    assert config.mcp_servers["b"].args == ("-y", "server")
    save_config(config, path)
    assert load_config(path) == config


def test_a_whole_pasted_file_is_understood(tmp_path):
    path = write(tmp_path / "c.json", {"mcp_servers": {"mcpServers": {"files": ENTRY}}})
    assert list(load_config(path).mcp_servers) == ["files"]


def test_unknown_keys_of_an_entry_are_kept_and_warned_about(tmp_path, caplog):
    entry = {**ENTRY, "autoApprove": ["x"]}
    with caplog.at_level(logging.WARNING):
        config = load_config(write(tmp_path / "c.json", {"mcp_servers": {"files": entry}}))
    assert "mcp_servers.files.autoApprove" in caplog.text
    assert "sk-secret" not in caplog.text
    assert config.mcp_servers["files"].model_extra == {"autoApprove": ["x"]}


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ({"mcp_servers": {"f": {"env": {"T": 3}}}}, ["mcp_servers.f.env.T", "a table of texts"]),
        ({"mcp_servers": {"f": {"args": "sk-secret"}}}, ["mcp_servers.f.args", "a list of texts"]),
        ({"mcp_servers": ["sk-secret"]}, ["mcp_servers", "a table of names"]),
        ({"upstream_key": ["sk-secret"]}, ["upstream_key", "text"]),
    ],
)
def test_a_bad_entry_is_refused_by_its_key_without_its_value(tmp_path, data, parts):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path / "c.json", data))
    assert "(hidden)" in caught.value.message
    assert "sk-secret" not in caught.value.message
    for part in parts:
        assert part in caught.value.message


def test_limits_have_bounds(tmp_path):
    with pytest.raises(ConfigError, match=r"mcp\.max_rounds.*from 1 to 64"):
        load_config(write(tmp_path / "c.json", {"mcp": {"max_rounds": 0}}))
    assert RunConfig().mcp.timeout_s == 60
