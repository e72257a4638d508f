"""A few tokens of the bundled model on a card and on the CPU: both must say the same.

The operations' self-test calls one operation after the other. This goes the way of answers: a prompt
in one long pass, then windows that are recorded and launched as graphs, with experts in the card's
cache, experts that are copied to it and experts that the CPU computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.core.catalog_file import PROGRAM_DIR
from engine.core.kv_type import KvType
from engine.device.base import Device
from engine.gguf.reader import GgufFile
from engine.model.limits import ModelLimits
from engine.model.trunk import Model
from engine.ops.base import Ops
from engine.ops.cuda import CudaOps
from engine.ops.cuda_settings import CudaSettings
from engine.ops.host import HostOps
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted

MODEL = PROGRAM_DIR / "assets" / "models" / "stratum-tiny.gguf"
PROMPT_TOKENS = 24  # more rows than a recorded pass has
WINDOW_TOKENS = 4
KEPT_TOKENS = 3  # of a window, as when the last draft was wrong
NUM_WINDOWS = 6
# Mean of KL(host || card) over all rows. Both round activations to 8 bits, in another order of sums:
# the emulated card differs by 3e-6, and by more than 0.1 without one of a layer's operations
# (30 November 2026).
MOST_KL = 1e-3
_CACHE_BYTES = 256 << 10  # some of the experts

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """What the comparison came to.

    Attributes:
        mean_kl: of the two distributions of the next token, over all rows.
        num_rows: that were compared.
    """

    mean_kl: float
    num_rows: int

    @property
    def ok(self) -> bool:
        """Whether both say the same; not a number is no agreement."""
        return self.mean_kl <= MOST_KL


def card_model_check(
    device: Device, path: Path = MODEL, on_step: Callable[[int, int], None] | None = None
) -> ModelCheck:
    """Compute the same tokens on the card, which is closed afterwards, and on the CPU.

    Args:
        device: the card.
        path: of the model.
        on_step: told how many of how many passes are done.

    Raises:
        EngineError: the card cannot be used, or there is no such model.
    """
    num_steps = 2 * (1 + NUM_WINDOWS)
    parts: list[FloatArray] = []
    limits = ModelLimits(
        max_rows=PROMPT_TOKENS,
        max_window=WINDOW_TOKENS,
        context=64,
        kv_type=KvType.F32,
    )
    settings = CudaSettings(cache_bytes=_CACHE_BYTES, ring_experts=2, pcie_frac=0.5)
    with GgufFile.open(path) as file:
        for make in (
            lambda: CudaOps(limits.for_ops(), device, settings),
            lambda: HostOps(limits.for_ops()),
        ):
            rows = []
            for part in _logits(file, make(), limits):
                rows.append(part)
                if on_step is not None:
                    on_step(len(parts) * num_steps // 2 + len(rows), num_steps)
            parts.append(np.concatenate(rows))
    card, host = parts
    return ModelCheck(mean_kl(host, card), len(host))


def _logits(file: GgufFile, ops: Ops, limits: ModelLimits) -> Iterator[FloatArray]:
    """Logits `[rows, vocabulary]` of each pass; the operations are closed at the end."""
    try:
        model = Model.load(file, ops, limits)
        vocab_size = model.config.vocab_size
        num_tokens = PROMPT_TOKENS + NUM_WINDOWS * WINDOW_TOKENS
        # Any tokens do, as long as they are the same; these are spread over the vocabulary.
        token_ids = [7919 * (i + 1) % vocab_size for i in range(num_tokens)]
        sequence = model.new_sequence()
        start = 0
        windows = [(WINDOW_TOKENS, KEPT_TOKENS)] * NUM_WINDOWS
        for size, num_kept in ((PROMPT_TOKENS, PROMPT_TOKENS), *windows):
            tokens = token_ids[start : start + size]
            result = model.forward(Batch([BatchEntry(sequence, tokens, LogitsWanted.ALL)]))
            yield np.array(result.logits, np.float32)
            sequence.commit(num_kept)
            start += num_kept
    finally:
        ops.close()


def mean_kl(right: FloatArray, other: FloatArray) -> float:
    """Mean over rows of KL(right || other) of logits `[rows, vocabulary]`."""
    p, q = _log_softmax(right), _log_softmax(other)
    return float(np.mean(np.sum(np.exp(p) * (p - q), axis=1)))


def _log_softmax(logits: FloatArray) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    result: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result
