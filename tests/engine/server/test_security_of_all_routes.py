"""Every route, by one table: its key, its hosts, its origins; and nothing beside the table answers."""

import itertools
import types
from collections import defaultdict

import pytest
from starlette.routing import Route

from engine.server.app import make_app
from engine.server.gateway import access_of, normal_path
from engine.server.security import Rule
from tests.support.routes import ROUTES, UNLISTED

KEY = "a-key-of-24-characters-x"
SCRIPT = {"answers": [{"times": 0, "text": "Hm.</think>\n\nFine."}]}
EVIL = "https://evil.example"
CALLS = [(route, method) for route in ROUTES for method in route.methods]
NAMES = [f"{method} {route.path}" for route, method in CALLS]
# These would really stop the server, or unload its model.
HARMFUL = ("/shutdown", "/load", "/unload", "/v1/load", "/v1/unload")


@pytest.fixture(scope="module")
def server(start_server):
    flags = ("--trusted-origins", "https://trusted.example")
    return start_server(SCRIPT, *flags, "--cors-origins", "https://chat.example")


@pytest.fixture(scope="module")
def keyed(start_server):
    keys = {"STRATUM_API_KEYS": f"{KEY},second-{KEY}"}
    server = start_server(SCRIPT, environment=keys)
    server.key = KEY
    return server


def ask(server, method, path, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    json = {} if method == "POST" else None
    return server.http.request(method, path, headers=headers, json=json)


def ask_exactly(server, method, target):
    """The status line and all of the answer to a target that a client library would tidy up."""
    host = f"127.0.0.1:{server.port}"
    head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    answer = b""
    with server.raw(head.encode()) as connection:
        while part := connection.recv(65536):
            answer += part
    return answer


def error_code(reply, *, anthropic=False):
    """The code (Anthropic: the type) of an error, in the shape of its protocol."""
    body = reply.json()
    if anthropic:
        assert body["type"] == "error"
        assert body["request_id"] == reply.headers["x-request-id"]
        return body["error"]["type"]
    assert set(body["error"]) >= {"message", "type", "param", "code"}
    return body["error"]["code"]


def test_the_application_has_the_listed_routes_and_no_others():
    gateway = make_app(types.SimpleNamespace(upstream=None))
    found = defaultdict(set)
    for route in gateway._routes.routes:
        assert isinstance(route, Route), route
        found[route.path] |= route.methods - {"HEAD"}
    listed = {route.template: set(route.methods) for route in ROUTES}
    assert dict(found) == listed


@pytest.mark.parametrize("route", ROUTES, ids=[route.path for route in ROUTES])
def test_each_path_has_its_key_and_its_class_however_it_is_spelled(route):
    spellings = [route.path, route.path + "/"]
    if route.path.startswith("/v1/"):
        spellings += ["/v1" + route.path, "/v1/v1" + route.path + "/"]
    for spelling in spellings:
        access = access_of(normal_path(spelling))
        assert access.needs_key is not route.open
        assert access.rule is (Rule.CONTROL if route.control else Rule.USE)


@pytest.mark.parametrize(("route", "method"), CALLS, ids=NAMES)
def test_without_a_right_key_only_open_routes_answer(keyed, route, method):
    shape = {"anthropic": route.is_anthropic}
    for headers in ({}, {"authorization": "Bearer wrong"}, {"x_api_key": KEY + "x"}):
        reply = ask(keyed, method, route.path, **headers)
        if route.open:
            assert reply.status_code == 200
        else:
            assert reply.status_code == 401
            code = error_code(reply, **shape)
            assert code == ("authentication_error" if route.is_anthropic else "invalid_api_key")
            assert reply.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("key", [KEY, f"second-{KEY}"])
def test_each_of_several_keys_opens_every_route(keyed, key):
    for route, method in CALLS:
        if route.path not in HARMFUL:
            for headers in ({"authorization": f"Bearer {key}"}, {"x_api_key": key}):
                assert ask(keyed, method, route.path, **headers).status_code not in (401, 403, 405)


@pytest.mark.parametrize("path", UNLISTED)
def test_nothing_else_answers_and_without_the_key_nothing_is_told(server, keyed, path):
    for method in ("GET", "POST", "DELETE", "PUT"):
        answer = ask_exactly(server, method, path)
        assert answer.startswith(b"HTTP/1.1 404 "), answer
        assert b'"code":"not_found"' in answer
        assert ask_exactly(keyed, method, path).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("route", ROUTES, ids=[route.path for route in ROUTES])
def test_other_methods_are_405_and_name_the_right_ones(server, route):
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - set(route.methods):
        reply = ask(server, method, route.path)
        if route.path == "/v1/responses/input_tokens" and method in ("GET", "DELETE"):
            assert reply.status_code == 404  # read as the id of an answer
            continue
        assert reply.status_code == 405
        assert set(reply.headers["allow"].split(", ")) - {"HEAD"} >= set(route.methods)


@pytest.mark.parametrize(("route", "method"), CALLS, ids=NAMES)
def test_a_foreign_host_name_is_refused_before_anything_else(server, keyed, route, method):
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8080"):
        servers = [server, keyed] if route.open else [server]
        for one, verb in itertools.product(servers, (method, "OPTIONS")):
            reply = ask(one, verb, route.path, host=host, origin=EVIL, x_forwarded_host="localhost")
            assert reply.status_code == 403
            code = error_code(reply, anthropic=route.is_anthropic)
            assert code == ("permission_error" if route.is_anthropic else "host_not_allowed")
            assert not [name for name in reply.headers if name.startswith("access-control")]


ORIGINS = [
    # origin, may use, may control
    (None, True, True),
    ("http://{host}", True, True),
    ("https://trusted.example", True, True),
    ("http://localhost:3000", True, False),
    ("http://127.0.0.1:1", True, False),
    ("http://[::1]:9", True, False),
    ("https://chat.example", True, False),
    ("app://obsidian.md", True, False),
    ("chrome-extension://abcdef", True, False),
    ("moz-extension://abcdef", True, False),
    ("vscode-webview://abcdef", True, False),
    ("tauri://localhost", True, False),
    ("null", False, False),
    ("file://", False, False),
    (EVIL, False, False),
    ("http://localhost.evil.example", False, False),
    ("https://chat.example.evil.example", False, False),
    ("http://chat.example", False, False),
    ("https://chat.example:444", False, False),
    ("https://evil.example, https://chat.example", False, False),
]


@pytest.mark.parametrize(("origin", "may_use", "may_control"), ORIGINS)
def test_each_class_of_routes_takes_its_origins(server, origin, may_use, may_control):
    headers = {}
    if origin is not None:
        headers["origin"] = origin.format(host=f"127.0.0.1:{server.port}")
    for route, method in CALLS:
        allowed = may_control if route.control else may_use
        if allowed and route.path in HARMFUL:
            continue
        reply = ask(server, method, route.path, **headers)
        assert (reply.status_code != 403) is allowed, (method, route.path)
        opened = reply.headers.get("access-control-allow-origin")
        shown = allowed and origin is not None and not route.control
        assert opened == (headers["origin"] if shown else None)
        if origin is None and method == "GET":
            cross = ask(server, method, route.path, sec_fetch_site="cross-site")
            assert cross.status_code == 403


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", ""])
def test_what_a_form_of_a_page_can_send_is_no_request(server, kind):
    for route, method in CALLS:
        reads_no_body = route.path.endswith(("/cancel", "/stop_thinking"))
        if method != "POST" or reads_no_body:
            continue
        for headers in ({"content-type": kind}, {"content-encoding": "gzip"}):
            reply = server.http.post(route.path, content=b"{}", headers=headers)
            assert reply.status_code == 415, route.path
            code = error_code(reply, anthropic=route.is_anthropic)
            assert code in ("unsupported_media_type", "invalid_request_error")
    assert server.http.get("/health").status_code == 200  # /shutdown was among them


def test_a_key_in_the_query_or_a_cookie_is_none(keyed):
    for path in (f"/v1/models?api_key={KEY}", f"/v1/models?key={KEY}&x-api-key={KEY}"):
        assert ask(keyed, "GET", path).status_code == 401
    assert ask(keyed, "GET", "/v1/models", cookie=f"x-api-key={KEY}").status_code == 401
    assert KEY not in keyed.log()


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer",
        "Bearer -",
        "Basic {key}",
        "{key}",
        "Bearer {key},x",
        "Bearer {upper}",
        "Token {key}",
    ],
)
def test_what_is_not_exactly_the_key_is_refused(keyed, authorization):
    text = authorization.format(key=KEY, upper=KEY.upper())
    assert ask(keyed, "GET", "/status", authorization=text).status_code == 401


def test_two_authorization_headers_match_nothing(keyed):
    headers = [("authorization", "Bearer wrong"), ("authorization", f"Bearer {KEY}")]
    assert keyed.http.get("/status", headers=headers).status_code == 401
