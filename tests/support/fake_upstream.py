"""An OpenAI-compatible server that answers as vLLM writes its answers, or badly, as the text asks.

Runs in a thread of the test process; `seen` holds headers and bodies, `gone` counts clients that left.
"""

import asyncio
import contextlib
import json
import socket
import threading

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

MODEL = "org/big-model"
USAGE = {
    "prompt_tokens": 21,
    "completion_tokens": 9,
    "total_tokens": 30,
    "prompt_tokens_details": {"cached_tokens": 16},
}


def deltas(text):
    """The deltas of one answer and its finish reason, in vLLM's shapes."""
    if "TOOL" in text:
        first = {"name": "get_weather", "arguments": '{"city":'}
        call = {"index": 0, "id": "chatcmpl-tool-1", "type": "function", "function": first}
        rest = {"index": 0, "function": {"arguments": '"Rome"}'}}
        second = {"name": "now", "arguments": "{}"}
        other = {"index": 1, "id": "chatcmpl-tool-2", "type": "function", "function": second}
        return [
            {"tool_calls": [call]},
            {"tool_calls": [rest]},
            {"tool_calls": [other]},
        ], "tool_calls"
    if "CUT" in text:
        call = {"index": 0, "id": "c", "function": {"name": "now", "arguments": '{"a'}}
        return [{"content": "Half"}, {"tool_calls": [call]}], "length"
    thinking = [{"reasoning": "I "}, {"reasoning": "think."}]
    return [*thinking, {"content": "Big "}, {"content": "answer. ü"}], "stop"


class FakeUpstream:
    """The server."""

    def __init__(self):
        self.seen = []
        self.gone = 0
        self.began = threading.Event()
        app = Starlette(
            routes=[
                Route("/v1/models", self.models),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/completions", self.chat, methods=["POST"]),
            ]
        )
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        self.thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True
        )
        self.thread.start()

    def close(self):
        self.server.force_exit = self.server.should_exit = True
        self.thread.join(60)
        self.listener.close()

    async def models(self, request):
        self.seen.append((dict(request.headers), None))
        entry = {"id": MODEL, "object": "model", "owned_by": "vllm", "max_model_len": 262144}
        return JSONResponse({"object": "list", "data": [{**entry, "created": 1700000000}]})

    async def chat(self, request):
        body = await request.json()
        self.seen.append((dict(request.headers), body))
        messages = body.get("messages") or [{"content": body.get("prompt", "")}]
        text = str(messages[-1]["content"])
        for status in (400, 401, 429, 500):
            if f"STATUS{status}" in text:
                message = "This model's maximum context length is 10 tokens. Use fewer."
                error = {"object": "error", "message": message, "code": status, "param": None}
                headers = {"retry-after": "7"} if status == 429 else {}
                return JSONResponse(error, status, headers)
        if "LATE" in text:
            self.began.set()
            await self.wait_for_goodbye(request)
        if body.get("stream"):
            return StreamingResponse(self.stream(request, text), media_type="text/event-stream")
        message = {"role": "assistant", "content": "Big answer.", "reasoning": "I think."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse(
            {
                "id": "x",
                "object": "chat.completion",
                "model": MODEL,
                "choices": [choice],
                "usage": USAGE,
            }
        )

    async def wait_for_goodbye(self, request):
        for _ in range(3000):
            if await request.is_disconnected():
                self.gone += 1
                return
            await asyncio.sleep(0.02)

    async def stream(self, request, text):
        head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL}

        def chunk(delta, finish=None):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            if "STOPPED" in text and finish == "stop":
                choice["stop_reason"] = "END"
            return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"

        yield chunk({"role": "assistant", "content": ""})
        if "GARBAGE" in text:
            yield "data: {not json\n\n"
        if "ERRMID" in text:
            yield 'data: {"error": {"message": "the engine died", "code": 500}}\n\n'
        if "BREAK" in text:
            yield chunk({"content": "Big "})
            return
        parts, finish = deltas(text)
        for part in parts:
            yield chunk(part)
            if "SILENT" in text:
                self.began.set()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)
                self.gone += 1
                return
        yield chunk({}, finish)
        yield f"data: {json.dumps({**head, 'choices': [], 'usage': USAGE})}\n\n"
        yield "data: [DONE]\n\n"
