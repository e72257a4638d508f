"""`GET /metrics`: Prometheus text, or the same as JSON. Scraping loads and delays nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.server.answers import json_response
from engine.server.front import Front
from engine.server.metrics import TEXT_TYPE, as_object, exposition
from engine.server.vram import CardMemory, card_memories
from engine.worker.supervisor import WorkerState


def metrics_routes(front: Front) -> list[Route]:
    """The route."""

    async def metrics(request: Request) -> Response:
        await front.warm.refresh()
        refresh_gauges(front)
        show_cards(front, await asyncio.to_thread(card_memories))  # the driver takes its time
        accepts_json = "application/json" in request.headers.get("accept", "")
        if accepts_json or request.query_params.get("format") == "json":
            return json_response(as_object(front.metrics))
        return Response(exposition(front.metrics), headers={"content-type": TEXT_TYPE})

    return [Route("/metrics", metrics)]


def show_cards(front: Front, cards: Sequence[CardMemory]) -> None:
    """Set what graphics cards hold, together and each."""
    front.metrics.vram_used.value = sum(card.used_bytes for card in cards)
    front.metrics.card_vram_used.values = {
        (str(card.index), card.name): card.used_bytes for card in cards
    }


def refresh_gauges(front: Front) -> None:
    """Set what is not counted but looked at."""
    metrics, running = front.metrics, front.active.running()
    metrics.queue_length.value = front.queue.queued
    metrics.requests_running.value = len(running)
    metrics.tokens_per_second.value = round(sum(request.tokens_per_s for request in running), 2)
    metrics.loaded.value = int(front.worker.state is WorkerState.READY)
    metrics.sessions_warm.value = front.warm.sessions
    metrics.session_tokens.value = front.warm.tokens
    metrics.session_bytes.value = front.warm.num_bytes
    metrics.take_over_disk(front.warm.disk)
    metrics.context_used.value = sum(request.prompt_read + request.generated for request in running)
