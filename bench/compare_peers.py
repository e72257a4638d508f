"""Our server and another one on the same file, through the same HTTP requests, in turn.

    python -m bench.compare_peers --model /tmp/q4_k.gguf
    python -m bench.compare_peers --model FILE --peer "llama-server -m {model} --port {port} -t {threads}"
    python -m bench.compare_peers --model FILE --prompt-tokens 4096 --gen-tokens 32 --rounds 1

The peer is any command that serves OpenAI's chat completions; `{model}`, `{port}`, `{threads}` and
`{context}` in it are replaced. By default it is `llama-server` on PATH. Both servers run all the
time and answer the same prompt in turn, `--rounds` times, so that a noisy neighbour meets both;
medians count. Prompts differ from round to round, so that no cache answers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shlex
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.server_process import Answer, Memory, ServerError, ServerProcess
from engine.core.errors import EngineError
from engine.core.gguf_header import read_model_header
from engine.core.machine import probe_machine

# Without drafts: kernels are compared.
OURS = (
    f"{shlex.quote(sys.executable)} -m engine serve --model {{model}} --port {{port}} "
    "--threads {threads} --context {context} --parallel 1 "
    "--no-spec-lookup --spec-mtp 0"
)
LLAMA_CPP = (
    "llama-server --model {model} --port {port} --threads {threads} --ctx-size {context} "
    "--parallel 1"
)
WARM_UP_TOKENS = 64
WARM_UP_ANSWER = 48  # a few tokens of a small model can come in one event
_MARGIN_TOKENS = 256  # of the context, for what the chat template adds


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out for one server."""

    name: str
    start_s: float
    answers: tuple[Answer, ...]
    memory: Memory

    def median(self, of: Callable[[Answer], float | None]) -> float:
        """Over the rounds; NaN when the server does not report it."""
        figures = [figure for answer in self.answers if (figure := of(answer)) is not None]
        return statistics.median(figures) if figures else float("nan")

    def best(self, of: Callable[[Answer], float]) -> float:
        """The largest of the rounds: what a busy machine disturbs least."""
        return max(of(answer) for answer in self.answers)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print; 0, or 1 when a server fails."""
    parser = argparse.ArgumentParser(description="compare our server with another one")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE")
    parser.add_argument("--peer", default=LLAMA_CPP, metavar="COMMAND")
    parser.add_argument("--peer-name", default="peer", metavar="NAME")
    parser.add_argument("--ours", default=OURS, metavar="COMMAND")
    for flag, default in (
        ("--prompt-tokens", 512),
        ("--gen-tokens", 64),
        ("--rounds", 3),
        ("--threads", probe_machine().physical_cores),
    ):
        parser.add_argument(flag, type=int, default=default, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    arguments = parser.parse_args(words)
    if arguments.prompt_tokens < 1 or arguments.gen_tokens < 2 or arguments.rounds < 1:
        parser.error("--prompt-tokens and --rounds must be at least 1, --gen-tokens at least 2")
    try:
        results = compare(arguments)
    except (ServerError, EngineError) as error:
        print(error, file=sys.stderr)
        return 1
    _print(results)
    if arguments.json is not None:
        text = json.dumps([asdict(result) for result in results], indent=1)
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0


def compare(arguments: argparse.Namespace) -> tuple[Measured, Measured]:
    """Ours and the peer.

    Raises:
        ServerError: a server does not start or answer.
        EngineError: the model file cannot be read.
    """
    vocabulary = _words(arguments.model)
    values = {
        "model": str(arguments.model),
        "threads": str(arguments.threads),
        "context": str(arguments.prompt_tokens + arguments.gen_tokens + _MARGIN_TOKENS),
    }
    commands = {"stratum": arguments.ours, arguments.peer_name: arguments.peer}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [
            stack.enter_context(
                ServerProcess(name, _command(text, values), folder / f"server-{index}.log")
            )
            for index, (name, text) in enumerate(commands.items())
        ]
        extra = 0  # tokens that the chat template adds
        for server in servers:
            answer = server.ask(_prompt(vocabulary, WARM_UP_TOKENS, 0), WARM_UP_ANSWER)
            extra = max(extra, answer.prompt_tokens - WARM_UP_TOKENS)
        answers: dict[str, list[Answer]] = {server.name: [] for server in servers}
        for index in range(arguments.rounds):
            prompt = _prompt(vocabulary, max(1, arguments.prompt_tokens - extra), index + 1)
            for server in servers if index % 2 == 0 else servers[::-1]:
                answers[server.name].append(server.ask(prompt, arguments.gen_tokens))
        ours, peer = (
            Measured(server.name, server.start_s, tuple(answers[server.name]), server.memory())
            for server in servers
        )
    return ours, peer


def _command(text: str, values: dict[str, str]) -> list[str]:
    words = shlex.split(text, posix=True)
    for key, value in values.items():
        words = [word.replace(f"{{{key}}}", value) for word in words]
    return words


def _words(model: Path) -> list[str]:
    """Words that are one token each in the model's vocabulary."""
    tokens = read_model_header(model).metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, Iterable):
        raise ServerError(f"{model} has no tokenizer; choose a complete model file.")
    words = [str(token)[1:] for token in tokens if str(token).startswith("Ġ")]
    return [word for word in words if word.isascii() and word.isalpha()]


def _prompt(vocabulary: Sequence[str], num_words: int, seed: int) -> str:
    return " ".join(random.Random(seed).choices(vocabulary, k=num_words))  # noqa: S311


def _print(results: tuple[Measured, Measured]) -> None:
    ours, peer = results
    machine = probe_machine()
    print(f"{machine.cpu_name}, {machine.physical_cores} cores")
    print(f"medians of {len(ours.answers)} alternating runs")
    print(f"{'':24}{ours.name:>12}{peer.name:>12}{'ratio':>8}")
    rows: tuple[tuple[str, Callable[[Answer], float | None]], ...] = (
        ("tokens of prompts", lambda answer: answer.prompt_tokens),
        ("tokens of answers", lambda answer: answer.answer_tokens),
        ("prompt tokens/s", lambda answer: answer.prompt_per_s),
        ("prompt, as reported", lambda answer: answer.reported_prompt_per_s),
        ("decode tokens/s", lambda answer: answer.decode_per_s),
        ("decode, as reported", lambda answer: answer.reported_decode_per_s),
    )
    for title, figure in rows:
        a, b = ours.median(figure), peer.median(figure)
        print(f"{title:24}{a:12.2f}{b:12.2f}{a / b:8.2f}")
    for title, a, b in (
        (
            "best prompt",
            ours.best(lambda answer: answer.prompt_per_s),
            peer.best(lambda answer: answer.prompt_per_s),
        ),
        (
            "best decode",
            ours.best(lambda answer: answer.decode_per_s),
            peer.best(lambda answer: answer.decode_per_s),
        ),
        ("start until ready, s", ours.start_s, peer.start_s),
        ("peak resident, MB", ours.memory.peak_resident / 1e6, peer.memory.peak_resident / 1e6),
        ("of it not files, MB", ours.memory.private / 1e6, peer.memory.private / 1e6),
    ):
        print(f"{title:24}{a:12.1f}{b:12.1f}{a / b:8.2f}")


if __name__ == "__main__":
    raise SystemExit(main())
