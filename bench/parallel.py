"""What does streaming add, what do four streams give against one, and how long does one stand still?

    python -m bench.parallel --rounds 5 --tokens 300

Starts our server with the given model and asks it over HTTP. All that is compared is done in turn, round
by round, and the medians of the rounds count; on a busy machine look at the fastest ones, and at processor
times. Clocks are on this side, token counts are the server's.

`streaming` compares a token's time in the same answer done in three ways: `bare` (a scheduler in this
process, without pipe and HTTP, with the same prompt and sampling; only with `--bare`), `whole` (over HTTP,
`stream: false`: from the request to its last byte) and `streamed` (the same with `stream: true`; and from
the first event to the last, which is what bare steps compare with).

`four` compares several streams with one. Last, a long prompt arrives while a stream runs; the gap between
two of the stream's events is the pause.

Nothing is drafted unless `--drafts` says so: drafts speed up one stream of text that repeats itself, and
what is compared here would be another thing each time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.bare_scheduler import BareScheduler  # noqa: E402  # needs the path
from bench.server_process import ServerProcess  # noqa: E402
from bench.streams import (  # noqa: E402
    PROMPT,
    Stream,
    ask,
    prompt_ids,
    read_all,
    stop_ids,
    token_ids,
)

# Before each measured answer, in the same way: the one before it was another process's, and what one
# process computes with drives what the other one needs out of the caches.
WARM_TOKENS = 60
FILLER = "The quick brown fox jumps over the lazy dog. "


@dataclass(slots=True)
class Way:
    """One way of doing the same, as its rounds went; seconds for a token.

    Attributes:
        decode_s: between the first token and the last, for all streams together.
        whole_s: from the request to the last byte.
        processor_s: of each process, summed over the rounds.
        tokens: of all rounds.
    """

    decode_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    processor_s: dict[str, float] = field(default_factory=dict)
    tokens: int = 0

    def spent(self, tokens: int, processor_s: dict[str, float]) -> None:
        """Add a round's processor time."""
        self.tokens += tokens
        for name, seconds in processor_s.items():
            self.processor_s[name] = self.processor_s.get(name, 0.0) + seconds

    def report(self) -> dict[str, object]:
        """Microseconds for a token."""
        times = {"decode_us": self.decode_s, "whole_us": self.whole_s}
        return {
            **{
                name: f"{_us(statistics.median(values))} (fastest {_us(min(values))})"
                for name, values in times.items()
                if values
            },
            **{
                f"{name}_processor_us": _us(seconds / self.tokens)
                for name, seconds in self.processor_s.items()
            },
        }


class Bench:
    """A server under measurement, and where wanted a scheduler beside it."""

    def __init__(self, server: ServerProcess, arguments: argparse.Namespace) -> None:
        self.port = server.port
        self.tokens: int = arguments.tokens
        self.rounds: int = arguments.rounds
        self.streams: int = arguments.streams
        self.banned = stop_ids(server.port)
        self._server = server
        self._bare: BareScheduler | None = None
        if arguments.bare:
            self._bare = BareScheduler(
                arguments.model,
                arguments.threads,
                arguments.streams,
                prompt_ids(server.port),
                self.banned,
            )

    def close(self) -> None:
        """Give the scheduler's model back."""
        if self._bare is not None:
            self._bare.close()

    def measure_streaming(self) -> dict[str, object]:
        """One answer bare, whole and streamed."""
        bare, whole, streamed = Way(), Way(), Way()
        texts: set[str] = set()
        for index in range(self.rounds + 1):
            ways = (Way(), Way(), Way()) if not index else (bare, whole, streamed)  # 0 is to warm
            if self._bare is not None:
                self._run_bare(ways[0], 1)
            texts |= self._run_http(ways[1], 1, is_streamed=False)
            texts |= self._run_http(ways[2], 1)
        report: dict[str, object] = {
            "same_text": len(texts) == 1,
            "whole": whole.report(),
            "streamed": streamed.report(),
            "streamed_to_whole": _ratios(streamed.whole_s, whole.whole_s),
        }
        if self._bare is not None:
            report["bare"] = bare.report()
            report["streamed_to_bare"] = _ratios(streamed.decode_s, bare.decode_s)
        return report

    def measure_parallel(self) -> dict[str, object]:
        """Tokens per second of one stream, and of several together."""
        counts = (1, self.streams)
        ways = {count: (Way(), Way()) for count in counts}
        for index in range(self.rounds + 1):
            for count in counts:
                bare, streamed = ways[count] if index else (Way(), Way())
                if self._bare is not None:
                    self._run_bare(bare, count)
                self._run_http(streamed, count)
        report: dict[str, object] = {}
        for kind, name in enumerate(("bare", "http")):
            one, many = (ways[count][kind] for count in counts)
            if one.decode_s:
                report[name] = {
                    "one_per_s": round(1 / statistics.median(one.decode_s), 1),
                    f"{self.streams}_per_s": round(1 / statistics.median(many.decode_s), 1),
                    "ratio": _ratios(one.decode_s, many.decode_s),
                    "one": one.report(),
                    f"{self.streams}": many.report(),
                }
        return report

    def measure_pause(self, prompt_tokens: int) -> dict[str, object]:
        """The longest gap in a stream while a long prompt is read, and without one."""
        port, banned = self.port, self.banned
        words = (FILLER * prompt_tokens)[: 5 * prompt_tokens]
        words = words[: int(len(words) * prompt_tokens / len(token_ids(port, words)))]
        gaps: list[float] = []
        quiet: list[float] = []
        reads: list[float] = []
        for index in range(max(1, self.rounds // 2)):
            calm = ask(port, PROMPT, self.tokens, banned, index)
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
            "prompt_tokens": len(token_ids(port, words)),
            "prompt_read_s": round(statistics.median(reads), 2),
            "longest_gap_ms": round(max(gaps) * 1000, 1),
            "median_gap_ms": round(statistics.median(gaps) * 1000, 1),
            "longest_gap_alone_ms": round(statistics.median(quiet) * 1000, 1),
        }

    def _run_bare(self, way: Way, count: int) -> None:
        assert self._bare is not None  # noqa: S101  # the caller has looked
        self._bare.run(count, WARM_TOKENS)
        run = self._bare.run(count, self.tokens)
        num_steps = count * (self.tokens - 1)
        way.decode_s.append(run.decode_s / num_steps)
        way.spent(num_steps, {"bare": run.processor_s})

    def _run_http(self, way: Way, count: int, *, is_streamed: bool = True) -> set[str]:
        """Answers over HTTP; the text of the first one."""
        self._answers(count, WARM_TOKENS, is_streamed=is_streamed)
        before, client_before = processor_times(self._server), time.process_time()
        streams = self._answers(count, self.tokens, is_streamed=is_streamed)
        client_s = time.process_time() - client_before
        spent_s = {
            name: seconds - before[name] for name, seconds in processor_times(self._server).items()
        }
        num_tokens = sum(stream.tokens for stream in streams)
        way.spent(num_tokens, {**spent_s, "client": client_s})
        began_at = min(stream.began_at for stream in streams)
        way.whole_s.append((max(stream.ended_at for stream in streams) - began_at) / num_tokens)
        if is_streamed:
            first = min(stream.event_times[0] for stream in streams)
            last = max(stream.event_times[-1] for stream in streams)
            way.decode_s.append((last - first) / (num_tokens - count))
        return {streams[0].text}

    def _answers(self, count: int, tokens: int, *, is_streamed: bool) -> list[Stream]:
        streams = [
            ask(self.port, PROMPT, tokens, self.banned, seed, is_streamed) for seed in range(count)
        ]
        read_all(streams)
        return streams


def main() -> int:
    """Measure and print; 0."""
    parser = argparse.ArgumentParser(description="What streaming and parallel streams cost.")
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
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "engine", "serve", "--model", str(arguments.model)]
        command += ["--port", "{port}", "--threads", str(arguments.threads)]
        command += ["--parallel", str(arguments.streams), "--repeat-stop-tokens", "0"]
        if not arguments.drafts:
            command += ["--no-spec-lookup", "--no-spec-ngram", "--spec-mtp", "0"]
        with ServerProcess("Stratum", command, Path(folder) / "log") as server:
            bench = Bench(server, arguments)
            report["streaming"] = bench.measure_streaming()
            report["four" if arguments.streams == 4 else "several"] = bench.measure_parallel()
            report["pause"] = bench.measure_pause(arguments.prompt_tokens)
            bench.close()
    if arguments.json:
        print(json.dumps(report))
    else:
        _print(report)
    return 0


def processor_times(server: ServerProcess) -> dict[str, float]:
    """Seconds of processor time so far."""
    front, *children = server.processes()
    return {"front": _processor_s([front]), "worker": _processor_s(children)}


def _processor_s(processes: Sequence[psutil.Process]) -> float:
    """Of their threads; Linux knows it in nanoseconds, others in steps of some milliseconds."""
    try:
        files = [f for p in processes for f in Path(f"/proc/{p.pid}/task").glob("*/schedstat")]
        if files:
            return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files) / 1e9
    except OSError:
        pass  # a thread has ended meanwhile
    return float(sum(times.user + times.system for times in (p.cpu_times() for p in processes)))


def _ratios(above: Sequence[float], below: Sequence[float]) -> str:
    """Of rounds: their median, and what they lie between."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    fastest = min(above) / min(below)
    return (
        f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}; "
        f"fastest rounds {fastest:.3f})"
    )


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 1)


def _print(report: dict[str, object], indent: int = 0) -> None:
    for name, value in report.items():
        if isinstance(value, dict):
            print(" " * indent + name)
            _print(value, indent + 2)
        else:
            print(" " * indent + f"{name:<26} {value}")


if __name__ == "__main__":
    sys.exit(main())
