"""Tool calls: an offered tool is called with values from the question, its result is answered.

Names of tools, topics and parameters are put together from lists; some topics are held out.
"""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass

from tools.train_tiny.chat import Call, Chat, Turn
from tools.train_tiny.held_out import is_held_out_topic
from tools.train_tiny.word_lists import CONDITIONS, NAMES, OWNERS, PRODUCTS, TOPICS

VERBS = ("get", "find", "read", "fetch", "look_up", "check", "show", "load")
UNITS = ("degrees", "euros", "dollars", "metres", "hours", "minutes", "kilos", "pieces", "people")
ASKS = (
    "What is the {topic} of {value}?",
    "What is the {topic} of {value}?",
    "What is the {topic} for {value}?",
    "Give me the {topic} of {value}.",
    "Tell me the {topic} of {value}.",
    "I need the {topic} of {value}.",
    "Please find the {topic} of {value}.",
)
NAMED_ASKS = (
    "Use {tool} with {value}.",
    "Call {tool} for {value}.",
    "Use the tool {tool}: {value}",
)


@dataclass(frozen=True, slots=True)
class Tool:
    """One offered tool."""

    name: str
    topic: str
    owner: str
    extra: str  # a second parameter, an integer, or ""

    def declaration(self, draw: random.Random) -> Mapping[str, object]:
        """Returns the tool as a client sends it."""
        properties: dict[str, object] = {self.owner: {"type": "string"}}
        if draw.random() < 0.3:
            properties[self.owner] = {"type": "string", "description": f"The {self.owner}"}
        if self.extra:
            properties[self.extra] = {"type": "integer"}
        function: dict[str, object] = {"name": self.name}
        if draw.random() < 0.85:
            function["description"] = f"Get the {self.topic} of a {self.owner}"
        function["parameters"] = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
        }
        return {"type": "function", "function": function}


def draw_value(draw: random.Random) -> str:
    """Returns an argument: a name, a word, a file, a code."""
    kind = draw.random()
    if kind < 0.45:
        return draw.choice(NAMES)
    if kind < 0.6:
        return draw.choice(PRODUCTS)
    if kind < 0.75:
        return f"{draw.choice(PRODUCTS)}.{draw.choice(('txt', 'csv', 'json', 'py', 'md'))}"
    if kind < 0.88:
        return f"{draw.choice(NAMES)} {draw.choice(NAMES)}"
    letters = "".join(draw.choice("ABCDEFGHKLMNPRSTUVWXYZ") for _ in range(draw.randint(1, 3)))
    return f"{letters}{draw.randrange(1000)}"


def draw_result(draw: random.Random) -> tuple[str, str]:
    """Returns a result as the tool writes it, and the words that answer with it."""
    kind = draw.random()
    if kind < 0.3:
        words = f"{draw.randrange(1000)} {draw.choice(UNITS)}"
    elif kind < 0.5:
        words = draw.choice(CONDITIONS)
    elif kind < 0.7:
        words = f"{draw.choice(CONDITIONS)} and {draw.choice(CONDITIONS)}"
    elif kind < 0.85:
        words = str(draw.randrange(10 ** draw.randint(1, 5)))
    else:
        words = f"{draw.choice(CONDITIONS)} {draw.choice(PRODUCTS)}"
    shape = draw.random()
    if shape < 0.6:
        return words, words
    if shape < 0.8:
        return json.dumps({"result": words}), words
    if shape < 0.9:
        return json.dumps({"value": words, "ok": True}), words
    return f"Result: {words}", words


def draw_tools(draw: random.Random, topics: list[str]) -> list[Tool]:
    """Returns one to four tools of different topics."""
    count = draw.choice((1, 1, 2, 2, 3, 4))
    tools = []
    for topic in draw.sample(topics, count):
        owner = draw.choice(OWNERS)
        verb = draw.choice(VERBS)
        name = draw.choice((f"{verb}_{topic}", f"{verb}_{topic}", topic, f"{owner}_{topic}"))
        extra = draw.choice(("days", "limit", "year", "count")) if draw.random() < 0.2 else ""
        tools.append(Tool(name, topic, owner, extra))
    return tools


def tool_question(draw: random.Random, tool: Tool) -> tuple[str, Call, str]:
    """Returns a question, the call it wants, and the value that it is about."""
    value = draw_value(draw)
    if draw.random() < 0.15:
        question = draw.choice(NAMED_ASKS).format(tool=tool.name, value=value)
    else:
        question = draw.choice(ASKS).format(topic=tool.topic, value=value)
    arguments: dict[str, str | int] = {tool.owner: value}
    if tool.extra:
        number = draw.randint(1, 99)
        question = f"{question.rstrip('.?')}, {tool.extra} {number}{question[-1] if question[-1] in '.?' else ''}"
        arguments[tool.extra] = number
    return question, Call(tool.name, arguments), value


def exchange(draw: random.Random, tool: Tool, thinks: bool) -> tuple[Turn, Turn]:
    """Returns the turn that calls a tool and the turn that answers from its result."""
    question, call, value = tool_question(draw, tool)
    text, words = draw_result(draw)
    asking = Turn(question, "", f"I call {tool.name}." if thinks else None, call)
    answer = f"The {tool.topic} of {value} is {words}."
    return asking, Turn(text, answer, "I use the result." if thinks else None, is_result=True)


def slot_turn(draw: random.Random, words: list[str], thinks: bool) -> Turn:
    """Returns a short request whose whole answer is a value out of it.

    A value's first token has a space before it in the question and none in the answer, so it is
    another token there. Calls and copies both begin so, and long ones teach it too seldom.
    """
    word = draw.choice(words)
    word = word.capitalize() if draw.random() < 0.5 else word
    kind = draw.random()
    thought = "I look for it." if thinks else None
    if kind < 0.4:
        return Turn(f"{draw.choice(('Repeat this text:', 'Say', 'Copy'))} {word}", word, thought)
    topic = draw.choice([t for t in TOPICS if not is_held_out_topic(t)])
    tool = Tool(topic, topic, draw.choice(OWNERS), "")
    question, _, value = tool_question(draw, tool)
    if kind < 0.7:
        question, value = question.replace(value, word), word
    return Turn(f"Which value is asked for here: {question}", value, thought)


class ToolTasks:
    """Draws chats in which tools are offered."""

    def __init__(self) -> None:
        """Keeps the topics that are not held out."""
        self.topics = [t for t in TOPICS if not is_held_out_topic(t)]

    def chat(self, draw: random.Random, effort: str | None, other: Turn) -> Chat:
        """Returns a chat with one to three exchanges; at times a plain question among them.

        other: a question that needs no tool.
        """
        tools = draw_tools(draw, self.topics)
        turns: list[Turn] = []
        thinks = effort is not None
        for _ in range(draw.choice((1, 2, 2, 3))):
            if draw.random() < 0.12:
                turns.append(other)
            turns += exchange(draw, draw.choice(tools), thinks)
        declared = tuple(tool.declaration(draw) for tool in tools)
        return Chat(tuple(turns), tools=declared, effort=effort)
