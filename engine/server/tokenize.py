"""`/tokenize`, `/detokenize` and `/apply-template`: the text side alone, also while unloaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.core.errors import InputError
from engine.server.answers import json_response
from engine.server.bodies import parse_object, read_body
from engine.server.chat_request import read_chat_request
from engine.server.errors import invalid_type, invalid_value, missing
from engine.server.fields import Fields, as_integer
from engine.server.front import Front
from engine.server.prepared import render
from engine.text.tokenizer import Tokenizer

JsonObject = dict[str, object]


def tokenize_routes(front: Front) -> list[Route]:
    """The routes."""

    def route(path: str, work: Callable[[Front, JsonObject], JsonObject]) -> Route:
        async def endpoint(request: Request) -> Response:
            raw = await read_body(request, front.config.max_body_mib)
            # In a thread: a long text must not hold up the streams of others.
            return json_response(await asyncio.to_thread(_answer, raw))

        def _answer(raw: bytes) -> JsonObject:
            return work(front, parse_object(raw))

        return Route(path, endpoint, methods=["POST"])

    return [
        route("/tokenize", tokenize),
        route("/detokenize", detokenize),
        route("/apply-template", apply_template),
    ]


def tokenize(front: Front, data: JsonObject) -> JsonObject:
    """The token ids of a text."""
    body, tokenizer = Fields(data), front.model.tokenizer
    content = body.required_string("content")
    with_pieces = body.boolean("with_pieces") is True
    body.boolean("add_special")  # the vocabularies of this family have no token to add
    parse_special = body.boolean("parse_special") is not False
    try:
        ids = tokenizer.encode(content, parse_special=parse_special)
    except InputError as error:
        raise invalid_value(
            "content", "cannot be tokenized: " + error.message.rstrip(".")
        ) from error
    if not with_pieces:
        return {"tokens": ids}
    return {"tokens": [{"id": token_id, "piece": _piece(tokenizer, token_id)} for token_id in ids]}


def _piece(tokenizer: Tokenizer, token_id: int) -> str | list[int]:
    data = tokenizer.token_bytes(token_id)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return list(data)


def detokenize(front: Front, data: JsonObject) -> JsonObject:
    """The text of token ids."""
    tokenizer = front.model.tokenizer
    values = Fields(data).array("tokens")
    if values is None:
        raise missing("tokens")
    ids = read_token_ids(values, "tokens", tokenizer.vocab_size)
    return {"content": tokenizer.decode(ids, skip_control=False)}


def read_token_ids(values: list[object], path: str, vocab_size: int) -> list[int]:
    """Token ids of a request.

    Raises:
        ApiError: 400: something else, or an id that the model does not have.
    """
    ids: list[int] = []
    for index, value in enumerate(values):
        token_id = as_integer(value)
        if token_id is None:
            raise invalid_type(f"{path}[{index}]", "a token id", value)
        if not 0 <= token_id < vocab_size:
            reason = f"is no token id; ids go from 0 to {vocab_size - 1}"
            raise invalid_value(f"{path}[{index}]", reason)
        ids.append(token_id)
    return ids


def apply_template(front: Front, data: JsonObject) -> JsonObject:
    """The prompt that a chat body becomes, as text, and its length."""
    chat = read_chat_request(data, front.config, front.model.vocab_size)
    ids = render(front, chat.generation.conversation, is_bounded=False).token_ids
    text = front.model.tokenizer.decode(ids, skip_control=False)
    return {"prompt": text, "n_tokens": len(ids)}
