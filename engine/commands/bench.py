"""`engine bench --model FILE`: how fast this machine runs a model, and how near that is to its memory.

A prompt of fixed made-up tokens is read and continued greedily, `--repeat` times after a warm-up; the
medians count. `--fill 4096,16384` measures once more behind prompts of these lengths. The figures
are explained in `docs/how-it-works/speed.md`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.commands import Subparsers
from engine.commands.card_words import say_card_check
from engine.core.config_flags import add_config_flags, config_from_arguments
from engine.core.disk_reads import as_object
from engine.core.errors import InputError
from engine.core.process_memory import peak_resident_bytes, private_bytes
from engine.core.processor import warn_of_processor
from engine.worker.blas_threads import limit_blas_threads

if TYPE_CHECKING:  # numpy is imported after its threads have been limited
    from engine.bench import Speed
    from engine.core.config import RunConfig
    from engine.worker.loading import LoadedModel

Report = dict[str, object]  # figures by name, as --json prints them

DEFAULT_PROMPT_TOKENS = 256
DEFAULT_GEN_TOKENS = 64
DEFAULT_REPEAT = 3
WARM_UP_TOKENS = 8


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("bench", help="measure the speed on this machine")
    for flag, default, text in (
        ("--prompt-tokens", DEFAULT_PROMPT_TOKENS, "length of the prompt"),
        ("--gen-tokens", DEFAULT_GEN_TOKENS, "tokens to generate, at least 2"),
        ("--repeat", DEFAULT_REPEAT, "measured runs; the medians are shown"),
    ):
        parser.add_argument(flag, type=int, default=default, metavar="N", help=text)
    parser.add_argument(
        "--fill",
        type=_lengths,
        default=(),
        metavar="N,N",
        help="measure once more with prompts of these lengths",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_flags(parser)


def _lengths(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.strip().isdecimal() and int(word) for word in words):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be whole numbers of 1 or more, with commas"
        )
    return tuple(int(word) for word in words)


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; 0.

    Raises:
        EngineError: the model or a setting cannot be used.
    """
    plan = _Plan(
        arguments.prompt_tokens, arguments.gen_tokens, arguments.repeat, tuple(arguments.fill)
    )
    limit_blas_threads()
    config = config_from_arguments(arguments)
    warn_of_processor(config)
    if config.context is None:
        config = config.model_copy(update={"context": max(512, plan.longest)})

    from engine.worker.loading import load_model  # noqa: PLC0415

    began_at = time.perf_counter()
    loaded = load_model(config, say_card_check, parallel=1)
    load_s = time.perf_counter() - began_at
    try:
        if plan.longest > loaded.limits.context:
            raise InputError(
                f"{plan.longest - plan.num_gen} prompt and {plan.num_gen} generated tokens do not "
                f"fit into the context of {loaded.limits.context}; lower them, or choose a larger "
                "--context."
            )
        report = _measure(loaded, plan, config)
    finally:
        loaded.close()
    report["load_s"] = round(load_s, 4)
    if arguments.json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        _print(report)
    return 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is measured."""

    num_prompt: int
    num_gen: int
    repeat: int
    fills: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.num_prompt < 1 or self.num_gen < 2 or self.repeat < 1:
            raise InputError(
                "--prompt-tokens and --repeat must be at least 1, --gen-tokens at least 2."
            )

    @property
    def longest(self) -> int:
        """Tokens of the longest run."""
        from engine.bench import SHARE_TOKENS  # noqa: PLC0415

        return max(self.num_prompt, *self.fills, 0) + self.num_gen + SHARE_TOKENS


def _measure(loaded: LoadedModel, plan: _Plan, config: RunConfig) -> Report:
    from engine import bench  # noqa: PLC0415
    from engine.core.machine import probe_machine  # noqa: PLC0415
    from engine.core.model_numbers import numbers_of_header  # noqa: PLC0415

    machine = probe_machine()
    num_threads = getattr(loaded.ops, "num_threads", config.threads or machine.physical_cores)
    bench.measure_speed(loaded, min(plan.num_prompt, WARM_UP_TOKENS), 2)
    runs = [bench.measure_speed(loaded, plan.num_prompt, plan.num_gen) for _ in range(plan.repeat)]
    peak, private = peak_resident_bytes(), private_bytes()
    model = loaded.model.config
    num_bytes = numbers_of_header(loaded.header, config).active_bytes
    # Only now, because it takes memory.
    reader = bench.TokenReader(loaded, num_bytes)
    lengths = plan.fills or (plan.num_prompt,)
    fills = [bench.measure_speed(loaded, length, plan.num_gen, reader) for length in lengths]
    bandwidth = statistics.median(reader.bytes_per_s)

    def figures(speed: Speed) -> Report:
        return {
            "prompt_tokens": speed.prompt_tokens,
            "prompt_tokens_per_s": round(speed.prompt_per_s, 2),
            "first_token_s": round(speed.first_token_s, 4),
            "decode_tokens_per_s": round(speed.decode_per_s, 2),
            "memory_share": round(speed.floor_share, 4),
            "disk": as_object(speed.disk, plan.num_gen - 1),
            "context_bytes_per_token": bench.context_bytes_per_token(
                model, config.kv_type, speed.prompt_tokens + plan.num_gen // 2
            ),
        }

    return {
        "model": config.model_name,
        "cpu": machine.cpu_name,
        "ops": loaded.ops.name,
        "isa": loaded.isa,
        "threads": num_threads,
        "gen_tokens": plan.num_gen,
        "expert_mode": loaded.placement.experts.mode.value,
        "expert_bytes_kept": 0 if loaded.experts is None else loaded.experts.kept.num_bytes,
        "repeat": plan.repeat,
        **figures(replace(bench.median_speed(runs), floor_share=fills[0].floor_share)),
        "fills": [figures(speed) for speed in fills if plan.fills],
        "bytes_per_token": num_bytes,
        "memory_bytes_per_s": round(bandwidth),
        "memory_bytes_per_s_range": [
            round(min(reader.bytes_per_s)),
            round(max(reader.bytes_per_s)),
        ],
        "floor_tokens_per_s": round(bandwidth / num_bytes, 2),
        "peak_rss_bytes": peak,
        "private_bytes": private,
    }


def _print(report: Report) -> None:
    def number(key: str, of: Report = report) -> float:
        return float(str(of[key]))

    ops = f"{report['ops']} {report['isa']}".strip()
    print(f"{report['model']} on {report['cpu']}, operations: {ops}, threads: {report['threads']}")
    print(f"load         {number('load_s'):9.2f} s")
    print(f"first token  {number('first_token_s'):9.3f} s after {report['prompt_tokens']} tokens")
    print(f"prompt       {number('prompt_tokens_per_s'):9.1f} tokens/s")
    print(f"decode       {number('decode_tokens_per_s'):9.1f} tokens/s")
    fills = report["fills"]
    for fill in fills if isinstance(fills, list) else ():
        print(
            f"filled       {number('decode_tokens_per_s', fill):9.1f} tokens/s decoded after a prompt "
            f"of {fill['prompt_tokens']} at {number('prompt_tokens_per_s', fill):.1f} tokens/s"
        )
    megabytes, bandwidth = number("bytes_per_token") / 1e6, number("memory_bytes_per_s") / 1e9
    if str(report["ops"]).startswith("cuda"):
        print(
            f"memory       {megabytes:9.1f} MB a token, mostly from the card: the {bandwidth:.1f} GB/s of RAM "
            "bound only what the card does not hold"
        )
    else:
        print(
            f"memory       {number('memory_share'):9.1%} of {bandwidth:.1f} GB/s "
            f"({megabytes:.1f} MB a token; at most {number('floor_tokens_per_s'):.1f} tokens/s)"
        )
    print(
        f"resident     {number('peak_rss_bytes') / 1e6:9.0f} MB at most, of which "
        f"{number('private_bytes') / 1e6:.0f} MB are not the model file"
    )
