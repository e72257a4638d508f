"""The chat page as a file and as an answer: its policy, and that it needs nothing from elsewhere."""

import base64
import hashlib
import re

import pytest

from engine.server import page_routes
from engine.server.page_routes import PAGE_FILE, content_policy

HTML = PAGE_FILE.read_text(encoding="utf-8")
KEY = "a-key-of-24-characters-x"
SCRIPT = {"answers": [{"times": 0, "text": "Hm.</think>\n\nFine."}]}


@pytest.fixture(scope="module")
def keyed(start_server):
    server = start_server(SCRIPT, environment={"STRATUM_API_KEYS": KEY})
    server.key = KEY
    return server


def policy_of(reply):
    parts = reply.headers["content-security-policy"].split("; ")
    return dict(part.partition(" ")[::2] for part in parts)


def test_the_page_is_there_without_a_key_and_its_policy_fits_its_script_and_style(keyed):
    reply = keyed.http.get("/")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.text == HTML
    policy = policy_of(reply)
    for kind in ("script", "style"):
        (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", reply.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[f"{kind}-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert reply.headers["x-frame-options"] == "DENY"
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_head_is_answered_like_get_without_a_body(keyed):
    got, head = keyed.http.get("/"), keyed.http.head("/")
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == str(len(got.content))


def test_with_the_page_comes_nothing_of_the_server_and_the_rest_needs_the_key(keyed):
    reply = keyed.http.get("/")
    assert KEY not in reply.text
    assert "stratum-tiny" not in reply.text
    for path in ("/v1/models", "/props", "/status", "/page/index.html", "/index.html"):
        assert keyed.http.get(path).status_code == 401
    assert keyed.http.post("/", json={}).status_code == 405


def test_the_page_names_no_other_host_and_makes_no_markup():
    addresses = set(re.findall(r"https?://[\w.]+", HTML)) - {"http://www.w3.org"}  # SVG's own name
    assert addresses == set()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in HTML.partition("<script>")[2]
    assert "(?<" not in HTML  # a pattern that older iPhones do not read, with the whole script
    assert not re.search(r"\s(style|on[a-z]+)=\"", HTML)  # the policy would forbid these
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=\"(?!data:)", HTML)


def test_both_languages_have_the_same_words():
    words = HTML.partition("const WORDS = {")[2].partition("\n};")[0]
    english, _, chinese = words.partition("\n  zh: {")
    chinese = chinese.partition("errors: {")[0]
    names = [set(re.findall(r"[{,\s](\w+): [\"(]", text)) for text in (english, chinese)]
    assert names[0] == names[1]
    assert set(re.findall(r"data-(?:text|name|hint)=\"(\w+)\"", HTML)) <= names[0]


def test_a_copy_without_the_page_still_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(page_routes, "PAGE_FILE", tmp_path / "nothing.html")
    page_routes.read_page.cache_clear()
    assert page_routes.read_page() is None
    page_routes.read_page.cache_clear()


def test_line_ends_of_windows_do_not_change_the_hashes(tmp_path, monkeypatch):
    copy = tmp_path / "index.html"
    copy.write_bytes(HTML.replace("\n", "\r\n").encode())
    monkeypatch.setattr(page_routes, "PAGE_FILE", copy)
    page_routes.read_page.cache_clear()
    assert page_routes.read_page() == HTML.encode()
    page_routes.read_page.cache_clear()


def test_a_page_without_script_may_run_none():
    assert "script-src 'none'" in content_policy("<p>nothing</p>")
