"""`GET /v1/models`: one list that the OpenAI and the Anthropic SDK both read (spec/api.md 1)."""

from __future__ import annotations

import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.server.answers import json_response
from engine.server.front import Front, unknown_model
from engine.worker.supervisor import WorkerState

JsonObject = dict[str, object]

MODEL_STATES = {WorkerState.READY: "loaded", WorkerState.LOADING: "loading"}


def models_routes(front: Front) -> list[Route]:
    """The routes. None of them loads the model."""

    async def list_models(request: Request) -> Response:
        names = [front.model.name, *front.model.aliases]
        body: JsonObject = {
            "object": "list",
            "data": [model_entry(front, name) for name in names],
            "has_more": False,
            "first_id": names[0],
            "last_id": names[-1],
        }
        if "client_version" in request.query_params:
            body["models"] = []  # Codex logs a decode error without this key
        return json_response(body)

    async def retrieve_model(request: Request) -> Response:
        model_id = request.path_params["model_id"]  # may hold slashes
        if not front.model.knows(model_id):
            raise unknown_model(model_id)
        return json_response(model_entry(front, model_id))

    return [
        Route("/v1/models", list_models),
        Route("/models", list_models),
        Route("/v1/models/{model_id:path}", retrieve_model),
    ]


def model_entry(front: Front, name: str) -> JsonObject:
    """What the list says about one name of the model."""
    model = front.model
    created_at = datetime.datetime.fromtimestamp(model.created, datetime.UTC)
    return {
        "id": name,
        "object": "model",
        "created": model.created,
        "owned_by": "local",
        "type": "model",
        "display_name": name,
        "created_at": created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": front.context,
        "max_tokens": front.context,
        "context_length": front.context,
        "meta": {
            "n_ctx": front.context,
            "n_ctx_train": model.trained_context,
            "n_vocab": model.vocab_size,
        },
        "status": {"value": MODEL_STATES.get(front.worker.state, "unloaded")},
        "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
        "aliases": list(model.aliases) if name == model.name else [],
    }
