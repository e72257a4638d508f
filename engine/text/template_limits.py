"""What a chat template may spend, and how its spending is seen.

A template comes out of a model file, so it is a program by a stranger. The sandbox stops it from
reaching Python's insides; this module stops it from using up time and memory. Every render gets a
`Budget` of units, sized by its input, and everything that can repeat or grow is charged *before* it
is done: loop passes (by the size of their body), calls, copies of text, lists, comparisons.
One unit is about 100 ns, or 4 characters of text made.

Jinja has hooks for operators and calls, but none for loops, `~`, comparisons and literals.
`prepare` rewrites the parsed template so that these run through filters of ours (their names cannot
be typed in a template). It also refuses statements that no chat template needs and that would get
around the rules: inheritance, includes, recursive loops, escaping.
"""

from __future__ import annotations

from typing import NoReturn, cast

from jinja2 import nodes

from engine.core.errors import InputError

BASE_UNITS = 1_000_000
UNITS_PER_CHAR = 8  # of input: templates copy a text about five times, at 4 characters a unit
UNITS_PER_VALUE = 500  # of input: a message has about 5 values, a pass over it costs 300 units
CHARS_PER_UNIT = 4
PASS_UNITS = 10  # one pass of a loop, besides its body
CALL_UNITS = 10
MACRO_UNITS = 100  # a call of a macro, besides its body
MAX_NODES = 8_000  # of a parsed template; the family's have about 1,500

# Names of the filters that `prepare` inserts; the template lexer cannot produce them.
LOOP_FILTER = "<loop>"
CONCAT_FILTER = "<concat>"
WEIGH_FILTER = "<weigh>"

_REFUSED = (
    nodes.Extends,
    nodes.Block,
    nodes.Include,
    nodes.Import,
    nodes.FromImport,
    nodes.EvalContextModifier,
    nodes.ScopedEvalContextModifier,
)


class TemplateError(InputError):
    """A chat template cannot be compiled, refuses the conversation, or spends too much."""

    code = "template_error"


class Budget:
    """Units left to one compilation or render.

    Attributes:
        macro_units: charged for each call of a macro, by its template's largest macro.
    """

    def __init__(self, units: int, macro_units: int = 0) -> None:
        self._units = units
        self._left = units
        self.macro_units = macro_units

    def charge(self, units: int) -> None:
        """Spend `units`.

        Raises:
            TemplateError: more is spent than there was.
        """
        self._left -= units
        if self._left < 0:
            raise TemplateError(
                "The model's chat template does too much work (its loops or texts grow without "
                "end). Use another model file, or a template of your own.",
                code="template_too_expensive",
                params={"units": self._units},
            )

    def charge_text(self, num_chars: int) -> None:
        """Spend what a text of this length costs."""
        self.charge(1 + num_chars // CHARS_PER_UNIT)

    def weigh(self, value: object) -> None:
        """Spend one unit for each value inside `value`, however often it is shared.

        Literals are weighed when they are made; else `x = [x, x]`, forty times, would need no
        memory to build and all of it to print.
        """
        stack = [value]
        while stack:
            item = stack.pop()
            if isinstance(item, str | bytes):
                self.charge_text(len(item))
            elif isinstance(item, dict):
                self.charge(1 + len(item))
                stack += item.keys()
                stack += item.values()
            elif isinstance(item, list | tuple):
                self.charge(1 + len(item))
                stack += item
            elif isinstance(item, range):
                self.charge(1 + len(item))
            else:
                self.charge(1)


def prepare(template: nodes.Template) -> int:
    """Rewrite a parsed template in place so that its spending is charged.

    Returns:
        The units of one call of its largest macro.

    Raises:
        TemplateError: it uses a statement that chat templates may not use.
    """
    for kind in _REFUSED:
        for node in template.find_all(kind):
            _refuse(type(node).__name__, node)
    num_nodes = 0
    for part in template.find_all(nodes.Node):
        num_nodes += 1
        # `f(*range(10**9))` is unpacked by Python, before anybody is asked.
        if getattr(part, "dyn_args", None) or getattr(part, "dyn_kwargs", None):
            _refuse("*arguments", part)
        if isinstance(part, nodes.For) and part.recursive:
            _refuse("a recursive loop", part)
    if num_nodes > MAX_NODES:
        raise TemplateError(
            f"The model's chat template has {num_nodes} parts; at most {MAX_NODES} are accepted. "
            "Use another model file."
        )
    bodies = [macro.body for macro in template.find_all(nodes.Macro)]
    bodies += [block.body for block in template.find_all(nodes.CallBlock)]
    macro_units = MACRO_UNITS + max(map(_body_units, bodies), default=0)
    for loop in list(template.find_all(nodes.For)):
        units = PASS_UNITS + _body_units(loop.body) + (_num_nodes(loop.test) if loop.test else 0)
        loop.iter = _filter(LOOP_FILTER, loop.iter, nodes.Const(units))
    _rewrite(template)
    return macro_units


def _refuse(what: str, node: nodes.Node) -> NoReturn:
    raise TemplateError(
        f"The model's chat template uses {what} in line {node.lineno}, which chat templates may "
        "not use. Use another model file."
    )


def _filter(name: str, node: nodes.Node, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(
        cast(nodes.Expr, node), name, list(args), [], None, None, lineno=node.lineno
    )


def _body_units(body: list[nodes.Node]) -> int:
    """Nodes in a body; those of loops inside are charged by their own passes."""
    return 1 + sum(_num_nodes(node) for node in body)


def _num_nodes(node: nodes.Node) -> int:
    count, stack = 0, [node]
    while stack:
        current = stack.pop()
        count += 1
        if isinstance(current, nodes.For):
            stack.append(current.iter)
        elif not isinstance(current, nodes.Macro):
            stack += current.iter_child_nodes()
    return count


def _rewrite(node: nodes.Node) -> None:
    """Replace the expressions below `node` that Jinja evaluates without asking us."""
    for field, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            _rewrite(value)
            setattr(node, field, _charged(value))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, nodes.Node):
                    _rewrite(item)
                    value[index] = _charged(item)


def _charged(node: nodes.Node) -> nodes.Node:
    if isinstance(node, nodes.Concat):
        return _filter(CONCAT_FILTER, nodes.List(node.nodes, lineno=node.lineno))
    if isinstance(node, nodes.Compare):
        node.expr = _filter(WEIGH_FILTER, node.expr)
        for operand in node.ops:
            operand.expr = _filter(WEIGH_FILTER, operand.expr)
        return node
    is_literal = isinstance(node, nodes.List | nodes.Dict) or (
        isinstance(node, nodes.Tuple) and node.ctx == "load"
    )
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
        node.node = _filter(WEIGH_FILTER, node.node)  # Jinja slices without asking the sandbox
    return _filter(WEIGH_FILTER, node) if is_literal else node
