"""`engine bench --model FILE`: how fast this machine runs a model, and how near that is to its memory.

A prompt of fixed made-up tokens is read and continued greedily, `--repeat` times after a warm-up; the
medians count. Decoding is bound by memory: the weights that one token touches, times tokens per
second, as a share of what the memory was measured to deliver, says how much there is left to gain.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.commands import Subparsers
from engine.core.config_flags import add_config_flags, config_from_arguments
from engine.core.errors import EngineError, InputError
from engine.worker.blas_threads import limit_blas_threads

if TYPE_CHECKING:  # numpy is imported after its threads have been limited
    from engine.core.gguf_header import ModelHeader
    from engine.core.model_config import ModelConfig
    from engine.worker.loading import LoadedModel


DEFAULT_PROMPT_TOKENS = 256
DEFAULT_GEN_TOKENS = 64
DEFAULT_REPEAT = 3
WARM_UP_TOKENS = 8
BANDWIDTH_BYTES = 256 << 20
BANDWIDTH_TRIES = 5


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("bench", help="measure the speed on this machine")
    for flag, default, text in (
        ("--prompt-tokens", DEFAULT_PROMPT_TOKENS, "length of the prompt"),
        ("--gen-tokens", DEFAULT_GEN_TOKENS, "tokens to generate, at least 2"),
        ("--repeat", DEFAULT_REPEAT, "measured runs; the medians are shown"),
    ):
        parser.add_argument(flag, type=int, default=default, metavar="N", help=text)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; 0.

    Raises:
        EngineError: the model or a setting cannot be used.
    """
    num_prompt, num_gen = arguments.prompt_tokens, arguments.gen_tokens
    if num_prompt < 1 or num_gen < 2 or arguments.repeat < 1:
        raise InputError(
            "--prompt-tokens and --repeat must be at least 1, --gen-tokens at least 2."
        )
    limit_blas_threads()
    config = config_from_arguments(arguments)
    if config.context is None:
        config = config.model_copy(update={"context": max(512, num_prompt + num_gen)})

    from engine.worker.loading import load_model  # noqa: PLC0415

    began_at = time.perf_counter()
    loaded = load_model(config, parallel=1)
    load_s = time.perf_counter() - began_at
    try:
        if num_prompt + num_gen > loaded.limits.context:
            raise InputError(
                f"{num_prompt} prompt and {num_gen} generated tokens do not fit into the context "
                f"of {loaded.limits.context}; lower them, or choose a larger --context."
            )
        _measure(loaded, min(num_prompt, WARM_UP_TOKENS), 2)
        runs = [_measure(loaded, num_prompt, num_gen) for _ in range(arguments.repeat)]
        report = _report(loaded, runs, load_s, config.model_name, config.threads)
    finally:
        loaded.close()
    report |= {
        "prompt_tokens": num_prompt,
        "gen_tokens": num_gen,
        "repeat": arguments.repeat,
    }
    if arguments.json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        _print(report)
    return 0


@dataclass(frozen=True, slots=True)
class _Run:
    """One measured run."""

    prompt_per_s: float
    decode_per_s: float
    first_token_s: float


def _measure(loaded: LoadedModel, num_prompt: int, num_gen: int) -> _Run:
    from engine.decode.generate import generate  # noqa: PLC0415
    from engine.worker.messages import SamplingParams  # noqa: PLC0415

    vocab_size = loaded.limits.vocab_size
    prompt = [(7919 * i + 17) % vocab_size for i in range(num_prompt)]
    import numpy as np  # noqa: PLC0415

    generation = generate(
        loaded.model,
        prompt,
        SamplingParams(temperature=0),
        num_gen,
        stop_ids=(),
        limits=loaded.limits,
    )
    with np.errstate(all="ignore"):  # numbers that are none are found where tokens are chosen
        for _ in generation:
            pass
    if generation.done is None or generation.done.timings.generated_tokens != num_gen:
        raise EngineError("The measured run ended early; this is a fault of the program.")
    timings = generation.done.timings
    return _Run(
        prompt_per_s=num_prompt / max(timings.prompt_ms, 1e-6) * 1000,
        # The first token comes with the prompt's last pass.
        decode_per_s=(num_gen - 1) / max(timings.generated_ms, 1e-6) * 1000,
        first_token_s=timings.prompt_ms / 1000,
    )


def _report(
    loaded: LoadedModel, runs: list[_Run], load_s: float, name: str, threads: int
) -> dict[str, str | int | float]:
    from engine.core.machine import probe_machine  # noqa: PLC0415

    machine = probe_machine()
    num_threads = threads or machine.physical_cores
    decode_per_s = statistics.median(run.decode_per_s for run in runs)
    num_bytes = bytes_per_token(loaded.header, loaded.model.config)
    bandwidth = measure_bandwidth(num_threads, BANDWIDTH_BYTES)
    return {
        "model": name,
        "cpu": machine.cpu_name,
        "ops": loaded.ops.name,
        "isa": loaded.isa,
        "threads": num_threads,
        "load_s": round(load_s, 4),
        "first_token_s": round(statistics.median(run.first_token_s for run in runs), 4),
        "prompt_tokens_per_s": round(statistics.median(run.prompt_per_s for run in runs), 2),
        "decode_tokens_per_s": round(decode_per_s, 2),
        "bytes_per_token": num_bytes,
        "memory_bytes_per_s": round(bandwidth),
        "memory_share": round(num_bytes * decode_per_s / bandwidth, 4),
    }


def bytes_per_token(header: ModelHeader, model: ModelConfig) -> int:
    """Bytes of weights that decoding one token reads.

    Of experts those that are used, of tables (embedding, n-grams) the rows that are looked up, of
    the rest everything but the draft layer.
    """
    is_tied = "output.weight" not in header.tensors
    total = 0.0
    for name, (_, info) in header.tensors.items():
        if ".nextn." in name or _layer_of(name) >= model.num_layers:
            continue
        if "_exps." in name:
            total += info.num_bytes * model.num_experts_used / model.num_experts
        elif name == "token_embd.weight" and not is_tied:
            total += info.num_bytes / info.shape[0]
        elif name == "per_layer_token_embd.weight":
            num_rows = model.ple.num_heads * len(model.ple.layers) if model.ple is not None else 0
            total += info.num_bytes * num_rows / info.shape[0]
        else:
            total += info.num_bytes
    return round(total)


def _layer_of(name: str) -> int:
    """The layer that a tensor belongs to; -1 for those of none."""
    parts = name.split(".")
    return int(parts[1]) if parts[0] == "blk" and len(parts) > 1 and parts[1].isdecimal() else -1


def measure_bandwidth(num_threads: int, num_bytes: int) -> float:
    """Bytes per second that this many threads read from memory together, the best of some tries."""
    import threading  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415

    parts = np.array_split(np.ones(num_bytes // 8, np.int64), num_threads)
    best_s = float("inf")
    for _ in range(BANDWIDTH_TRIES):
        threads = [threading.Thread(target=part.sum) for part in parts]
        began_at = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        best_s = min(best_s, time.perf_counter() - began_at)
    return num_bytes / best_s


def _print(report: dict[str, str | int | float]) -> None:
    gigabyte = 1e9
    megabytes = float(report["bytes_per_token"]) / 1e6
    ops = f"{report['ops']} {report['isa']}".strip()
    print(f"{report['model']} on {report['cpu']}, operations: {ops}, threads: {report['threads']}")
    print(f"load         {float(report['load_s']):9.2f} s")
    print(
        f"first token  {float(report['first_token_s']):9.3f} s after {report['prompt_tokens']} tokens"
    )
    print(f"prompt       {float(report['prompt_tokens_per_s']):9.1f} tokens/s")
    print(f"decode       {float(report['decode_tokens_per_s']):9.1f} tokens/s")
    print(
        f"memory       {float(report['memory_share']):9.1%} of "
        f"{float(report['memory_bytes_per_s']) / gigabyte:.1f} GB/s ({megabytes:.1f} MB a token)"
    )
