"""Hostile templates: each gets one sentence, quickly, and without memory."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from engine.text.template import ChatTemplate, TemplateError

MESSAGES = [{"role": "user", "content": "hi there"}]
GROW = "{% set n = namespace(x=START) %}{% for i in range(60) %}{% set n.x = STEP %}{% endfor %}"


def grow(start: str, step: str, then: str = "") -> str:
    return GROW.replace("START", start).replace("STEP", step) + then


LOOPS = {
    "range": "{% for i in range(10**9) %}{{ i }}{% endfor %}",
    "nested": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "body": "{% for i in range(9999999) %}" + "{% set a = 1 %}" * 900 + "{% endfor %}",
    "condition": "{% for i in range(10**9) if i < 0 %}{% endfor %}",
    "capture": "{% set x %}{% for i in range(10**9) %}aaaaaaaa{% endfor %}{% endset %}",
    "filter block": "{% filter upper %}{% for i in range(10**9) %}a{% endfor %}{% endfilter %}",
    "length of a loop": "{% for i in range(10**9) %}{{ loop.length }}{% endfor %}",
    "list": "{{ range(10**9)|list }}",
    "max": "{{ range(10**9)|max }}",
    "map": "{% for i in range(10**9)|map('string') %}{% endfor %}",
    "sorting": "{% for i in range(999) %}{% set x = range(99999)|list|sort|unique %}{% endfor %}",
    "characters": "{% for c in 'a' * 3000000 %}{% endfor %}",
    "macros": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "callers": "{% macro f() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call f() %}" * 18
    + "x"
    + "{% endcall %}" * 18,
}
GROWTH = {
    "times": "{{ 'a' * 10**9 }}",
    "assigned": "{% set x = 'a' * 10**9 %}",
    "list times": "{% set x = [0] * 10**9 %}",
    "content times": "{{ messages[0].content * 10**9 }}",
    "doubling by tilde": grow("'aaaa'", "n.x ~ n.x"),
    "doubling by plus": grow("'aaaa'", "n.x + n.x"),
    "doubling lists": grow("[1]", "n.x + n.x"),
    "doubling tuples": grow("(1,)", "n.x + n.x"),
    "shared lists": grow("[1]", "[n.x, n.x]", "{{ n.x }}"),
    "shared mappings": grow("{}", "{'a': n.x, 'b': n.x}", "{{ n.x|tojson }}"),
    "replace": grow("'aa'", "n.x|replace('a', 'aa')"),
    "replace method": "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
    "join": "{{ range(99999)|join('a' * 100000) }}",
    "join method": "{{ ('a' * 100000).join(range(99999)|map('string')) }}",
    "split": "{% set x = 'a,' * 1500000 %}{% for i in range(99) %}{% set y = x.split(',') %}{% endfor %}",
    "slices": "{% set x = 'a' * 2000000 %}{% for i in range(9999) %}{% set y = x[1:] %}{% endfor %}",
    "comparing": "{% set x = 'a' * 2000000 %}{% for i in range(9999) %}{{ x[1:] == x }}{% endfor %}",
    "searching": "{% set x = 'a' * 2000000 %}{% for i in range(9999) %}{{ 'b' in x }}{% endfor %}",
    "counting": "{% set x = 'a' * 2000000 %}{% for i in range(9999) %}{{ x.count('b') }}{% endfor %}",
    "trimming": "{% set x = ' ' * 2000000 %}{% for i in range(9999) %}{% set y = x|trim %}{% endfor %}",
    "power": "{{ 9 ** 99999999 }}",
    "big integers": "{{ ('f' * 1000000)|int(0, 16) }}",
    "squares": "{% set n = namespace(x=3) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "percent": "{{ '%0999999999d' % 1 }}",
    "format": "{{ '{:>999999999}'.format(1) }}",
    "format filter": "{{ '%0999999999d'|format(1) }}",
    "center": "{{ 'a'.center(10**9) }}",
    "center filter": "{{ 'a'|center(10**9) }}",
    "zfill": "{{ 'a'.zfill(10**9) }}",
    "indent": "{{ [1]|tojson(indent=10**9) }}",
    "bytes": "{{ (5).to_bytes(10**9) }}",
    "unpacked": "{% macro f() %}{{ varargs }}{% endmacro %}{{ f(*range(10**9)) }}",
    "unpacked mapping": "{{ namespace(**messages[0]) }}",
    "rounding": "{{ 5|round(-10**9) }}",
    "dates": "{{ strftime_now('%0999999999d') }}",
}
STRUCTURE = {
    "endless macro": "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "recursive loop": "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'a' as b %}",
    "extends": "{% extends 'a' %}",
    "block": "{% block a %}{{ self.a() }}{% endblock %}",
    "escaping": "{% autoescape true %}{{ messages[0].content }}{% endautoescape %}",
    "parentheses": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "negations": "{{ " + "not " * 9000 + "1 }}",
    "sums": "{{ 1" + "+1" * 9000 + " }}",
    "attributes": "{{ a" + ".b" * 9000 + " }}",
    "conditions": "{% if 1 %}" * 2000 + "{% endif %}" * 2000,
    "nested loops": "{% for i in [1] %}" * 30 + "{% endfor %}" * 30,
    "many parts": "{{a}}" * 9000,
    "long": "a" * 70_000,
    "digits": "{{ " + "9" * 5000 + " }}",
    "unfinished": "{% for",
    "unknown filter": "{{ 'a'|attr('__class__') }}",
    "unknown tag": "{% do 1 %}",
    "division": "{{ 1 // 0 }}",
    "undefined": "{{ a.b.c }}",
    "empty replacement": "{{ 'a'.replace('', 'b') }}",
}


@pytest.mark.parametrize("name", [*LOOPS, *GROWTH, *STRUCTURE])
def test_a_hostile_template_gets_one_sentence_in_no_time(name):
    source = {**LOOPS, **GROWTH, **STRUCTURE}[name]
    started = time.process_time()
    with pytest.raises(TemplateError) as caught:
        ChatTemplate(source).render(MESSAGES)
    # At most half a second; what a template could make endless is what is looked for.
    assert time.process_time() - started < 60
    assert str(caught.value).startswith("The model's chat template")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    "name",
    [
        "times",
        "list times",
        "content times",
        "doubling by tilde",
        "replace method",
        "join",
        "split",
    ],
)
def test_a_hostile_template_gets_no_memory(name):
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError):
            ChatTemplate(GROWTH[name]).render(MESSAGES)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000_000


@pytest.mark.parametrize(
    "expression",
    [
        "''.__class__.__mro__",
        "''['__class__']",
        "messages.__class__",
        "messages|map(attribute='__class__')|list",
        "raise_exception.__globals__",
        "namespace.__init__.__globals__",
        "namespace.__subclasses__()",
        "self._TemplateReference__context",
        "strftime_now.__code__",
        "messages.append(1)",
        "messages.pop()",
        "messages[0].clear()",
        "messages[0].update({'role': 'x'})",
        "messages[0].content.encode()",
        "messages[0].content.runs",
        "cycler.__init__",
        "lipsum.__globals__",
        "range.mro()",
        "loop.__class__",
        "(messages|map('upper')).gi_frame",
        "''.format.__self__",
        "'{0.__class__}'.format(1)",
        "'{0.__class__}'.format_map(messages)",
    ],
)
def test_the_sandbox_gives_away_nothing(expression):
    messages = [{"role": "user", "content": "hi"}]
    try:
        text = ChatTemplate(f"{{{{ {expression} }}}}").render(messages).text
    except TemplateError:
        text = ""
    # What is not refused must show nothing of Python's insides.
    assert text in ("", "[<Undefined>]")
    assert messages == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
            "13",
        ),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{{ loop.last }}{% endfor %}", "a1True"),
        (
            "{% for x in 'a b'.split(' ') %}{{ x.upper().lower() }}{{ loop.cycle('-', '+') }}{% endfor %}",
            "a-b+",
        ),
        (
            "{{ [3, 1, 2]|sort|join(',') }}{{ (1, 'b') }}{{ [none, {'a': 1.5}] }}",
            "1,2,3(1, 'b')[None, {'a': 1.5}]",
        ),
        ("{{ messages|selectattr('role', 'equalto', 'user')|list|length }}", "1"),
        (
            "{{ messages|map(attribute='content')|join }}{{ 'x' if 'there' in messages[0].content }}",
            "hi therex",
        ),
        (
            "{% macro f(a, b=2) %}{{ a }}{{ b }}{{ kwargs }}{% endmacro %}{{ f(1, b=3, c=4) }}",
            "13{'c': 4}",
        ),
        ("{{ 'a' ~ 1 ~ none ~ [1] }}{{ 2 * 3 + 7 // 2 - 5 % 3 }}{{ 'ab' * 2 }}", "a1None[1]7abab"),
        (
            "{{ messages[0].get('x', 'd') }}{{ messages[0]['role'] }}{{ messages[-1].content[3:] }}",
            "duserthere",
        ),
        ("{{ {'b': 1, 'a': [true, none, 'é']}|tojson }}", '{"b": 1, "a": [true, null, "é"]}'),
        ("{{ [1]|tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ 2.567|round(1) }}{{ '7'|int + 1 }}{{ -3|abs }}{{ nothing|default('d') }}", "2.683d"),
        (
            "{% set n = namespace(a=1) %}{% for i in range(3) %}{% set n.a = n.a + i %}{% endfor %}{{ n.a }}",
            "4",
        ),
    ],
)
def test_what_chat_templates_use_works_as_in_jinja(source, expected):
    assert ChatTemplate(source).render(MESSAGES).text == expected


def test_a_failed_render_leaves_the_template_usable():
    template = ChatTemplate("{% for i in range(messages[0].content|int) %}{{ i }}{% endfor %}")
    for _ in range(2):
        with pytest.raises(TemplateError):
            template.render([{"role": "user", "content": "1000000000"}])
        assert template.render([{"role": "user", "content": "3"}]).text == "012"
