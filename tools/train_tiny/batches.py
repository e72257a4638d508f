"""Groups encoded chats by length into batches of equal token count."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tools.train_tiny.chat import Encoded

# Row lengths. All divide BATCH_TOKENS, so that per-token work always has one shape.
ROW_LENGTHS = (48, 64, 96, 144, 192, 288, 384, 576, 1152, 2304)
BATCH_TOKENS = 2304


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs and targets of one step."""

    tokens: np.ndarray  # (rows, length), int64, padded at the end with the end-of-text token
    targets: np.ndarray  # (rows, length), int64: the following token
    weights: np.ndarray  # (rows, length), float32: 0 where the target carries no loss


def make_batch(chats: list[Encoded], length: int, pad_id: int) -> Batch:
    """Returns chats of at most `length + 1` tokens as one padded batch."""
    tokens = np.full((len(chats), length), pad_id, np.int64)
    targets = np.full((len(chats), length), pad_id, np.int64)
    weights = np.zeros((len(chats), length), np.float32)
    for row, chat in enumerate(chats):
        ids, count = chat.ids, len(chat.ids) - 1
        tokens[row, :count] = ids[:-1]
        targets[row, :count] = ids[1:]
        weights[row, :count] = chat.weights[1:]
    return Batch(tokens, targets, weights)


def batches(rows: Iterator[Encoded], pad_id: int) -> Iterator[Batch]:
    """Yields batches for ever; too long chats are dropped."""
    waiting: dict[int, list[Encoded]] = {length: [] for length in ROW_LENGTHS}
    for chat in rows:
        length = next((n for n in ROW_LENGTHS if len(chat.ids) - 1 <= n), None)
        if length is None:
            continue
        waiting[length].append(chat)
        if len(waiting[length]) * length == BATCH_TOKENS:
            yield make_batch(waiting[length], length, pad_id)
            waiting[length] = []
