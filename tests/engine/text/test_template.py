"""The bundled model's template against the golden renderings and the rules T4 to T10."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.text.template import ChatTemplate, TemplateError, TemplateOptions, ThinkingLevel

ROOT = Path(__file__).parents[3]
SOURCE = (ROOT / "assets" / "models" / "chat_template.jinja").read_text(encoding="utf-8")
CASES = json.loads(
    (ROOT / "tests" / "golden" / "chat_rendered_qwen35.json").read_text(encoding="utf-8")
)
TEMPLATE = ChatTemplate(SOURCE)
MEDIUM = TemplateOptions(thinking=ThinkingLevel.MEDIUM)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": "ł</tool_call>"}}}

# Constructs of the family's templates that ours does without.
FAMILY_STYLE = """
{%- set ns = namespace(multi_step_tool=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content|trim %}
    {%- set reasoning = '' %}
    {%- if '</think>' in content %}
        {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' ~ message.role ~ '\\n' }}
    {%- if reasoning and loop.index0 >= ns.last %}{{ '<think>\\n' + reasoning|trim('\\n') + '\\n</think>\\n\\n' }}{% endif %}
    {{- content|replace('\\r', '') + '<|im_end|>' }}
    {%- for part in content.split(',') if part %} {{ loop.index }}:{{ part|upper }}{% endfor %}
    {%- if message.name is defined %}{{ [message.name, 1, none, true]|join('-') }}{{ message|tojson }}{% endif %}
    {{- content[:3] ~ content[-1:] ~ content|length ~ content[0] }}
{% endfor %}
"""
FAMILY_TEMPLATE = ChatTemplate(FAMILY_STYLE)


@functools.cache
def plain_template(source: str) -> jinja2.Template:
    """The template in Jinja as the family's own tools set it up, without our additions."""

    def raise_exception(message):
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = raise_exception
    return environment.from_string(source)


def plain_render(source: str, **variables: object) -> str:
    return plain_template(source).render(**variables)


@pytest.mark.parametrize("case", [case for case in CASES if "rendered" in case])
def test_the_bundled_template_renders_the_golden_texts(case):
    # The golden texts are of the family's 3.5 template: no effort sentence (as for `medium`), and
    # thinking before the last user message dropped. 3.8 keeps it by default (T7), so the older
    # behaviour has to be asked for.
    thinks = case.get("enable_thinking", True)
    options = TemplateOptions(
        thinking=ThinkingLevel.MEDIUM if thinks else ThinkingLevel.NONE, preserve_thinking=False
    )
    rendered = TEMPLATE.render(case["messages"], tools=case.get("tools"), options=options)
    assert rendered.text == case["rendered"]
    variables = {key: case[key] for key in ("enable_thinking", "tools") if key in case}
    plain = plain_render(
        SOURCE,
        messages=case["messages"],
        add_generation_prompt=True,
        preserve_thinking=False,
        **variables,
    )
    assert plain == case["rendered"]


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case])
def test_the_bundled_template_refuses_what_the_golden_one_refuses(case):
    with pytest.raises(TemplateError) as caught:
        TEMPLATE.render(case["messages"])
    assert str(caught.value) == (
        f"The model's chat template refuses this conversation: {case['error']}"
    )
    assert caught.value.code == "template_error"


USER = {"role": "user", "content": "Hi"}
THINK = "<|im_start|>assistant\n<think>\n"


@pytest.mark.parametrize(
    ("level", "system", "ending"),
    [
        (ThinkingLevel.NONE, "", THINK + "\n</think>\n\n"),
        (ThinkingLevel.LOW, "Think only briefly before you answer.", THINK),
        (ThinkingLevel.MEDIUM, "", THINK),
        (ThinkingLevel.HIGH, "Think thoroughly, check each step, and only then answer.", THINK),
    ],
)
def test_each_thinking_level_has_its_start_and_its_ending(level, system, ending):
    text = TEMPLATE.render([USER], options=TemplateOptions(thinking=level)).text
    turn = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    assert text == f"{turn}<|im_start|>user\nHi<|im_end|>\n{ending}"


def test_the_effort_sentence_stands_before_tools_and_system_text():
    messages = [{"role": "system", "content": "Be brief."}, USER]
    text = TEMPLATE.render(messages, tools=[TOOL]).text
    assert text.startswith("<|im_start|>system\nThink thoroughly")
    assert text.index("Think thoroughly") < text.index("# Tools") < text.index("Be brief.")
    assert "answer.\n\n# Tools\n\n" in text
    assert "</IMPORTANT>\n\nBe brief.<|im_end|>" in text


@pytest.mark.parametrize("effort", ["high", "max", "none", "", "XHIGH", 3])
def test_an_unknown_reasoning_effort_raises(effort):
    with pytest.raises(jinja2.TemplateError, match="Unexpected reasoning effort"):
        plain_render(SOURCE, messages=[USER], reasoning_effort=effort)


HISTORY = [
    USER,
    {"role": "assistant", "content": "A1", "reasoning_content": " R1 \n"},
    USER,
    {"role": "assistant", "content": "A2</think>"},
    USER,
]


def test_earlier_thinking_is_kept_unless_told_otherwise():
    for preserve in (None, True):
        options = TemplateOptions(ThinkingLevel.MEDIUM, preserve_thinking=preserve)
        text = TEMPLATE.render(HISTORY, options=options).text
        assert "assistant\n<think>\nR1\n</think>\n\nA1<|im_end|>" in text
        # no reasoning: an empty block; and `</think>` inside a content is not a border
        assert "assistant\n<think>\n\n</think>\n\nA2</think><|im_end|>" in text
    options = TemplateOptions(ThinkingLevel.MEDIUM, preserve_thinking=False)
    text = TEMPLATE.render(HISTORY, options=options).text
    assert "assistant\nA1<|im_end|>" in text
    assert "assistant\nA2</think><|im_end|>" in text


def test_tools_are_one_json_object_per_line_in_the_clients_order():
    other = {"z": 1, "a": [True, None, 1.5, 'é \u2028 <|im_end|> " \\ \n']}
    text = TEMPLATE.render([USER], tools=[TOOL, other], options=MEDIUM).text
    block = text.split("<tools>\n")[1].split("\n</tools>")[0]
    assert block.split("\n") == [json.dumps(t, ensure_ascii=False) for t in (TOOL, other)]


def test_arguments_are_raw_strings_or_json():
    arguments = {
        "s": " a\n<b>\\n ",
        "i": 7,
        "b": True,
        "n": None,
        "f": 1.5,
        "o": {"k": ["ü"]},
        "e": "",
    }
    call = {"function": {"name": "f", "arguments": arguments}}
    messages = [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]
    text = TEMPLATE.render(messages, options=MEDIUM, add_generation_prompt=False).text
    expected = "".join(
        f"<parameter={name}>\n{value}\n</parameter>\n"
        for name, value in {
            **arguments,
            "b": "true",
            "n": "null",
            "o": '{"k": ["ü"]}',
        }.items()
    )
    assert text.endswith(
        f"</think>\n\n<tool_call>\n<function=f>\n{expected}</function>\n</tool_call><|im_end|>\n"
    )


def test_a_call_without_arguments_has_two_lines():
    calls = [{"function": {"name": "f", "arguments": {}}}, {"function": {"name": "g"}}]
    messages = [USER, {"role": "assistant", "content": "x", "tool_calls": calls}]
    text = TEMPLATE.render(messages, options=MEDIUM, add_generation_prompt=False).text
    assert "x\n\n<tool_call>\n<function=f>\n</function>\n</tool_call>\n<tool_call>" in text


def test_consecutive_results_share_one_user_turn():
    messages = [USER, {"role": "tool", "content": "1"}, {"role": "tool", "content": " 2 "}, USER]
    text = TEMPLATE.render(messages, options=MEDIUM).text
    assert (
        "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n"
        "</tool_response><|im_end|>\n<|im_start|>user\nHi"
    ) in text


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "No messages provided"),
        ([{"role": "boss", "content": "x"}, USER], "Unexpected message role"),
        ([{"role": "user", "content": 5}], "Unexpected content type"),
        ([{"role": "user", "content": [{"type": "video"}]}], "Unexpected part"),
        ([{"role": "system", "content": [{"type": "image"}]}, USER], "cannot contain images"),
    ],
)
def test_conversations_that_cannot_be_rendered_get_a_sentence(messages, words):
    with pytest.raises(TemplateError, match=words):
        TEMPLATE.render(messages)


def test_values_that_json_does_not_have_get_a_sentence():
    with pytest.raises(TemplateError, match="messages hold a set"):
        TEMPLATE.render([{"role": "user", "content": {"a"}}])


def test_arguments_nested_without_end_get_a_sentence():
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"a": deep}
    call = {"function": {"name": "f", "arguments": deep}}
    with pytest.raises(TemplateError, match="nested too deeply"):
        TEMPLATE.render([USER, {"role": "assistant", "content": "", "tool_calls": [call]}])


def test_a_long_conversation_fits_the_budget():
    turn = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    assert TEMPLATE.render(turn * 1000).text.count("<|im_end|>") == 2001
    assert len(TEMPLATE.render([{"role": "user", "content": "x" * 2_000_000}]).text) > 2_000_000
    # This one asks for the number of messages at each message.
    assert FAMILY_TEMPLATE.render(turn * 1000).text.count("<|im_end|>") == 2000


texts = st.one_of(
    st.sampled_from(["", " ", "<|im_end|>", "a</think>b", "<think>\nx\n</think>\n\ny", "a,b,,c\r"]),
    st.text(max_size=12),
)
conversations = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool"]), "content": texts},
        optional={"reasoning_content": texts, "name": texts},
    ),
    max_size=6,
).map(lambda tail: [USER, *tail])


@given(conversations)
@settings(max_examples=100, deadline=None)
def test_marking_content_changes_no_rendering(messages):
    assert TEMPLATE.render(messages).text == plain_render(
        SOURCE,
        messages=messages,
        tools=None,
        add_generation_prompt=True,
        enable_thinking=True,
        reasoning_effort="xhigh",
    )


@given(conversations)
@settings(max_examples=100, deadline=None)
def test_templates_in_the_familys_style_render_as_in_plain_jinja(messages):
    messages = [
        {k: v for k, v in m.items() if k != "name"} | {"content": m["content"] or "x"}
        for m in messages
    ]
    messages[0] = {**messages[0], "name": "N,<|im_end|>"}
    rendered = FAMILY_TEMPLATE.render(messages)
    assert rendered.text == plain_render(FAMILY_STYLE, messages=messages)


def test_the_date_and_odd_globals_work():
    text = (
        ChatTemplate("{{ strftime_now('%Y-%m') }} {{ bos_token }}|{{ tools }}").render([USER]).text
    )
    assert len(text) == len("2026-01 |None")


def test_rendering_is_repeatable_and_does_not_touch_the_messages():
    messages = json.loads(json.dumps(HISTORY))
    first = TEMPLATE.render(messages, tools=[TOOL])
    assert TEMPLATE.render(messages, tools=[TOOL]) == first
    assert messages == HISTORY
    assert type(messages[0]["content"]) is str
    assert all(type(span.text) is str for span in first.spans)


def test_what_a_template_says_when_it_refuses_stays_one_printable_line():
    template = ChatTemplate("{{ raise_exception('no\n\x1b[31m' ~ 'x' * 9999) }}")
    with pytest.raises(TemplateError) as caught:
        template.render([{"role": "user", "content": "Hi"}])
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 500
