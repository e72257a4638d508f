"""Measurements for `engine bench`: speed of a loaded model, and what the memory would allow.

Decoding is bound by memory: a token touches certain weights, and no engine can decode faster than
the memory delivers them. That is the floor; the share of it that is reached says what there is left
to gain. Prints nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.core.disk_reads import DiskReads
from engine.core.errors import EngineError
from engine.core.kv_type import KvType
from engine.core.model_config import LayerKind
from engine.decode.generate import generate
from engine.worker.messages import SamplingParams

if TYPE_CHECKING:
    from engine.core.model_config import ModelConfig
    from engine.worker.loading import LoadedModel

READ_BYTES = 1 << 30  # far above any cache
SHARE_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one prompt was read and continued.

    Attributes:
        prompt_tokens: length of the prompt, which is the context that decoding began with.
        prompt_per_s: prompt tokens per second.
        decode_per_s: generated tokens per second, the first excepted: it comes with the prompt.
        first_token_s: seconds until the first token.
        disk: what was read from the disk while tokens were generated, as far as that is known.
        floor_share: what reading the weights of a token alone takes, of the time of a token; 0 = not
            measured.
    """

    prompt_tokens: int
    prompt_per_s: float
    decode_per_s: float
    first_token_s: float
    floor_share: float = 0.0
    disk: tuple[DiskReads, ...] = ()


def measure_speed(
    loaded: LoadedModel, num_prompt: int, num_gen: int, reader: TokenReader | None = None
) -> Speed:
    """Read a prompt of fixed made-up tokens and continue it greedily.

    Args:
        loaded: the model.
        num_prompt: tokens to read.
        num_gen: tokens to generate.
        reader: reads as many bytes as a token does; then `SHARE_TOKENS` more tokens are generated,
            and after each of them it reads, so that both meet the same memory at the same moment.

    Raises:
        EngineError: the model cannot compute it.
    """
    vocab_size = loaded.limits.vocab_size
    prompt = [(7919 * i + 17) % vocab_size for i in range(num_prompt)]
    num_all = num_gen + (SHARE_TOKENS if reader is not None else 0)
    generation = generate(
        loaded.model,
        prompt,
        SamplingParams(temperature=0),
        num_all,
        stop_ids=(),
        limits=loaded.limits,
        disk_reads=loaded.disk_reads,
    )
    decode_s = read_s = 0.0
    times = [time.perf_counter()]
    with np.errstate(all="ignore"):  # numbers that are none are found where tokens are chosen
        for _ in generation:
            times.append(time.perf_counter())
            if reader is None or len(times) <= num_gen + 1:
                continue
            decode_s += times[-1] - times[-2]
            reader.read()
            times[-1] = time.perf_counter()
            read_s += reader.seconds
    if generation.done is None or generation.done.timings.generated_tokens != num_all:
        raise EngineError("The measured run ended early; this is a fault of the program.")
    prompt_s = generation.done.timings.prompt_ms / 1000
    return Speed(
        prompt_tokens=num_prompt,
        prompt_per_s=num_prompt / max(prompt_s, 1e-9),
        decode_per_s=(num_gen - 1) / max(times[num_gen] - times[1], 1e-9),
        first_token_s=prompt_s,
        floor_share=read_s / decode_s if decode_s else 0.0,
        disk=generation.done.timings.disk_answer,
    )


class TokenReader:
    """Reads as many bytes from memory as a token does, with the threads that compute.

    Attributes:
        seconds: that the newest read took.
        bytes_per_s: of all reads so far, each of them.
    """

    def __init__(self, loaded: LoadedModel, num_bytes: int) -> None:
        """Make room for reads that no cache holds: several times what a token reads."""
        self.seconds = 0.0
        self.bytes_per_s: list[float] = []
        self._num_bytes = num_bytes
        self._buffer = np.ones(num_bytes + READ_BYTES, np.uint8)
        self._at = 0
        read = getattr(loaded.ops, "read_memory", None)
        self._read: Callable[[npt.NDArray[np.uint8]], None] = np.sum if read is None else read

    def read(self) -> None:
        """Read on where the last one ended."""
        if self._at + self._num_bytes > len(self._buffer):
            self._at = 0
        part = self._buffer[self._at : self._at + self._num_bytes]
        began_at = time.perf_counter()
        self._read(part)
        self.seconds = time.perf_counter() - began_at
        self._at += self._num_bytes
        self.bytes_per_s.append(self._num_bytes / self.seconds)


def median_speed(speeds: Sequence[Speed]) -> Speed:
    """Each figure's median over runs with the same prompt."""
    return Speed(
        prompt_tokens=speeds[0].prompt_tokens,
        prompt_per_s=statistics.median(speed.prompt_per_s for speed in speeds),
        decode_per_s=statistics.median(speed.decode_per_s for speed in speeds),
        first_token_s=statistics.median(speed.first_token_s for speed in speeds),
        disk=speeds[-1].disk,
        floor_share=statistics.median(speed.floor_share for speed in speeds),
    )


def context_bytes_per_token(model: ModelConfig, kv_type: KvType, context: int) -> int:
    """Bytes that decoding one token reads of what its context left behind (spec 4.4 and 4.5).

    Delta states are read and written; attention reads the keys and values of the chosen blocks and
    of the unfinished one, and the pooled index key of every block.
    """
    blocks = context // model.block_ratio
    tokens = min(blocks, model.top_blocks) * model.block_ratio + context % model.block_ratio
    per_head = model.head_dim * kv_type.value_bytes + kv_type.scale_bytes
    keys_and_values = 2 * tokens * model.num_kv_heads * per_head
    index = blocks * model.index_dim * kv_type.index_bytes if blocks > model.top_blocks else 0
    state = 2 * 4 * model.delta_num_v_heads * model.delta_head_dim**2
    return sum(
        state if kind is LayerKind.DELTA else keys_and_values + index for kind in model.layer_kinds
    )
