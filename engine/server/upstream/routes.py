"""The routes that are others when an upstream answers; they stand before the usual ones.

Messages and Responses stay the usual routes: their requests reach the upstream as chat requests
(`answer.py`). What needs the model's own tokenizer or weights is refused with a sentence.
"""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message

from engine.server.answers import json_response, unless_gone
from engine.server.bodies import parse_object, read_body
from engine.server.errors import ApiError
from engine.server.front import Front
from engine.server.status import describe
from engine.server.upstream.client import Upstream
from engine.server.upstream.configured import UPSTREAM_PARALLEL
from engine.server.upstream.forwarding import forward

JsonObject = dict[str, object]

# Below the model's own machine; there is none here.
NOT_HERE = (
    *("/tokenize", "/detokenize", "/apply-template", "/load", "/unload", "/v1/load", "/v1/unload"),
    *("/v1/messages/count_tokens", "/v1/responses/input_tokens"),
)
GET_NOT_HERE = ("/props", "/slots")


def upstream_routes(front: Front, upstream: Upstream, chat: Route) -> list[Route]:
    """The routes.

    Args:
        front: the server.
        upstream: who answers.
        chat: the usual chat route, for requests that want our MCP tools.
    """

    async def chat_completions(request: Request) -> Response:
        raw = await read_body(request, front.config.max_body_mib)
        body = parse_object(raw)
        if body.get("stratum_mcp"):
            answer: Response = await chat.endpoint(_with_body(request, raw))
            return answer
        path = "/chat/completions"
        return await forward(front, upstream, request, body, protocol="chat", path=path)

    async def completions(request: Request) -> Response:
        body = parse_object(await read_body(request, front.config.max_body_mib))
        path = "/completions"
        return await forward(front, upstream, request, body, protocol="completions", path=path)

    async def models(request: Request) -> Response:
        entries = await unless_gone(request, upstream.models())
        body = model_list(entries)
        if "client_version" in request.query_params:
            body["models"] = []  # Codex logs a decode error without this key
        return json_response(body)

    async def model(request: Request) -> Response:
        model_id = request.path_params["model_id"]
        entries = await unless_gone(request, upstream.models())
        for entry in entries:
            if entry["id"] == model_id:
                return json_response(model_entry(entry))
        raise ApiError(404, "model_not_found", "The upstream does not serve this model.")

    async def health(_request: Request) -> Response:
        return json_response(
            {"status": "ok", "loaded": upstream.is_reachable is not False, "upstream": True}
        )

    async def status(_request: Request) -> Response:
        return json_response({**describe(front), **upstream_status(front, upstream)})

    async def not_here(_request: Request) -> Response:
        raise not_possible(upstream.shown)

    return [
        Route("/v1/chat/completions", chat_completions, methods=["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/models", models),
        Route("/models", models),
        Route("/v1/models/{model_id:path}", model),
        Route("/health", health),
        Route("/v1/health", health),
        Route("/status", status),
        Route("/v1/status", status),
        *(Route(path, not_here, methods=["POST"]) for path in NOT_HERE),
        *(Route(path, not_here) for path in GET_NOT_HERE),
    ]


def _with_body(request: Request, raw: bytes) -> Request:
    """The request with its body to be read a second time."""
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:
            return await request.receive()
        is_read = True
        return {"type": "http.request", "body": raw, "more_body": False}

    return Request(request.scope, receive)


def not_possible(shown: str) -> ApiError:
    """400 for what only a model on this machine can do."""
    return ApiError(
        400,
        "unsupported_value",
        f"This server passes requests on to {shown} and has no model of its own, so it cannot do "
        "this. Ask that server, or start this one without upstream.",
    )


def upstream_status(front: Front, upstream: Upstream) -> JsonObject:
    """The parts of `/status` that are others."""
    phases = {request.phase.value for request in front.active}
    busy = ("tool_call", "answering", "thinking", "reading")
    state = next((phase for phase in busy if phase in phases), "idle")
    return {
        "state": state,
        "loaded": upstream.is_reachable is not False,
        "limits": {
            "body_mib": front.config.max_body_mib,
            "queue_max": front.config.queue_max,
            "parallel": UPSTREAM_PARALLEL,
            "n_ctx": None,
        },
        "upstream": {"url": upstream.shown, "reachable": upstream.is_reachable},
        "structured_output": None,  # the upstream's matter
        "auto_load": False,
    }


def model_list(entries: list[JsonObject]) -> JsonObject:
    """The upstream's list in the shape that both SDKs read."""
    data = [model_entry(entry) for entry in entries]
    return {
        "object": "list",
        "data": data,
        "has_more": False,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }


def model_entry(entry: JsonObject) -> JsonObject:
    """One entry; what the upstream says wins."""
    created = entry.get("created")
    seconds = created if isinstance(created, int) else 0
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    context = entry.get("max_model_len", entry.get("context_length"))
    known: JsonObject = {}
    if isinstance(context, int):
        known = {"max_input_tokens": context, "max_tokens": context, "context_length": context}
    return {
        "object": "model",
        "created": seconds,
        "owned_by": "upstream",
        "type": "model",
        "display_name": entry["id"],
        "created_at": stamp,
        "lifecycle": "active",
        **known,
        **entry,
    }
