"""Passes of several sequences as a busy engine has them, for comparing two ways of computing them."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from engine.model.trunk import Model
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted, PassResult


def finish(layers: Generator[int, None, PassResult]) -> PassResult:
    """The result of a pass that is taken layer by layer."""
    while True:
        try:
            next(layers)
        except StopIteration as end:
            return end.value


def a_mixed_life(
    model: Model,
    tokens: list[int],
    seed: int,
    wanted: Sequence[LogitsWanted] = tuple(LogitsWanted),
    num_sequences: int = 3,
) -> list[np.ndarray]:
    """Windows of sequences in changing company, partly committed, some of them abandoned.

    Returns:
        Logits, streams and rows with logits of each pass that was not abandoned.
    """
    rng = np.random.default_rng(seed)
    alive = [model.new_sequence() for _ in range(num_sequences)]
    seen = []
    for step in range(40):
        chosen = [s for s in alive if rng.random() < 0.7] or alive[:1]
        wants = rng.choice(list(wanted), len(chosen))
        counts = rng.integers(1, 6, len(chosen))
        entries = [
            BatchEntry(s, tokens[s.length : s.length + int(n)], want)
            for s, n, want in zip(chosen, counts, wants, strict=True)
        ]
        if step % 5 == 4:  # left in the middle, and not committed
            layers = model.layers(Batch(entries))
            next(layers, None)  # a quick one is not left before its end
            layers.close()
            continue
        result = model.forward(Batch(entries))
        seen += [result.logits.copy(), result.streams.copy(), result.logit_rows]
        for entry in entries:
            entry.state.commit(int(rng.integers(0, len(entry.token_ids) + 1)))
        if step % 13 == 12:
            index = int(rng.integers(0, num_sequences))
            alive[index].release()
            alive[index] = model.new_sequence()
    return seen
