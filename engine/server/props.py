"""`GET /props` and `GET /slots`: what llama.cpp's clients ask a server about itself."""

from __future__ import annotations

import dataclasses

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine import __version__
from engine.core.config import Effort
from engine.server.answers import json_response
from engine.server.front import Front
from engine.server.sampling_fields import default_sampling
from engine.worker.supervisor import WorkerState

JsonObject = dict[str, object]

CAPABILITIES = ("completion", "chat", "tools", "thinking", "structured_output")
# Sampling values that are no defaults of anybody: they belong to one request.
PER_REQUEST = ("logit_bias", "top_logprobs", "seed")


def props_routes(front: Front) -> list[Route]:
    """The routes. Neither loads the model."""

    async def props(_request: Request) -> Response:
        return json_response(describe(front))

    async def slots(_request: Request) -> Response:
        return json_response(list_slots(front))

    return [Route("/props", props), Route("/slots", slots)]


def describe(front: Front) -> JsonObject:
    """The whole object."""
    model = front.model
    effort = front.config.default_reasoning_effort
    ready = front.worker.ready
    params = dataclasses.asdict(default_sampling(effort, front.config.sampling))
    return {
        "default_generation_settings": {
            "n_ctx": front.context,
            "params": {
                **{key: value for key, value in params.items() if key not in PER_REQUEST},
                "seed": -1,
                "n_predict": -1,
            },
        },
        "total_slots": front.config.parallel,
        "model_alias": model.name,
        "model_path": model.file_name,
        "chat_template": model.chat.template.source,
        "chat_template_caps": {
            "supports_tools": True,
            "supports_tool_calls": True,
            "supports_system_role": True,
            "supports_parallel_tool_calls": True,
        },
        "modalities": {"vision": False, "audio": False},
        "reasoning": {"levels": [level.value for level in Effort], "default": effort.value},
        "capabilities": list(CAPABILITIES),
        "card_notice": (ready.card_notice or None) if ready is not None else None,
        "build_info": f"stratum {__version__}" + (f" ({ready.ops})" if ready is not None else ""),
        "is_sleeping": front.worker.state is WorkerState.UNLOADED,
    }


def list_slots(front: Front) -> list[JsonObject]:
    """One entry for each request that can run; never a text."""
    by_slot = {request.ticket.slot: request for request in front.active.running()}
    slots: list[JsonObject] = []
    for slot in range(front.config.parallel):
        request = by_slot.get(slot)
        slots.append(
            {
                "id": slot,
                "n_ctx": front.context,
                "is_processing": request is not None,
                "n_past": request.prompt_read + request.generated if request is not None else 0,
                "request_id": request.request_id if request is not None else None,
            }
        )
    return slots
