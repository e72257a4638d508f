"""What a decoded token costs behind contexts of several lengths, and the indexer's share of it.

    python bench/long_context.py --model FILE.gguf --contexts 64,8192,16384 --rounds 40

The contexts are made up (random keys and values), so that none has to be read. Tokens behind each length
are computed in turn, so that a change of the machine's speed meets all lengths alike; every length keeps
its state. The first length is what the others are compared with. A layer attends to at most its budget
(2,048 tokens of the published model), so what a length beyond the budget costs more than the budget's own
length is the indexer's: scoring all blocks, choosing the best ones and fetching tokens from afar.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.core.config import RunConfig
from engine.model.trunk import Model
from engine.sequence.batch import Batch, BatchEntry
from engine.sequence.state import SequenceState
from engine.worker.blas_threads import limit_blas_threads
from engine.worker.loading import load_model

PROBE_TOKEN = 5
FILL_VALUES = 1 << 20


def main() -> int:
    """Measure and print; 0."""
    parser = argparse.ArgumentParser(description="Decoding behind long contexts.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--contexts", default="64,512,2050,8192,16384,32768")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=0, help="0 = the default")
    arguments = parser.parse_args()
    contexts = [int(word) for word in arguments.contexts.split(",")]
    limit_blas_threads()
    config = RunConfig(
        model=arguments.model,
        context=max(contexts) + 64,
        threads=arguments.threads,
    )
    model = load_model(config, parallel=len(contexts)).model
    fill_pages(model)
    sequences = [pretend(model, length) for length in contexts]
    times: list[list[float]] = [[] for _ in contexts]
    for _ in range(arguments.rounds):
        for sequence, of_length in zip(sequences, times, strict=True):
            of_length.append(decode_s(model, sequence))
    medians = [statistics.median(of_length) * 1e3 for of_length in times]
    num_layers = len(model.store.kv) - (model.mtp is not None)
    print(f"{num_layers} attention layers; medians of {arguments.rounds} rounds")
    print("context   ms per token   more per attention layer, ms")
    for length, median in zip(contexts, medians, strict=True):
        print(f"{length:7} {median:14.2f} {(median - medians[0]) / num_layers:14.3f}")
    return 0


def fill_pages(model: Model) -> None:
    """Random keys, values and index keys in all pages."""
    random = np.random.default_rng(1)
    for pool in model.store.kv:
        for array in (pool.keys, pool.values, pool.index_raw, pool.index_pooled):
            flat = array.reshape(-1)
            noise = random.standard_normal(FILL_VALUES, np.float32).astype(array.dtype)
            for first in range(0, flat.size, FILL_VALUES):
                flat[first : first + FILL_VALUES] = noise[: flat.size - first]


def pretend(model: Model, length: int) -> SequenceState:
    """A sequence that holds `length` tokens nobody has computed."""
    sequence = model.new_sequence()
    model.store.copy_pages(sequence.pages.make_writable(0, length))
    sequence.rope.extend(length, None)
    sequence.length = length
    return sequence


def decode_s(model: Model, sequence: SequenceState) -> float:
    """Seconds of one token, which is not kept."""
    began = time.perf_counter()
    model.forward(Batch([BatchEntry(sequence, [PROBE_TOKEN])]))
    took = time.perf_counter() - began
    sequence.commit(0)
    return took


if __name__ == "__main__":
    sys.exit(main())
