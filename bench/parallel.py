"""What do four streams give against one, and how long does a stream stand still for a long prompt?

    python bench/parallel.py --rounds 5 --tokens 300

Starts our server with the given model and asks it over HTTP. One stream and several at once alternate;
the medians count. Then a long prompt arrives while a stream runs; the gap between two of the stream's
events is the pause. Clocks are on this side, token counts are the server's. With `--bare` the scheduler
is measured in this process too, without pipes and HTTP: the difference is what streaming adds.

Nothing is drafted unless `--drafts` says so: drafts speed up one stream of text that repeats itself, and
what is compared here would be another thing each time.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import selectors
import socket
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.server_process import HOST, ServerError, ServerProcess  # noqa: E402  # needs the path
from engine.core.config import RunConfig  # noqa: E402
from engine.sequence.scheduler import Scheduler  # noqa: E402
from engine.worker.loading import load_model  # noqa: E402
from engine.worker.messages import SamplingParams, Start  # noqa: E402

PROMPT = "Tell me a long story."
FILLER = "The quick brown fox jumps over the lazy dog. "


@dataclass(slots=True)
class Stream:
    """One streamed answer as it arrived.

    Attributes:
        began_at: when it was asked for.
        event_times: of each read that brought events of the answer.
        tokens: of the answer, as the server counted them.
    """

    connection: socket.socket
    began_at: float
    event_times: list[float] = field(default_factory=list)
    tokens: int = 0
    _rest: bytes = b""
    _last: bytes = b""

    def read(self) -> bool:
        """Take what has arrived; False at the end."""
        data = self.connection.recv(1 << 16)
        now = time.perf_counter()
        if not data:
            self._finish()
            return False
        self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                self._last = line
                if b'"content":"' in line and b'"role"' not in line:
                    self.event_times.append(now)
        return True

    @property
    def longest_gap_s(self) -> float:
        """Between two events of the answer."""
        times = self.event_times
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)

    def _finish(self) -> None:
        self.connection.close()
        usage = json.loads(self._last[6:] or b"{}").get("usage") if self._last else None
        if not usage:
            raise ServerError("A stream ended without its counts: " + self._last[:300].decode())
        self.tokens = int(usage["completion_tokens"])


def main() -> int:
    """Measure and print; 0."""
    parser = argparse.ArgumentParser(description="Parallel streams over HTTP.")
    parser.add_argument("--model", type=Path, default=ROOT / "assets/models/stratum-tiny.gguf")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=300, help="of each answer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, default=4096, help="of the long prompt")
    parser.add_argument("--threads", type=int, default=0, help="of the engine; 0 = its default")
    parser.add_argument("--bare", action="store_true", help="measure without a server too")
    parser.add_argument("--drafts", action="store_true", help="the server drafts as by default")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    report: dict[str, object] = {}
    if arguments.bare:
        report["bare"] = measure_bare(arguments)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "engine", "serve", "--model", str(arguments.model)]
        command += ["--port", "{port}", "--threads", str(arguments.threads)]
        command += ["--parallel", str(arguments.streams), "--repeat-stop-tokens", "0"]
        if not arguments.drafts:
            command += ["--no-spec-lookup", "--no-spec-ngram", "--spec-mtp", "0"]
        with ServerProcess("Stratum", command, Path(folder) / "log") as server:
            banned = stop_ids(server.port)
            report["http"] = measure_rates(server.port, arguments, banned)
            report["processor"] = measure_processor(server, arguments, banned)
            report["pause"] = measure_pause(server.port, arguments, banned)
    if arguments.json:
        print(json.dumps(report))
        return 0
    for name, part in report.items():
        print(name)
        for key, value in part.items() if isinstance(part, dict) else ():
            print(f"  {key:<26} {value}")
    return 0


def measure_rates(
    port: int, arguments: argparse.Namespace, banned: dict[str, float]
) -> dict[str, object]:
    """Tokens per second of one stream, and of several together."""
    one, many = arguments.tokens, arguments.streams
    rate(port, 1, one, banned)  # warm
    alone: list[float] = []
    together: list[float] = []
    for _ in range(arguments.rounds):
        alone.append(rate(port, 1, one, banned))
        together.append(rate(port, many, one, banned))
    ratios = [b / a for a, b in zip(alone, together, strict=True)]
    return {
        "one_per_s": round(statistics.median(alone), 1),
        f"{many}_per_s": round(statistics.median(together), 1),
        "ratio": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
    }


def measure_processor(
    server: ServerProcess, arguments: argparse.Namespace, banned: dict[str, float]
) -> dict[str, object]:
    """Processor time per token of front and worker: what rates would be on an idle machine.

    The front and the worker are processes of their own; the slower of them sets the pace.
    """
    report: dict[str, object] = {}
    for count in (1, arguments.streams):
        before = processor_times(server)
        for _ in range(arguments.rounds):
            rate(server.port, count, arguments.tokens, banned)
        tokens = count * arguments.tokens * arguments.rounds
        for name, spent_s in processor_times(server).items():
            report[f"{name}_us_per_token_{count}"] = round((spent_s - before[name]) / tokens * 1e6)
    return report


def processor_times(server: ServerProcess) -> dict[str, float]:
    """Seconds of processor time so far."""
    front, *children = server.processes()
    return {
        name: sum(times.user + times.system for times in (p.cpu_times() for p in processes))
        for name, processes in (("front", [front]), ("worker", children))
    }


def rate(port: int, count: int, tokens: int, banned: dict[str, float]) -> float:
    """Tokens per second of all streams, from the first event to the last."""
    streams = [ask(port, PROMPT, tokens, banned, seed) for seed in range(count)]
    read_all(streams)
    first = min(stream.event_times[0] for stream in streams)
    last = max(stream.event_times[-1] for stream in streams)
    return sum(stream.tokens - 1 for stream in streams) / (last - first)


def measure_pause(
    port: int, arguments: argparse.Namespace, banned: dict[str, float]
) -> dict[str, object]:
    """The longest gap in a stream while a long prompt is read, and without one."""
    words = (FILLER * arguments.prompt_tokens)[: 5 * arguments.prompt_tokens]
    count = count_tokens(port, words)
    words = words[: int(len(words) * arguments.prompt_tokens / count)]
    gaps: list[float] = []
    quiet: list[float] = []
    reads: list[float] = []
    for index in range(max(1, arguments.rounds // 2)):
        calm = ask(port, PROMPT, arguments.tokens, banned, index)
        read_all([calm])
        quiet.append(calm.longest_gap_s)
        running = ask(port, PROMPT, 4000, banned, index)
        for _ in range(5):
            running.read()
        long = ask(port, f"{index} {words}", 2, banned, index)
        read_all([running, long], until=long)
        reads.append(long.event_times[0] - long.began_at)
        during = [t for t in running.event_times if long.began_at <= t <= long.event_times[0]]
        edges = [long.began_at, *during, long.event_times[0]]
        gaps.append(max(b - a for a, b in itertools.pairwise(edges)))
        running.connection.close()
    return {
        "prompt_tokens": count_tokens(port, words),
        "prompt_read_s": round(statistics.median(reads), 2),
        "longest_gap_ms": round(max(gaps) * 1000, 1),
        "median_gap_ms": round(statistics.median(gaps) * 1000, 1),
        "longest_gap_alone_ms": round(statistics.median(quiet) * 1000, 1),
    }


def ask(port: int, prompt: str, tokens: int, banned: dict[str, float], seed: int) -> Stream:
    """Send one request; its answer has exactly so many tokens."""
    body = json.dumps(
        {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": tokens,
            "reasoning_effort": "none",
            "seed": seed,
            "logit_bias": banned,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    connection = socket.create_connection((HOST, port), 60)
    began_at = time.perf_counter()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return Stream(connection, began_at)


def read_all(streams: list[Stream], until: Stream | None = None) -> None:
    """Read streams to their ends, or until one of them has ended."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.connection, selectors.EVENT_READ, stream)
        while selector.get_map():
            for key, _ in selector.select(60):
                connection = key.fileobj
                if not key.data.read():
                    selector.unregister(connection)
                    if key.data is until:
                        return


def stop_ids(port: int) -> dict[str, float]:
    """A logit bias that keeps answers from ending before their last token."""
    tokens = post(port, "/tokenize", {"content": "<|im_end|><|endoftext|>"})["tokens"]
    return {str(token): -100.0 for token in tokens}  # type: ignore[attr-defined]


def count_tokens(port: int, text: str) -> int:
    """Tokens of a text."""
    return len(post(port, "/tokenize", {"content": text})["tokens"])  # type: ignore[arg-type]


def post(port: int, path: str, body: dict[str, object]) -> dict[str, object]:
    """One JSON answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    value = json.loads(connection.getresponse().read())
    connection.close()
    if not isinstance(value, dict):
        raise ServerError(f"{path} answered something else than an object.")
    return value


def measure_bare(arguments: argparse.Namespace) -> dict[str, object]:
    """The same rates without pipes and HTTP."""
    config = RunConfig(model=arguments.model, threads=arguments.threads, parallel=arguments.streams)
    loaded = load_model(config)

    spent_s: dict[int, float] = {}

    def bare_rate(count: int) -> float:
        spent_at = time.process_time()
        scheduler = Scheduler(
            loaded.model, loaded.limits, lambda _: None, new_sampler=loaded.new_sampler
        )
        for seed in range(count):
            sampling = SamplingParams(
                temperature=0.7, top_p=0.8, top_k=20, presence_penalty=1.5, seed=seed
            )
            scheduler.submit(Start(f"r{seed}", (5, 6, 7), arguments.tokens, (), sampling))
        scheduler.step()
        began_at = time.perf_counter()
        while scheduler.has_work:
            scheduler.step()
        rate = float(count * (arguments.tokens - 1) / (time.perf_counter() - began_at))
        spent_s[count] = spent_s.get(count, 0.0) + time.process_time() - spent_at
        return rate

    bare_rate(1)
    spent_s.clear()
    rounds = [(bare_rate(1), bare_rate(arguments.streams)) for _ in range(arguments.rounds)]
    loaded.close()
    return {
        "one_per_s": round(statistics.median(one for one, _ in rounds), 1),
        f"{arguments.streams}_per_s": round(statistics.median(many for _, many in rounds), 1),
        "ratio": round(statistics.median(many / one for one, many in rounds), 2),
        **{
            f"us_per_token_{count}": round(
                spent / (count * arguments.tokens * arguments.rounds) * 1e6
            )
            for count, spent in spent_s.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
