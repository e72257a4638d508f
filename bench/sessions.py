"""How soon does a warm conversation answer? Time from the request to the first piece of an answer.

    python bench/sessions.py --turns 9 --tokens 300 2000 8000

For each length a conversation is begun with a prompt of about that many tokens and gone on with, turn
by turn, streamed, over one connection. Printed are medians over the turns: until the first piece of
the answer (clock of the client), of that the worker's reading of what is new, and the text side
(template, tokens, answers' ids) computed here again; and how much of the prompts was cached. The same
turns without the cache (`session_cache_mib` 0) stand beside it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.server_process import HOST, ServerProcess  # noqa: E402  # needs the path above
from engine.core.config import RunConfig  # noqa: E402
from engine.server.answer_memory import AnswerMemory  # noqa: E402
from engine.server.model_side import open_model_side  # noqa: E402

Message = dict[str, object]
SENTENCE = "the cat sat on a mat and looked at the sea while the sun went down"
KINDS: dict[str, list[str]] = {"warm": [], "cold": ["--session-cache-mib", "0"]}
ANSWER_TOKENS = 8
REPEATS = 9  # of the text side


@dataclass(frozen=True, slots=True)
class Turn:
    """One measured turn; times in milliseconds."""

    first_ms: float
    prompt_ms: float
    prompt_tokens: int
    cached_tokens: int


def main() -> int:
    """Measure and print; 0."""
    parser = argparse.ArgumentParser(description="First token of a further turn.")
    parser.add_argument("--model", type=Path, default=None, help="default: the bundled model")
    parser.add_argument("--tokens", type=int, nargs="+", default=[300, 2000, 8000])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0, help="0 = the engine's default")
    parser.add_argument("--warm-only", action="store_true", help="leave out the comparison")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    kinds = {"warm": []} if arguments.warm_only else KINDS
    report = {name: measure(arguments, flags) for name, flags in kinds.items()}
    if arguments.json:
        print(json.dumps(report))
        return 0
    for name, rows in report.items():
        for row in rows:
            print(name, " ".join(f"{key}={value}" for key, value in row.items()))
    return 0


def measure(arguments: argparse.Namespace, flags: list[str]) -> list[dict[str, float]]:
    """Medians for each length."""
    context = max(arguments.tokens) + 4096
    command = [sys.executable, "-m", "engine", "serve", "--port", "{port}"]
    command += ["--context", str(context), "--threads", str(arguments.threads), *flags]
    if arguments.model is not None:
        command += ["--model", str(arguments.model)]
    return [measure_one(arguments, command, tokens) for tokens in arguments.tokens]


def measure_one(arguments: argparse.Namespace, command: list[str], tokens: int) -> dict[str, float]:
    """Medians of one conversation on a server of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess("Stratum", command, Path(folder) / "log.txt") as server,
    ):
        connection = http.client.HTTPConnection(HOST, server.port, timeout=600)
        messages: list[Message] = [{"role": "user", "content": text_of(tokens)}]
        turns: list[Turn] = []
        for index in range(arguments.turns + 1):
            turn, answer = ask(connection, messages)
            turns.append(turn)
            messages += [answer, {"role": "user", "content": f"And then, number {index}?"}]
        connection.close()
    followers = turns[1:]
    return {
        "prompt_tokens": followers[-1].prompt_tokens,
        "cached_tokens": followers[-1].cached_tokens,
        "opening_first_ms": round(turns[0].first_ms, 1),
        "first_ms": median(turn.first_ms for turn in followers),
        "prompt_ms": median(turn.prompt_ms for turn in followers),
        "text_side_ms": text_side_ms(arguments, messages),
    }


def ask(connection: http.client.HTTPConnection, messages: list[Message]) -> tuple[Turn, Message]:
    """One streamed turn: what it took, and the answer as a client sends it back."""
    fields = {
        "model": "any",
        "messages": messages,
        "max_tokens": ANSWER_TOKENS,
        "temperature": 0,
        "reasoning_effort": "none",
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body = json.dumps(fields)
    began_at = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != http.HTTPStatus.OK:
        raise SystemExit(f"the server answered {response.status}: {response.read(500)!r}")
    first_at = 0.0
    pieces: list[str] = []
    usage: dict[str, object] = {}
    for event in events(response):
        for choice in event["choices"]:
            piece = choice["delta"].get("content")
            if piece:
                first_at = first_at or time.perf_counter()
                pieces.append(piece)
        if event.get("usage"):
            usage = event
    counts, timings = usage["usage"], usage["timings"]
    turn = Turn(
        first_ms=(first_at - began_at) * 1000,
        prompt_ms=timings["prompt_ms"],
        prompt_tokens=counts["prompt_tokens"],
        cached_tokens=counts["prompt_tokens_details"]["cached_tokens"],
    )
    return turn, {"role": "assistant", "content": "".join(pieces)}


def events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The data of the stream's events."""
    for line in response:
        data = line.decode().strip().removeprefix("data: ")
        if data.startswith("{"):
            yield json.loads(data)


def text_side_ms(arguments: argparse.Namespace, messages: list[Message]) -> float:
    """From messages to token ids, in this process."""
    config = RunConfig(model=arguments.model)
    side = open_model_side(config, config.model_path, None)
    memory = AnswerMemory(side.tokenizer)
    took: list[float] = []
    for _ in range(REPEATS):
        began_at = time.perf_counter()
        memory.reuse(side.chat.prompt(messages).token_ids, messages)
        took.append((time.perf_counter() - began_at) * 1000)
    return median(took)


def text_of(num_tokens: int) -> str:
    """A text of about so many tokens."""
    words = SENTENCE.split()
    return " ".join(words[index % len(words)] for index in range(num_tokens))


def median(values: Iterable[float]) -> float:
    """Rounded to 0.1."""
    return round(statistics.median(values), 1)


if __name__ == "__main__":
    sys.exit(main())
