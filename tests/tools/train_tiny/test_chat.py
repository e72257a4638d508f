"""Training chats are encoded as the engine encodes the same conversation."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from engine.text.prompt import ChatFormat
from engine.text.template import TemplateOptions, ThinkingLevel
from tools.train_tiny.chat import (
    EFFORT_TEXTS,
    TOOLS_AFTER,
    TOOLS_BEFORE,
    Call,
    Chat,
    ChatEncoder,
    Turn,
)
from tools.train_tiny.tokenizer import END_OF_TURN, merges, special_ids, train, vocabulary

TEMPLATE = Path(__file__).parents[3] / "assets" / "models" / "chat_template.jinja"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
}
CHAT = Chat(
    (
        Turn("What is a dog?", "An animal.", "This is about a dog."),
        Turn(
            "The weather of Paris?",
            "",
            "I call it.",
            Call("get_weather", {"city": "Paris", "days": 3}),
        ),
        Turn("17 degrees.", "It is 17 degrees.", "I use it.", is_result=True),
        Turn("And a cat?", "One too.", "A cat."),
    ),
    system="Be brief.",
    tools=(TOOL,),
    effort="xhigh",
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    # With the template's own words, so that pieces like ".\n\n" and ">\n" become tokens.
    texts = [*EFFORT_TEXTS.values(), TOOLS_BEFORE, *TOOLS_AFTER, json.dumps(TOOL), "user\n"]
    return train(texts * 3, 400)


@pytest.fixture(scope="module")
def encoder(tokenizer: Tokenizer) -> ChatEncoder:
    return ChatEncoder(tokenizer)


@pytest.fixture(scope="module")
def engine(tokenizer: Tokenizer) -> ChatFormat:
    tokens, types = vocabulary(tokenizer)
    metadata: dict[str, object] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen35",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges(json.loads(tokenizer.to_str())),
        "tokenizer.ggml.eos_token_id": special_ids(tokenizer)[END_OF_TURN],
        "tokenizer.chat_template": TEMPLATE.read_text(encoding="utf-8"),
    }
    return ChatFormat.from_metadata(metadata, "tiny.gguf")


def _messages(chat: Chat) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [{"role": "system", "content": chat.system}]
    for turn in chat.turns:
        asks = {"role": "tool", "tool_call_id": "c1"} if turn.is_result else {"role": "user"}
        messages.append({**asks, "content": turn.question})
        answer: dict[str, object] = {"role": "assistant", "content": turn.answer}
        answer["reasoning_content"] = turn.thought or ""
        if turn.call is not None:
            function = {"name": turn.call.name, "arguments": json.dumps(dict(turn.call.arguments))}
            answer["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
        messages.append(answer)
    return messages


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_thinking_prompt_has_the_ids_that_the_engine_makes(
    encoder: ChatEncoder, engine: ChatFormat, length: int
) -> None:
    chat = Chat(CHAT.turns[:length], CHAT.system, CHAT.tools, CHAT.effort)
    wanted = engine.prompt(_messages(chat)[:-1], [TOOL], TemplateOptions(ThinkingLevel.HIGH))
    assert encoder.prompt(chat, thinks=True) == wanted.token_ids


def test_a_prompt_without_thinking_has_the_ids_that_the_engine_makes(
    encoder: ChatEncoder, engine: ChatFormat
) -> None:
    chat = Chat((Turn("What is a dog?", "An animal."), Turn("And a cat?", "One too.")))
    messages = _messages(chat)[1:-1]
    wanted = engine.prompt(messages, None, TemplateOptions(ThinkingLevel.NONE))
    assert encoder.prompt(chat, thinks=False) == wanted.token_ids


def test_a_whole_chat_is_its_prompts_and_answers(encoder: ChatEncoder) -> None:
    whole = encoder.encode(CHAT)
    prompt = encoder.prompt(CHAT, thinks=True)
    assert whole.ids[: len(prompt)] == prompt
    assert len(whole.ids) == len(whole.weights)


def test_only_what_the_model_writes_carries_loss(encoder: ChatEncoder) -> None:
    chat = encoder.encode(CHAT)
    written = [i for i, w in zip(chat.ids, chat.weights, strict=True) if w > 0]
    text = encoder.tokenizer.decode(written, skip_special_tokens=False)
    assert text == (
        "This is about a dog.\n</think>\n\nAn animal.<|im_end|>"
        "I call it.\n</think>\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n"
        "</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call><|im_end|>"
        "I use it.\n</think>\n\nIt is 17 degrees.<|im_end|>"
        "A cat.\n</think>\n\nOne too.<|im_end|>"
    )
