"""Access from other devices, always together with a key."""

import json
import logging

import pytest
from PySide6.QtWidgets import QLineEdit

from app.settings import network
from app.settings.hub import Hub
from app.settings.network import EVERY_ADDRESS, firewall_commands, is_lan, make_key, qr_rows, urls
from app.settings.network_page import NetworkPage
from engine.core.config import RunConfig
from engine.server.security import SecurityPolicy


@pytest.fixture
def page(qtbot, context, monkeypatch):
    monkeypatch.setattr(network, "lan_addresses", lambda: ["192.168.1.23", "10.0.0.5"])
    page = NetworkPage(Hub(context))
    qtbot.addWidget(page)
    page.show()
    page.enter()
    return page


def test_opening_makes_a_key_and_closing_keeps_it(page, config_path, caplog):
    caplog.set_level(logging.DEBUG)
    page.open.click()
    saved = json.loads(config_path.read_text("utf-8"))
    (key,) = saved["api_keys"]
    assert saved["host"] == EVERY_ADDRESS
    assert len(key) >= 32
    assert page.qr.encoded == "http://192.168.1.23:8080/"
    SecurityPolicy.from_config(RunConfig.model_validate_json(json.dumps(saved)))
    page.open.click()
    saved = json.loads(config_path.read_text("utf-8"))
    assert "host" not in saved
    assert saved["api_keys"] == [key]
    assert key not in caplog.text


def test_the_key_is_hidden_until_it_is_shown_and_again_when_the_page_is_left(page):
    page.open.click()
    key = page.key.text()
    assert page.key.echoMode() == QLineEdit.EchoMode.Password
    assert key not in page.qr.encoded
    page.show_key.click()
    assert page.key.echoMode() == QLineEdit.EchoMode.Normal
    assert page.qr.encoded == key
    page.leave()
    assert page.key.echoMode() == QLineEdit.EchoMode.Password
    assert page.qr.encoded == "http://192.168.1.23:8080/"


def test_a_key_cannot_be_removed_while_others_can_reach_the_engine(page, config_path):
    page.open.click()
    assert not page.remove.isEnabled()
    first = page.key.text()
    page.make.click()
    assert page.key.text() != first
    page.open.click()
    assert page.remove.isEnabled()
    page.remove.click()
    assert "api_keys" not in json.loads(config_path.read_text("utf-8"))
    assert page.key.text() == ""


def test_keys_are_long_and_never_the_same():
    keys = {make_key() for _ in range(50)}
    assert len(keys) == 50
    assert all(len(key) >= 32 for key in keys)


@pytest.mark.parametrize(
    ("address", "is_reachable"),
    [
        ("192.168.1.2", True),
        ("10.1.2.3", True),
        ("127.0.0.1", False),
        ("169.254.3.4", False),
        (EVERY_ADDRESS, False),
        ("name", False),
    ],
)
def test_only_addresses_that_others_can_reach_are_shown(address, is_reachable):
    assert is_lan(address) is is_reachable


def test_an_engine_on_one_address_has_that_one():
    assert urls(RunConfig(host="192.168.1.2", port=99)) == ["http://192.168.1.2:99"]
    assert urls(RunConfig()) == []


def test_the_firewall_hint_names_the_port_and_opens_private_networks_only():
    (windows,) = firewall_commands(8123, "win32")
    assert "localport=8123" in windows
    assert "profile=private" in windows
    assert all("8123" in command for command in firewall_commands(8123, "linux"))


def test_a_qr_code_is_square_with_its_quiet_zone():
    rows = qr_rows("http://192.168.1.23:8080/")
    assert len(rows) == len(rows[0]) >= 29
    assert not any(rows[0])
    assert any(any(row) for row in rows)
