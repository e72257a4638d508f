"""The security rules as functions of headers."""

import pytest

from engine.core.config import RunConfig
from engine.core.errors import ConfigError
from engine.server.errors import ApiError
from engine.server.security import (
    Access,
    Origin,
    RequestHeaders,
    Rule,
    SecurityPolicy,
    host_name,
    is_loopback_address,
    parse_origin,
)

KEY = "0123456789abcdef"
CONTROL = Access(rule=Rule.CONTROL)


def refusal(policy, access=None, **headers):
    headers = {"hosts": ("127.0.0.1:8080",), **headers}
    try:
        given, access = RequestHeaders(**headers), access or Access()
        policy.check_source(given, access)
        policy.check_key(given, access)
    except ApiError as error:
        return error.status
    return None


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost.:8080", "localhost"),
        ("[::1]:8080", "::1"),
        ("[::1]", "::1"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("a:b", "a:b"),
        ("", ""),
    ],
)
def test_the_name_in_a_host_header(header, name):
    assert host_name(header) == name


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://localhost:3000", Origin("http", "localhost", 3000)),
        ("https://A.example", Origin("https", "a.example", 443)),
        ("http://[::1]:9", Origin("http", "::1", 9)),
        ("chrome-extension://abcdef", Origin("chrome-extension", "abcdef", None)),
        ("null", None),
        ("", None),
        ("http://a.example/path", None),
        ("http://user@a.example", None),
        ("http://a.example:99999", None),
        ("http://[bad", None),
        ("http://a.example#@b.example", None),
        ("http://:word@a.example", None),
        ("https://a.example, https://b.example", None),
    ],
)
def test_origins_are_parsed_or_refused(text, origin):
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("::", False),
        ("192.168.1.2", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_which_addresses_are_of_this_machine_alone(host, expected):
    assert is_loopback_address(host) is expected


def test_hosts_that_are_not_one_name_are_400():
    policy = SecurityPolicy()
    assert refusal(policy, hosts=()) == 400
    assert refusal(policy, hosts=("",)) == 400
    assert refusal(policy, hosts=("127.0.0.1", "127.0.0.1")) == 400


def test_the_own_page_is_host_and_port_of_the_request():
    policy = SecurityPolicy.from_config(RunConfig(allowed_hosts=("box.lan",)))
    assert refusal(policy, hosts=("box.lan:80",), origin="http://box.lan") is None
    assert refusal(policy, hosts=("box.lan:81",), origin="http://box.lan") == 403
    assert refusal(policy, CONTROL, hosts=("box.lan:81",), origin="https://box.lan:81") is None


def test_cors_origins_may_generate_and_not_control():
    policy = SecurityPolicy.from_config(RunConfig(cors_origins=("https://a.example/",)))
    headers = {"origin": "https://a.example"}
    assert refusal(policy, **headers) is None
    assert refusal(policy, CONTROL, **headers) == 403
    shown = RequestHeaders(hosts=("localhost",), origin="https://a.example")
    assert policy.cors_headers(shown, Access())["access-control-allow-origin"] == headers["origin"]
    assert policy.cors_headers(shown, CONTROL) == {}
    local = RequestHeaders(hosts=("localhost",), origin="http://localhost:3000")
    assert policy.cors_headers(local, Access())["access-control-allow-origin"] == local.origin
    program = RequestHeaders(hosts=("localhost",))
    assert policy.cors_headers(program, Access()) == {}


def test_every_origin_needs_a_key_and_then_still_the_key_decides():
    with pytest.raises(ConfigError, match="api_keys"):
        SecurityPolicy.from_config(RunConfig(cors_origins=("*",)))
    policy = SecurityPolicy.from_config(RunConfig(cors_origins=("*",), api_keys=(KEY,)))
    assert refusal(policy, origin="https://any.example") == 401
    assert refusal(policy, origin="null", x_api_key=KEY) is None
    assert refusal(policy, CONTROL, origin="https://any.example", x_api_key=KEY) == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": f"Bearer {KEY}"}, None),
        ({"authorization": f"bearer  {KEY} "}, None),
        ({"authorization": f"Basic {KEY}"}, 401),
        ({"x_api_key": KEY}, None),
        ({"x_api_key": KEY[:-1]}, 401),
        ({"x_api_key": "ä" * 16}, 401),
    ],
)
def test_keys(headers, status):
    policy = SecurityPolicy.from_config(RunConfig(api_keys=("x" * 16, KEY)))
    assert refusal(policy, **headers) == status


def test_a_key_is_kept_as_a_digest_only():
    policy = SecurityPolicy.from_config(RunConfig(api_keys=(KEY,)))
    assert KEY not in repr(policy)


def test_listening_beyond_this_machine_needs_a_key_and_knows_more_names():
    with pytest.raises(ConfigError) as caught:
        SecurityPolicy.from_config(RunConfig(host="192.168.1.2"))
    assert caught.value.exit_status == 2
    policy = SecurityPolicy.from_config(RunConfig(host="192.168.1.2", api_keys=(KEY,)))
    health = Access(needs_key=False)
    assert refusal(policy, health, hosts=("host.docker.internal:8080",)) is None
    assert refusal(policy, health, hosts=("evil.example",)) == 403
