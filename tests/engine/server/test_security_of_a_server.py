"""Host check, origins, keys and CORS on real servers: the security cases of the API's list."""

import json

import pytest

KEY = "a-key-of-24-characters-x"
EVIL = "https://evil.example"
SCRIPT = {"answers": [{"times": 0, "text": "Hm.</think>\n\nThe ANSWERWORD."}]}
ROUTES = ["/", "/health", "/status", "/v1/models", "/v1/chat/completions", "/nothing"]


@pytest.fixture(scope="module")
def server(start_server):
    flags = ("--trusted-origins", "https://trusted.example", "--allowed-hosts", "my-pc.lan")
    return start_server(SCRIPT, *flags)


@pytest.fixture(scope="module")
def keyed(start_server):
    flags = ("--cors-origins", "https://chat.example")
    keys = {"STRATUM_API_KEYS": f"{KEY}, second-{KEY}"}
    server = start_server(SCRIPT, *flags, environment=keys)
    server.key = KEY
    return server


def post(server, **headers):
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"messages": [{"role": "user", "content": "The SECRETWORD"}]}
    return server.http.post("/v1/chat/completions", json=body, headers=names)


@pytest.mark.parametrize("path", ROUTES)
def test_a_foreign_host_is_refused_on_every_route(server, path):
    for method in ("GET", "POST", "OPTIONS"):
        reply = server.http.request(method, path, headers={"host": "evil.example", "origin": EVIL})
        assert reply.status_code == 403
        assert reply.json()["error"]["code"] == "host_not_allowed"
        assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "host",
    [
        "localhost.",
        "LOCALHOST:1",
        "[::1]:8080",
        "127.0.0.1",
        "192.168.1.7",
        "a.localhost",
        "My-PC.lan:8",
    ],
)
def test_local_hosts_pass(server, host):
    assert server.http.get("/status", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (EVIL, 403),
        ("null", 403),
        ("http://localhost.evil.example", 403),
        ("http://evil.example/localhost", 403),
        ("https://trusted.example.evil.example", 403),
        ("http://trusted.example", 403),
        ("file://", 403),
        ("http://localhost:3000", 200),
        ("http://[::1]:9", 200),
        ("https://trusted.example", 200),
        ("vscode-webview://abc", 200),
        ("app://obsidian.md", 200),
    ],
)
def test_origins_of_pages(server, origin, status):
    assert post(server, origin=origin).status_code == status


def test_a_cross_site_request_without_an_origin_is_refused(server):
    headers = {"sec-fetch-site": "cross-site"}
    assert server.http.get("/v1/models", headers=headers).status_code == 403
    headers = {"sec-fetch-site": "none"}
    assert server.http.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [(None, 404), (EVIL, 403), ("http://localhost:3000", 403), ("https://trusted.example", 404)],
)
def test_control_routes_are_for_programs_and_trusted_pages(server, origin, status):
    headers = {"origin": origin} if origin else {}
    reply = server.http.post("/v1/requests/req_none/cancel", headers=headers)
    assert reply.status_code == status


def test_a_foreign_page_cannot_stop_the_server(server):
    assert server.http.post("/shutdown", headers={"origin": EVIL}).status_code == 403
    assert server.http.get("/health").status_code == 200


def test_a_preflight_of_a_foreign_page_gets_no_allow_headers(server):
    headers = {"origin": EVIL, "access-control-request-method": "POST"}
    reply = server.http.options("/v1/chat/completions", headers=headers)
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_an_opened_origin_gets_its_cors_headers(keyed):
    origin = {"origin": "https://chat.example"}
    asked = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, x-stainless-os",
        "access-control-request-private-network": "true",
    }
    reply = keyed.http.options("/v1/chat/completions", headers={**origin, **asked})
    assert reply.status_code == 204
    assert reply.headers["access-control-allow-origin"] == "https://chat.example"
    assert reply.headers["vary"] == "Origin"
    assert "POST" in reply.headers["access-control-allow-methods"]
    assert "x-stainless-os" in reply.headers["access-control-allow-headers"]
    assert reply.headers["access-control-max-age"] == "600"
    assert reply.headers["access-control-allow-private-network"] == "true"
    assert "access-control-allow-credentials" not in reply.headers
    good = post(keyed, authorization=f"Bearer {KEY}", **origin)
    assert good.headers["access-control-allow-origin"] == "https://chat.example"
    refused = post(keyed, **origin)
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://chat.example"


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://[::1]:9", "app://obsidian.md"])
def test_a_page_of_this_machine_may_ask_and_read_the_answer(server, origin):
    asked = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }
    allowed = server.http.options("/v1/chat/completions", headers=asked)
    assert allowed.status_code == 204
    assert "content-type" in allowed.headers["access-control-allow-headers"]
    answers = [allowed, post(server, origin=origin)]
    answers.append(server.http.get("/nothing", headers={"origin": origin}))
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == origin
        assert answer.headers["vary"] == "Origin"
    assert "x-request-id" in answers[1].headers["access-control-expose-headers"]


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://trusted.example"])
def test_control_routes_are_opened_to_no_page_of_another_origin(server, origin):
    for method in ("OPTIONS", "POST"):
        reply = server.http.request(method, "/v1/requests/x/cancel", headers={"origin": origin})
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_a_preflight_passes_wherever_the_request_with_its_key_would(keyed):
    headers = {"host": "my-tunnel.example", "origin": "https://chat.example"}
    reply = keyed.http.options("/v1/chat/completions", headers=headers)
    assert reply.status_code == 204
    assert reply.headers["access-control-allow-origin"] == "https://chat.example"


def test_a_key_is_needed_and_accepted_in_both_headers(keyed):
    missing = post(keyed)
    assert missing.status_code == 401
    assert missing.headers["www-authenticate"] == "Bearer"
    assert missing.json()["error"]["code"] == "invalid_api_key"
    assert missing.json()["error"]["type"] == "authentication_error"
    assert post(keyed, authorization="Bearer wrong").status_code == 401
    assert post(keyed, authorization=KEY).status_code == 401
    assert keyed.http.get(f"/v1/models?api_key={KEY}").status_code == 401
    assert post(keyed, authorization=f"Bearer {KEY}").status_code == 200
    assert post(keyed, x_api_key=f"second-{KEY}").status_code == 200
    assert post(keyed, authorization="Bearer wrong", x_api_key=KEY).status_code == 200


def test_health_is_open_and_tells_nothing(keyed):
    assert keyed.http.get("/health").json().keys() == {"status", "loaded"}
    assert keyed.http.get("/health", headers={"host": "evil.example"}).status_code == 403
    assert keyed.http.get("/status").status_code == 401


def test_a_wrong_key_is_refused_before_the_body_is_read(keyed):
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:{keyed.port}\r\n"
    connection = keyed.raw((head + "Content-Length: 1000000\r\n\r\n").encode())
    assert b" 401 " in connection.recv(4096)
    connection.close()


def test_with_a_key_other_host_names_may_use_the_keyed_routes(keyed):
    headers = {"host": "my-tunnel.example", "x-api-key": KEY}
    assert keyed.http.get("/v1/models", headers=headers).status_code == 200


def test_every_answer_forbids_type_guessing(server):
    for path in ROUTES:
        assert server.http.get(path).headers["x-content-type-options"] == "nosniff"


def test_logs_hold_counts_and_no_texts_or_keys(server, keyed):
    post(server)
    reply = post(keyed, authorization=f"Bearer {KEY}")
    request_id = reply.headers["x-request-id"]
    for log in (server.log(), keyed.log()):
        for secret in (KEY, "SECRETWORD", "ANSWERWORD", "Bearer"):
            assert secret not in log
    assert f"{request_id} chat prompt=" in keyed.log()
    refused = post(keyed, authorization=f"Bearer no-{KEY}").headers["x-request-id"]
    assert f"{refused} refused: 401 invalid_api_key" in keyed.log()
    assert json.dumps(server.status()).count("WORD") == 0
