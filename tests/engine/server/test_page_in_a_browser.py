"""The chat page in a real Chromium, against a real server with a scripted worker."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Error, expect, sync_playwright

from tests.support import mcp_tools

pytestmark = pytest.mark.slow
expect.set_options(timeout=60_000)

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
KEY = "a-key-of-24-characters-x"

MARKDOWN = """# A heading

Some **bold**, *leaning*, `code <b>` and ~~struck~~ text with snake_case_names and 2*3*4.

1. one
2. two
   - inner **item**

> a quoted line

| a | b |
|---|---|
| 1 | x \\| y |

```python
print("<script>")
```

[good](https://example.org/a_(b)) and [bad](javascript:alert(1)), [data](data:text/html,x) <https://example.org/q?a=1>

<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>
"""

ANSWERS = [
    {"when": "thanks", "times": 0, "text": "</think>\n\nGladly."},  # first: a history has all words
    {"when": "MARKDOWN", "times": 0, "text": "Hm, <b>.</think>\n\n" + MARKDOWN, "group": 3},
    {"when": "LONG", "times": 0, "text": "</think>\n\n" + "to and fro " * 400, "delay_ms": 20},
    {"when": "MUSE", "times": 0, "text": "on and on " * 400, "delay_ms": 20},
    {"when": "ERROR", "text": "</think>\n\na b c", "fault": {"kind": "error", "after": 5}},
    {"times": 0, "text": "A thought.</think>\n\nFine."},
]
SCRIPT = {"context": 32768, "answers": ANSWERS}


def chromium(playwright):
    """A browser: playwright's own, or the system's."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("STRATUM_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    # Inside a container Chromium has no sandbox of its own for root.
    flags = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    try:
        return playwright.chromium.launch(executable_path=found, args=flags)
    except Error:
        if found is not None:
            raise
        pytest.skip("no Chromium here: install chromium, or run `playwright install chromium`")


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(SCRIPT)


@pytest.fixture
def open_page(browser):
    """A function that opens the page in a fresh profile; nothing may go wrong in its console."""
    contexts, problems = [], []

    def note(message):
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            problems.append(message.text)

    def open_one(server, locale="en-GB", **options):
        context = browser.new_context(locale=locale, **{**PHONE, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", note)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(server.url + "/")
        return page

    open_one.problems = problems
    yield open_one
    for context in contexts:
        context.close()
    assert problems == []


def ask(page, text):
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def test_an_answer_streams_its_thinking_is_folded_and_its_speed_told(server, open_page):
    page = open_page(server)
    expect(page.locator("#state")).to_have_text("stratum-tiny")
    ask(page, "hello")
    expect(page.locator(".answer")).to_have_text("Fine.")
    expect(page.locator("summary")).to_have_text("Thought for 0 s")
    thinking = page.locator("details div")
    expect(thinking).not_to_be_visible()
    page.locator("summary").click()
    expect(thinking).to_have_text("A thought.")
    expect(page.locator(".actions")).to_contain_text(" tokens")


def test_markdown_is_shown_and_no_text_of_the_model_becomes_markup(server, open_page):
    page = open_page(server)
    ask(page, "MARKDOWN")
    expect(page.locator("#stop")).to_be_hidden()
    answer = page.locator(".answer")
    for selector, text in [
        ("h3", "A heading"),
        ("strong >> nth=0", "bold"),
        ("em", "leaning"),
        ("p > code", "code <b>"),
        ("s", "struck"),
        ("ol > li >> nth=0", "one"),
        ("ol ul li strong", "item"),
        ("blockquote", "a quoted line"),
        ("td >> nth=1", "x | y"),
        ("pre", 'print("<script>")'),
    ]:
        expect(answer.locator(selector)).to_have_text(text)
    links = answer.locator("a").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
    assert links == ["https://example.org/a_(b)", "https://example.org/q?a=1"]
    assert answer.locator("a").first.get_attribute("rel") == "noopener noreferrer"
    assert answer.locator("img, script, b").count() == 0
    assert "snake_case_names and 2*3*4" in answer.inner_text()
    assert "onerror" in answer.inner_text()
    assert page.title() == "Stratum"


def test_the_policy_stops_what_a_text_could_never_do_by_itself(server, open_page):
    page = open_page(server)
    with pytest.raises(Error, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<p>x</p>'")
    blocked = page.evaluate("fetch('http://127.0.0.1:1/').then(() => 'sent', () => 'blocked')")
    assert blocked == "blocked"
    assert any("connect-src 'self'" in problem for problem in open_page.problems)
    open_page.problems.clear()


def test_stop_ends_the_answer_at_once_and_keeps_what_was_written(server, open_page):
    page = open_page(server)
    ask(page, "LONG")
    expect(page.locator(".answer")).to_contain_text("to and fro to")
    expect(page.locator(".actions")).to_contain_text("tokens per second")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".note")).to_have_text("Stopped.")
    server.wait_idle()
    assert "to and fro" in page.locator(".answer").inner_text()
    ask(page, "thanks")
    expect(page.locator(".answer").nth(1)).to_have_text("Gladly.")


def test_a_conversation_survives_a_reload_and_a_new_one_begins_empty(server, open_page):
    page = open_page(server)
    ask(page, "hello")
    expect(page.locator(".answer")).to_have_text("Fine.")
    page.reload()
    expect(page.locator(".answer")).to_have_text("Fine.")
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".answer")).to_have_count(0)
    expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
    page.get_by_role("button", name="Chats and settings").click()
    page.get_by_role("button", name="hello", exact=True).click()
    expect(page.locator(".answer")).to_have_text("Fine.")
    page.get_by_role("button", name="Chats and settings").click()
    page.get_by_role("button", name="Delete this chat: hello").click()
    page.get_by_role("button", name="Close").click()
    page.reload()
    expect(page.locator(".answer")).to_have_count(0)


def test_the_history_goes_to_the_server_with_the_thinking_and_the_chosen_level(server, open_page):
    page = open_page(server)
    ask(page, "hello")
    expect(page.locator(".answer")).to_have_text("Fine.")
    page.get_by_label("Thinking").select_option("low")
    with page.expect_request("**/v1/chat/completions") as caught:
        ask(page, "and now?")
    body = caught.value.post_data_json
    assert body["messages"] == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "Fine.", "reasoning_content": "A thought."},
        {"role": "user", "content": "and now?"},
    ]
    assert body["reasoning_effort"] == "low"
    page.reload()
    assert page.get_by_label("Thinking").input_value() == "low"


def test_thinking_can_be_ended_for_an_answer_now(server, open_page):
    page = open_page(server)
    ask(page, "MUSE")
    page.get_by_role("button", name="Answer now").click()
    expect(page.get_by_role("button", name="Answer now")).to_be_hidden()
    page.get_by_role("button", name="Stop").click()
    server.wait_idle()


def test_tools_of_this_computer_ask_before_they_run(start_server, open_page, tmp_path):
    words = "<parameter=text>\nwords\n</parameter>\n"
    call = f"<tool_call>\n<function=near__write>\n{words}</function>\n</tool_call>"
    answers = [
        {"when": "WROTE5", "times": 0, "text": "</think>\n\nIt is written."},
        {"when": "did not allow", "times": 0, "text": "</think>\n\nThen not."},
        {"when": "WRITEIT", "times": 0, "text": "</think>\n\n" + call},
        {"times": 0, "text": "</think>\n\nPlain."},
    ]
    near = {"command": sys.executable, "args": [str(Path(mcp_tools.__file__))]}
    config = {"format": 1, "mcp_servers": {"near": near}}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    server = start_server({"answers": answers}, "--config", str(path))
    page = open_page(server)
    with page.expect_request("**/v1/chat/completions") as caught:
        ask(page, "hello")  # tools are off until somebody turns them on
    assert "stratum_mcp" not in caught.value.post_data_json
    expect(page.locator(".answer")).to_have_text("Plain.")
    page.get_by_role("button", name="Chats and settings").click()
    page.get_by_label("Let the model use tools: near").check()
    page.get_by_role("button", name="Close").click()
    for answer, last in [("Do not allow", "Then not."), ("Allow", "It is written.")]:
        page.get_by_role("button", name="New chat").click()
        ask(page, "WRITEIT")
        question = page.locator(".question")
        expect(question).to_contain_text("wants to run “write” of “near”")
        expect(question).to_contain_text('"text": "words"')
        question.get_by_role("button", name=answer, exact=True).click()
        expect(page.locator(".answer")).to_have_text(last)
        expect(question).to_have_count(0)
        expect(page.locator("summary:visible")).to_contain_text("near · write")


def test_an_error_is_a_sentence_and_the_question_can_be_asked_again(server, open_page):
    page = open_page(server)
    ask(page, "ERROR please")
    expect(page.get_by_role("alert").locator("visible=true")).to_contain_text("fails.")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".answer")).to_have_text("Fine.")
    assert page.locator(".user").count() == 1


def test_the_key_is_asked_for_once_and_again_only_when_it_is_wrong(start_server, open_page):
    keyed = start_server(SCRIPT, environment={"STRATUM_API_KEYS": KEY})
    keyed.key = KEY
    page = open_page(keyed)
    dialog = page.get_by_role("dialog", name="This server needs a key")
    expect(dialog).to_be_visible()
    page.get_by_role("button", name="Later").click()
    ask(page, "hello")  # nothing works without it
    page.get_by_label("API key").fill("short")
    page.get_by_role("button", name="Use this key").click()
    expect(dialog).to_contain_text("at least 16")
    page.get_by_label("API key").fill("wrong-" + KEY)
    page.get_by_role("button", name="Use this key").click()
    expect(dialog).to_contain_text("does not accept")
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator(".answer")).to_have_text("Fine.")
    page.reload()
    expect(page.locator("#state")).to_have_text("stratum-tiny")
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Chats and settings").click()
    page.get_by_role("button", name="Forget the key").click()
    expect(dialog).to_be_visible()
    assert KEY not in keyed.log()
    assert KEY not in page.evaluate("JSON.stringify(localStorage)")


def test_a_server_that_is_gone_is_said_in_a_sentence(start_server, open_page):
    server = start_server({**SCRIPT, "answers": ANSWERS})
    page = open_page(server)
    ask(page, "LONG")
    expect(page.locator(".answer")).to_contain_text("to and fro to")
    server.http.post("/shutdown", json={"force": True})
    server.process.wait(timeout=90)
    expect(page.get_by_role("alert").locator("visible=true")).not_to_be_empty()
    expect(page.locator("#state")).to_have_text("The server cannot be reached")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert").locator("visible=true")).to_contain_text("same network")


@pytest.mark.parametrize("locale", ["zh-CN", "zh-TW", "en-US", "de-DE"])
def test_chinese_browsers_get_chinese_and_all_others_english(server, open_page, locale):
    page = open_page(server, locale=locale)
    is_chinese = locale.startswith("zh")
    assert page.locator("html").get_attribute("lang") == ("zh-CN" if is_chinese else "en")
    expect(page.get_by_role("button", name="新对话" if is_chinese else "New chat")).to_be_visible()
    assert "undefined" not in page.content().partition("<script>")[0]


def test_nothing_is_wider_than_a_small_phone_and_all_controls_have_names(server, open_page):
    page = open_page(server, viewport={"width": 320, "height": 560})
    ask(page, "MARKDOWN")
    expect(page.locator("#stop")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    nameless = page.locator("button:visible, select:visible, textarea:visible").evaluate_all(
        "(all) => all.filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.length)).length"
    )
    assert nameless == 0


def test_the_page_follows_the_system_into_the_dark(server, open_page):
    shades = []
    for scheme in ("light", "dark"):
        page = open_page(server, color_scheme=scheme)
        shades.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert shades == ["rgb(247, 247, 250)", "rgb(20, 22, 27)"]


def test_enter_sends_with_a_keyboard_and_breaks_the_line_on_a_phone(server, open_page):
    phone = open_page(server)
    phone.get_by_label("Message").fill("one")
    phone.get_by_label("Message").press("Enter")
    assert phone.get_by_label("Message").input_value() == "one\n"
    desk = open_page(server, has_touch=False, is_mobile=False)
    desk.get_by_label("Message").fill("hello")
    desk.get_by_label("Message").press("Shift+Enter")
    desk.get_by_label("Message").press("Enter")
    expect(desk.locator(".answer")).to_have_text("Fine.")


def test_a_very_long_answer_keeps_the_page_quick(start_server, open_page):
    paragraphs = "".join(f"Paragraph {i} with **some** words in it.\n\n" for i in range(6000))
    answer = {"times": 0, "text": "</think>\n\n" + paragraphs, "group": 40}
    server = start_server({"context": 131072, "answers": [answer]})
    page = open_page(server)
    page.evaluate(
        """() => { window.longest = 0; let last = performance.now();
        setInterval(() => { const now = performance.now();
          window.longest = Math.max(window.longest, now - last); last = now; }, 10); }"""
    )
    ask(page, "go")
    expect(page.locator("#stop")).to_be_hidden(timeout=150_000)
    assert page.locator(".answer p").count() == 6000
    # Generous: on a busy machine it stands still for others too.
    assert page.evaluate("longest") < 10_000, "the page stood still"
    page.reload()
    expect(page.locator(".answer p").last).to_contain_text("5999")
