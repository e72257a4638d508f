"""The diagnostics bundle helps, and gives nobody away."""

import json
import zipfile
from pathlib import Path

import pytest

from app.background import Task
from app.settings.diagnostics import Sources, collect, last_lines
from app.settings.diagnostics_page import DiagnosticsPage
from app.settings.hub import Hub
from app.settings.redact import HIDDEN, Redactor, mask_config, secrets_of_config
from engine.core.files import write_json

KEY = "sk-stratum-VeryPrivate0123456789"
TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWx"
PASSWORD = "correct-horse-battery"
CHAT = "My doctor told me a secret about my knee"
USER = "annabelle"
PC = "ANNAS-GAMING-PC"
CONFIG = {
    "format": 1,
    "model": f"/home/{USER}/models/m.gguf",
    "api_keys": [KEY],
    "upstream": f"http://me:{PASSWORD}@far.example/v1",
    "upstream_key": "upstream-key-0123456789",
    "before_load": [f"/home/{USER}/free.sh", "--token", TOKEN],
    "mcp_servers": {
        "files": {"command": "npx", "args": [f"--key={KEY}"], "env": {"GH": TOKEN}},
        "web": {"url": "https://x.example/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}},
    },
    "my_own_token": "a-token-of-tomorrow",
    "port": 8123,
}
LOG = f"""\
2026-11-30 12:00:00,123 INFO engine.server: loads /home/{USER}/models/m.gguf on {PC}
WARNING engine.core.config_file: the key {KEY} is {TOKEN}
2026-11-30 12:00:01,000 ERROR app.shell: failed with Authorization: Bearer {PASSWORD}
Traceback (most recent call last):
  File "/home/{USER}/stratum/app/shell.py", line 12, in run
    answer("{CHAT}")
ValueError: {CHAT}
{CHAT}
user: {CHAT}
INFO engine.server.requests: req_1 chat prompt=12 cached=0 generated=7 finish=stop ms=99
"""
PRIVATE = (KEY, TOKEN, PASSWORD, CHAT, USER, PC, "upstream-key-0123456789", "a-token-of-tomorrow")


@pytest.fixture
def sources(home, monkeypatch):
    data = home / "data"
    config = data / "configs" / "mine.json"
    write_json(config, CONFIG)
    logs = data / "logs"
    logs.mkdir(parents=True)
    (logs / "engine.log").write_text(LOG, encoding="utf-8")
    monkeypatch.setenv("STRATUM_API_KEY", KEY)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return Sources(
        data, config, (logs / "engine.log",), (("Program", f"C:\\Users\\{USER}\\stratum"),)
    )


@pytest.fixture
def redactor():
    return Redactor.of(
        secrets_of_config(CONFIG),
        (f"/home/{USER}", f"C:\\Users\\{USER}"),
        [(USER, "(user)"), (PC, "(pc)")],
    )


def test_nothing_private_is_in_the_bundle(sources, redactor, tmp_path):
    bundle = collect(sources, Task(lambda _name: None), redactor)
    path = tmp_path / "d.zip"
    bundle.save(path)
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert {*texts} == {
        *("versions.json", "doctor.json", "machine.json", "config.json", "environment.json"),
        "logs/engine.log",
    }
    for name, text in texts.items():
        for private in PRIVATE:
            assert private not in text, (name, private)
    assert json.loads(texts["config.json"])["port"] == 8123
    assert json.loads(texts["doctor.json"])["checks"]
    assert json.loads(texts["machine.json"])["machine"]["ram_total_bytes"] > 0
    assert "finish=stop" in texts["logs/engine.log"]
    assert "line 12, in run" in texts["logs/engine.log"]
    assert json.loads(texts["versions.json"])["packages"]["numpy"]


def test_what_is_listed_is_what_is_saved(sources, redactor, tmp_path):
    bundle = collect(sources, Task(lambda _name: None), redactor)
    bundle.save(tmp_path / "d.zip")
    with zipfile.ZipFile(tmp_path / "d.zip") as archive:
        saved = {info.filename: info.file_size for info in archive.infolist()}
    assert saved == {member.name: member.num_bytes for member in bundle.members}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abcdef123", f"Authorization: Bearer {HIDDEN}"),
        ("api_key=abc", f"api_key={HIDDEN}"),
        ("sk-abcdefghijkl", HIDDEN),
        ("https://u:p@host/x", f"https://{HIDDEN}@host/x"),
        ("C:\\Users\\Bob\\x", "C:\\Users\\(user)\\x"),
        ("/home/bob/x", "/home/(user)/x"),
        ("C:\\Users\\Public\\x", "C:\\Users\\Public\\x"),
        ("tokens/s: 12", "tokens/s: 12"),
        ("prompt_tokens 12", "prompt_tokens 12"),
    ],
)
def test_what_looks_private_is_hidden_and_nothing_else(text, clean):
    assert Redactor.of((), (), ()).clean(text) == clean


def test_a_name_inside_a_word_stays():
    redactor = Redactor.of((), (), [("art", "(user)")])
    assert redactor.clean("start art") == "start (user)"


def test_a_masked_config_still_shows_that_there_are_keys():
    masked = mask_config(CONFIG)
    assert masked["api_keys"] == [HIDDEN]
    assert masked["mcp_servers"][0]["env"] == 1
    assert masked["port"] == 8123


def test_only_lines_of_programs_are_kept(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(f"INFO engine.x: ok\n{CHAT}\n" + "WARNING app.y: " + "z" * 900 + "\n", "utf-8")
    lines = last_lines(path)
    assert lines[0] == "INFO engine.x: ok"
    assert [len(line) for line in lines[1:]] == [400]
    assert last_lines(tmp_path / "none.log") == []


def test_the_page_shows_everything_before_it_saves(qtbot, context, wait, tmp_path):
    page = DiagnosticsPage(Hub(context))
    qtbot.addWidget(page)
    page.show()
    assert not page.save_button.isEnabled()
    page.collect_button.click()
    wait(lambda: page.bundle is not None)
    assert page.list.count() == len(page.bundle.members)
    page.list.setCurrentRow(0)
    assert page.text.toPlainText() == page.bundle.members[0].text
    page.save(tmp_path / "saved.zip")
    assert zipfile.is_zipfile(tmp_path / "saved.zip")
    assert "saved.zip" in page.notice.text


def test_a_place_that_cannot_be_written_is_said(qtbot, context, sources, redactor, tmp_path):
    page = DiagnosticsPage(Hub(context))
    qtbot.addWidget(page)
    page.show()
    page.bundle = collect(sources, Task(lambda _name: None), redactor)
    (tmp_path / "file").write_text("x")
    page.save(Path(tmp_path / "file" / "x.zip"))
    assert "cannot be written" in page.notice.text
