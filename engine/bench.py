"""Measurements for `engine bench`: speed of a loaded model, and what the memory would allow.

Decoding is bound by memory: a token touches certain weights, and no engine can decode faster than
the memory delivers them. That is the floor; the share of it that is reached says what there is left
to gain. Prints nothing.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.core.config import KvType
from engine.core.errors import EngineError
from engine.core.model_config import LayerKind
from engine.decode.generate import generate
from engine.worker.messages import SamplingParams

if TYPE_CHECKING:
    from engine.core.gguf_header import ModelHeader
    from engine.core.model_config import ModelConfig
    from engine.worker.loading import LoadedModel

BANDWIDTH_BYTES = 512 << 20  # far above any cache
BANDWIDTH_TRIES = 8


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one prompt was read and continued.

    Attributes:
        prompt_tokens: length of the prompt, which is the context that decoding began with.
        prompt_per_s: prompt tokens per second.
        decode_per_s: generated tokens per second, the first excepted: it comes with the prompt.
        first_token_s: seconds until the first token.
    """

    prompt_tokens: int
    prompt_per_s: float
    decode_per_s: float
    first_token_s: float


def measure_speed(loaded: LoadedModel, num_prompt: int, num_gen: int) -> Speed:
    """Read a prompt of fixed made-up tokens and continue it greedily.

    Raises:
        EngineError: the model cannot compute it.
    """
    vocab_size = loaded.limits.vocab_size
    prompt = [(7919 * i + 17) % vocab_size for i in range(num_prompt)]
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
    return Speed(
        prompt_tokens=num_prompt,
        prompt_per_s=num_prompt / max(timings.prompt_ms, 1e-6) * 1000,
        decode_per_s=(num_gen - 1) / max(timings.generated_ms, 1e-6) * 1000,
        first_token_s=timings.prompt_ms / 1000,
    )


def median_speed(speeds: Sequence[Speed]) -> Speed:
    """Each figure's median over runs with the same prompt."""
    return Speed(
        prompt_tokens=speeds[0].prompt_tokens,
        prompt_per_s=statistics.median(speed.prompt_per_s for speed in speeds),
        decode_per_s=statistics.median(speed.decode_per_s for speed in speeds),
        first_token_s=statistics.median(speed.first_token_s for speed in speeds),
    )


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


def context_bytes_per_token(model: ModelConfig, kv_type: KvType, context: int) -> int:
    """Bytes that decoding one token reads of what its context left behind (spec 4.4 and 4.5).

    Delta states are read and written; attention reads the keys and values of the chosen blocks and
    of the unfinished one, and the pooled index key of every block.
    """
    item = 2 if kv_type is KvType.F16 else 4
    blocks = context // model.block_ratio
    tokens = min(blocks, model.top_blocks) * model.block_ratio + context % model.block_ratio
    keys_and_values = 2 * tokens * model.num_kv_heads * model.head_dim * item
    index = blocks * model.index_dim * item if blocks > model.top_blocks else 0
    state = 2 * 4 * model.delta_num_v_heads * model.delta_head_dim**2
    return sum(
        state if kind is LayerKind.DELTA else keys_and_values + index for kind in model.layer_kinds
    )


def _layer_of(name: str) -> int:
    """The layer that a tensor belongs to; -1 for those of none."""
    parts = name.split(".")
    return int(parts[1]) if parts[0] == "blk" and len(parts) > 1 and parts[1].isdecimal() else -1


def measure_bandwidth(num_threads: int, num_bytes: int = BANDWIDTH_BYTES) -> float:
    """Bytes per second that this many threads read from memory together, the best of some tries.

    A dot product of an array with itself reads each value once and computes next to nothing; of
    numpy's ways to read, it was the fastest (2026-11, two cores).
    """
    parts = np.array_split(np.ones(num_bytes // 8), num_threads)
    best_s = float("inf")
    for _ in range(BANDWIDTH_TRIES):
        threads = [threading.Thread(target=np.dot, args=(part, part)) for part in parts]
        began_at = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        best_s = min(best_s, time.perf_counter() - began_at)
    return num_bytes / best_s
