"""Jinja's immutable sandbox, with a budget and with marked text.

Three things are added to `ImmutableSandboxedEnvironment`:

* everything that can grow or repeat is charged to the render's `Budget` (template_limits.py);
* every string operation keeps the marks of content (template_spans.py), so operators, `~`, output,
  methods and filters go through functions of ours;
* only what is listed here exists: a filter, method or function that is not known to keep both
  promises is not offered. Formatting (`%`, `format`, `center`, ...) is left out for that reason; no
  chat template of the family uses it.

The names and meanings of what is offered are Jinja's; `tojson`, `raise_exception` and
`strftime_now` are those that chat templates expect.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import operator
import types
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import cast

import jinja2
from jinja2 import filters as jinja_filters
from jinja2 import runtime
from jinja2 import tests as jinja_tests
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from engine.text import template_limits
from engine.text.template_limits import CALL_UNITS, Budget, TemplateError
from engine.text.template_spans import TEXT_METHODS, MarkedText, join_texts, like

# Jinja's own functions do not carry our state, so the budget of the running render travels here.
_budget: ContextVar[Budget] = ContextVar("template_budget")

Function = Callable[..., object]

MAX_INTEGER_BITS = 4096
MAX_INDENT = 16
MAX_DATE_FORMAT_CHARS = 100

_MAPPING_METHODS = frozenset({"get", "items", "keys", "values"})
_SEQUENCE_METHODS = frozenset({"count", "index"})
_LOOP_METHODS = frozenset({"cycle", "changed"})
# Jinja's filters whose cost does not depend on what they are given. Weighing it would make
# `messages|length`, once for each message, cost the square of the conversation.
_PLAIN_FILTERS = ("abs", "count", "default", "d", "first", "float", "items", "last", "length")
_LIST_FILTERS = (
    *("dictsort", "list", "map", "max", "min", "reject", "rejectattr"),
    *("select", "selectattr", "sort", "unique"),
)
_PLAIN_TESTS = (
    *("boolean", "defined", "even", "false", "float", "integer", "iterable", "mapping", "none"),
    *("number", "odd", "sameas", "sequence", "string", "true", "undefined"),
)
_COMPARING_TESTS = (
    *("eq", "equalto", "==", "ne", "!=", "lt", "lessthan", "<", "le", "<=", "gt", "greaterthan"),
    *(">", "ge", ">=", "in"),
)


class ConversationRefusedError(jinja2.TemplateError):
    """The template called `raise_exception`."""


@contextlib.contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Everything inside is charged to `budget`."""
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """The environment of one chat template. Use it inside `spending` only."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self) -> None:
        # optimized=False: constant expressions are evaluated when they are met, under a budget.
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            finalize=to_text,
            extensions=["jinja2.ext.loopcontrols"],
        )
        self.globals = {
            "namespace": Namespace,
            "range": _range,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }
        self._callables = frozenset(self.globals.values())
        self.filters.clear()
        self.filters.update(_filters())
        self.tests.clear()
        self.tests.update(_tests())

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Join the pieces of an output, a macro or a block."""
        return _concat(list(parts))

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Of texts only the methods that keep their marks may be touched."""
        if isinstance(obj, str):
            return attr in TEXT_METHODS
        return super().is_safe_attribute(obj, attr, value)

    def getitem(self, obj: object, argument: object) -> object:
        """`obj[argument]`; a character of a text costs what the text costs."""
        if isinstance(obj, str):
            _budget.get().charge_text(len(obj))
        return super().getitem(obj, argument)

    def call(
        self, context: runtime.Context, callee: object, /, *args: object, **kwargs: object
    ) -> object:
        """Call what templates may call: macros, the globals, and listed methods."""
        budget = _budget.get()
        budget.charge(CALL_UNITS)
        if isinstance(callee, runtime.Macro):
            budget.charge(budget.macro_units)
            return super().call(context, callee, *args, **kwargs)
        if isinstance(callee, runtime.Undefined) or _is_in(self._callables, callee):
            return super().call(context, callee, *args, **kwargs)
        if isinstance(callee, types.BuiltinMethodType | types.MethodType):
            owner, name = callee.__self__, callee.__name__
            if isinstance(owner, str) and name in TEXT_METHODS:
                for hidden in ("_loop_vars", "_block_vars"):  # Jinja's own, for its contexts
                    kwargs.pop(hidden, None)
                return TEXT_METHODS[name](budget, owner, *args, **kwargs)
            if (
                (isinstance(owner, dict) and name in _MAPPING_METHODS)
                or (isinstance(owner, list | tuple) and name in _SEQUENCE_METHODS)
                or (isinstance(owner, runtime.LoopContext) and name in _LOOP_METHODS)
            ):
                budget.weigh(list(args))
                if name in _SEQUENCE_METHODS:
                    budget.weigh(owner)
                return super().call(context, callee, *args, **kwargs)
        raise SecurityError("it calls something that templates may not call")

    def call_binop(
        self, context: runtime.Context, operator: str, left: object, right: object
    ) -> object:
        """An operator of the template, with growing results charged before they are made."""
        del context
        if operator == "+":
            return _add(left, right)
        if operator == "*":
            return _multiply(left, right)
        if operator == "**":
            _check_power(left, right)
        elif operator == "%" and isinstance(left, str | bytes):
            raise SecurityError("it formats a text with `%`, which templates may not do")
        return self.binop_table[operator](left, right)


def to_text(value: object) -> str:
    """What `{{ value }}` writes."""
    budget = _budget.get()
    if isinstance(value, str):
        budget.charge_text(len(value))
        return value
    if isinstance(value, runtime.Undefined):
        return ""
    if isinstance(value, list | tuple | dict):
        return like(value, _shown(value))
    if value is None or isinstance(value, int | float):
        return str(value)
    return f"<{type(value).__name__}>"


def _shown(value: object) -> str:
    """Like `repr`, for values of any sharing: what is written is charged as it grows."""
    budget = _budget.get()
    budget.charge(1)
    if isinstance(value, str):
        budget.charge_text(len(value))
        return str.__repr__(value)
    if isinstance(value, dict):
        items = ", ".join([f"{_shown(key)}: {_shown(item)}" for key, item in value.items()])
        return f"{{{items}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))}{',' if len(value) == 1 else ''})"
    if value is None or isinstance(value, int | float):
        return repr(value)
    return f"<{type(value).__name__}>"


def _is_in(known: frozenset[object], callee: object) -> bool:
    return any(callee is function for function in known)


def _add(left: object, right: object) -> object:
    budget = _budget.get()
    if isinstance(left, str) and isinstance(right, str):
        budget.charge_text(len(left) + len(right))
        return join_texts((left, right))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        budget.weigh(left)
        budget.weigh(right)
    return operator.add(left, right)


def _multiply(left: object, right: object) -> object:
    budget = _budget.get()
    for value, times in ((left, right), (right, left)):
        if not isinstance(times, int):
            continue
        num_copies = max(times, 0)
        if isinstance(value, str):
            budget.charge_text(len(value) * num_copies)
            if not isinstance(value, MarkedText):
                return value * num_copies
            budget.charge(num_copies)
            return join_texts([value] * num_copies)
        if isinstance(value, list | tuple):
            budget.charge(len(value) * num_copies)
            result = value * num_copies
            budget.weigh(result)
            return result
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    return operator.mul(left, right)


def _check_power(left: object, right: object) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * abs(right))


def _check_bits(bits: int) -> None:
    if bits > MAX_INTEGER_BITS:
        raise TemplateError(
            "The model's chat template computes with enormous numbers. Use another model file.",
            code="template_too_expensive",
        )


def _range(*args: int) -> range:
    numbers = range(*args)
    _budget.get().charge(1)
    return numbers  # its passes are charged by the loop, its length by every filter


def _raise_exception(message: object = "") -> None:
    raise ConversationRefusedError(str(to_text(message)))


def _strftime_now(date_format: str) -> str:
    # Widths (`%999999999d`) would be padded to gigabytes by some C libraries.
    if len(date_format) > MAX_DATE_FORMAT_CHARS or any(map(str.isdigit, date_format)):
        raise SecurityError("its date format is too long or has digits")
    return datetime.datetime.now().astimezone().strftime(date_format)


# -- filters: function(value, ...) as Jinja calls them


def _loop(value: Iterable[object], units: int) -> Iterable[object]:
    """The passes of a loop, each charged with the size of the loop's body."""
    budget = _budget.get()
    for item in value:
        budget.charge(units)
        yield item


def _concat(parts: list[object]) -> str:
    texts = [part if isinstance(part, str) else to_text(part) for part in parts]
    budget = _budget.get()
    budget.charge(len(texts))
    budget.charge_text(sum(map(len, texts)))
    return join_texts(texts)


def _weigh(value: object) -> object:
    _budget.get().weigh(value)
    return value


def _method(name: str) -> Function:
    """The filter that is a string method: `x|trim`, `x|lower`, ..."""

    def apply(value: object, *args: object, **kwargs: object) -> object:
        return TEXT_METHODS[name](_budget.get(), to_text(value), *args, **kwargs)

    return apply


def _replace(value: object, old: str, new: str, count: int | None = None) -> object:
    limit = -1 if count is None else count
    return TEXT_METHODS["replace"](_budget.get(), to_text(value), old, new, limit)


@jinja2.pass_environment
def _join(
    environment: jinja2.Environment,
    value: Iterable[object],
    d: str = "",
    attribute: str | int | None = None,
) -> str:
    items: Iterable[object] = value
    if attribute is not None:
        items = map(jinja_filters.make_attrgetter(environment, attribute), value)
    parts: list[object] = []
    for item in items:
        _budget.get().charge(1)
        parts += (d, item)
    return _concat(parts[1:])


def _reverse(value: object) -> object:
    _budget.get().weigh(value)
    if isinstance(value, str):
        return value[::-1]
    return list(reversed(list(value)))  # type: ignore[call-overload]  # a TypeError is the answer


def _int(value: object, default: int = 0, base: int = 10) -> int:
    _budget.get().weigh(value)
    number = jinja_filters.do_int(value, default, base)
    _check_bits(number.bit_length())
    return number


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    if abs(precision) > MAX_INDENT:
        raise SecurityError("it rounds to more places than numbers have")
    return jinja_filters.do_round(value, precision, method)  # type: ignore[arg-type]


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON in the order of the keys and without escapes (T9: the prefix cache depends on it)."""
    if indent is not None and not 0 <= indent <= MAX_INDENT:
        raise SecurityError("it indents JSON too far")
    _budget.get().weigh(value)
    written = json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
    _budget.get().charge_text(len(written))
    return like(value, written)


def _charged(function: Function, *, is_list: bool) -> Function:
    """Jinja's own filter or test, with its arguments weighed; lazy results are made at once."""

    # Jinja passes the arguments that the template wrote, positional and by name.
    def wrapper(*args: object, **kwargs: object) -> object:
        budget = _budget.get()
        budget.weigh(list(args))  # the first may be Jinja's context or environment: these weigh 1
        result = function(*args, **kwargs)
        if is_list and isinstance(result, Iterator):
            return list(_loop(result, CALL_UNITS))
        if is_list and isinstance(result, list):
            budget.charge(len(result))
        return result

    # Jinja reads from this mark whether to pass its context or environment first.
    if hasattr(function, "jinja_pass_arg"):
        wrapper.jinja_pass_arg = function.jinja_pass_arg  # type: ignore[attr-defined]
    return wrapper


def _filters() -> dict[str, Function]:
    offered: dict[str, Function] = {
        template_limits.LOOP_FILTER: _loop,
        template_limits.CONCAT_FILTER: _concat,
        template_limits.WEIGH_FILTER: _weigh,
        "int": _int,
        "join": _join,
        "replace": _replace,
        "reverse": _reverse,
        "round": _round,
        "safe": to_text,  # nothing is escaped, so nothing has to be called safe
        "string": to_text,
        "tojson": _tojson,
        "trim": _method("strip"),
    }
    offered.update({name: _method(name) for name in ("lower", "upper", "title", "capitalize")})
    jinjas = cast(dict[str, Function], jinja_filters.FILTERS)
    offered.update({name: jinjas[name] for name in _PLAIN_FILTERS})
    offered.update({name: _charged(jinjas[name], is_list=True) for name in _LIST_FILTERS})
    return offered


def _tests() -> dict[str, Function]:
    offered: dict[str, Function] = {
        name: cast(Function, jinja_tests.TESTS[name]) for name in _PLAIN_TESTS
    }
    offered.update(
        {
            name: _charged(cast(Function, jinja_tests.TESTS[name]), is_list=False)
            for name in _COMPARING_TESTS
        }
    )
    return offered
