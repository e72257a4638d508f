"""Recipes for other programs are what those programs can read, with this engine's facts."""

import ast
import json
import tomllib

import pytest

from app.settings.client_recipes import NO_KEY, PLACEHOLDER, Client, Engine, output_limit, recipe
from app.settings.clients_page import ClientsPage
from app.settings.config_draft import change_config
from app.settings.hub import Hub

ENGINE = Engine("http://127.0.0.1:8123", "qwen", 65_536, NO_KEY)
WITH_KEY = Engine("http://127.0.0.1:8123", "qwen", 65_536, "sk-stratum-0123456789")


@pytest.mark.parametrize("client", list(Client))
@pytest.mark.parametrize("is_windows", [False, True])
def test_every_recipe_names_the_address_and_the_key_if_there_is_one(client, is_windows):
    plain = "\n".join(p.text for p in recipe(client, ENGINE, is_windows=is_windows))
    keyed = "\n".join(p.text for p in recipe(client, WITH_KEY, is_windows=is_windows))
    assert "http://127.0.0.1:8123" in plain
    assert WITH_KEY.key in keyed
    assert WITH_KEY.key not in plain


def test_agents_are_told_the_real_context():
    claude, _shell = recipe(Client.CLAUDE_CODE, ENGINE, is_windows=False)
    settings = json.loads(claude.text)
    assert settings["env"]["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "65536"
    assert settings["env"]["ANTHROPIC_BASE_URL"] == ENGINE.base_url
    config, catalog = recipe(Client.CODEX, ENGINE, is_windows=False)
    assert tomllib.loads(config.text)["model_providers"]["stratum"]["wire_api"] == "responses"
    assert json.loads(catalog.text)["models"][0]["context_window"] == 65_536
    (opencode,) = recipe(Client.OPENCODE, ENGINE, is_windows=False)
    model = json.loads(opencode.text)["provider"]["stratum"]["models"]["qwen"]
    assert model["limit"] == {"context": 65_536, "output": 8192}


def test_codex_reads_the_key_from_a_variable_only_when_there_is_one():
    assert (
        "env_key"
        not in tomllib.loads(recipe(Client.CODEX, ENGINE, is_windows=True)[0].text)[
            "model_providers"
        ]["stratum"]
    )
    with_key = recipe(Client.CODEX, WITH_KEY, is_windows=True)
    provider = tomllib.loads(with_key[0].text)["model_providers"]["stratum"]
    assert provider["env_key"] == "STRATUM_API_KEY"
    assert with_key[-1].text == f'$env:STRATUM_API_KEY = "{WITH_KEY.key}"'


@pytest.mark.parametrize("client", [Client.PYTHON_OPENAI, Client.PYTHON_ANTHROPIC])
def test_python_recipes_are_python(client):
    ast.parse(recipe(client, ENGINE, is_windows=False)[0].text)


def test_the_output_limit_suits_the_context():
    assert output_limit(8192) == 2048
    assert output_limit(1 << 20) == 8192


def test_the_python_recipe_works_with_the_real_engine(start_server):
    server = start_server({"answers": [{"text": "Hm.</think>\n\nYes.", "times": 0}]})
    (piece,) = recipe(Client.PYTHON_OPENAI, Engine(server.url, "m", 1024, NO_KEY), is_windows=False)
    lines = piece.text.replace("print(", "found = (")
    space: dict[str, object] = {}
    exec(compile(lines, "recipe", "exec"), space)  # noqa: S102  # the text that people copy
    assert space["found"] == "Yes."
    space["client"].close()


def test_the_page_has_the_running_engines_context_and_hides_the_key(
    qtbot, context, supervisor, config_path, start_server, wait
):
    change_config(config_path, {"api_keys": ["0123456789abcdef-key"], "context": 4096})
    server = start_server(None, "--config", str(config_path))
    server.key = "0123456789abcdef-key"
    supervisor.watch(server.url, server.process.pid, server.key)
    page = ClientsPage(Hub(context))
    qtbot.addWidget(page)
    page.show()
    page.enter()
    wait(lambda: "4096" in page.texts[0].text)
    assert server.url in page.texts[0].text
    assert PLACEHOLDER in page.texts[0].text
    assert server.key not in page.texts[0].text
    page.with_key.click()
    assert server.key in page.texts[0].text
    page.leave()
    assert server.key not in page.texts[0].text
