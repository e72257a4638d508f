"""How often each expert was used: counted while a model answers, kept in a file if that is wanted.

    counts = ExpertCounts.read(path, key, shape)
    counts.add(layer_idx, expert_ids)
    counts.save(path)

The file is JSON of our usual form. It holds counts, nothing of what was said. `key` tells one model from
another; a file of another one is refused.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.core.errors import EngineError, InputError
from engine.core.files import read_json, write_json
from engine.core.gguf_header import ModelHeader

logger = logging.getLogger(__name__)

FORMAT = 1
FOLDER = "experts"
# Counts beyond this are halved, all of them, so that what is used now outweighs what once was.
_MOST = 1 << 40

IntArray = npt.NDArray[np.int32]


class ExpertCountsError(InputError):
    """A file of counts cannot be used."""

    code = "expert_counts_unusable"


class ExpertCounts:
    """Counts of one model.

    Attributes:
        counts: `[num_layers, num_experts]`.
        key: the model's.
    """

    def __init__(self, shape: tuple[int, int], key: str) -> None:
        self.counts = np.zeros(shape, np.int64)
        self.key = key

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been counted yet."""
        return not self.counts.any()

    def add(self, layer_idx: int, expert_ids: IntArray) -> None:
        """Count a pass's choices of one layer; negative ids are none."""
        ids = expert_ids.reshape(-1)
        row = self.counts[layer_idx]
        row += np.bincount(ids[ids >= 0], minlength=len(row))
        if row.max() > _MOST:
            self.counts //= 2

    def save(self, path: Path) -> None:
        """Write the counts.

        Raises:
            ResourceError: they cannot be written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "model": self.key, "counts": self.counts.tolist()}
        write_json(path, content)

    @classmethod
    def read(cls, path: Path, key: str, shape: tuple[int, int]) -> ExpertCounts:
        """The counts of a file.

        Raises:
            ExpertCountsError: it is damaged, or of another model.
            EngineError: it cannot be read.
        """
        result = cls(shape, key)
        content = read_json(path, FORMAT)
        if content.get("model") != key:
            raise ExpertCountsError(f"{path} holds counts of another model.")
        try:
            counts = np.array(content.get("counts"), np.int64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ExpertCountsError(f"{path} holds no counts of experts.") from error
        if counts.shape != shape or (counts < 0).any():
            raise ExpertCountsError(f"{path} holds no counts for this model's experts.")
        result.counts[...] = counts
        return result


def open_counts(path: Path, key: str, shape: tuple[int, int]) -> ExpertCounts:
    """The counts of a file, or none when it is missing or cannot be used (which is logged)."""
    if path.exists():
        try:
            return ExpertCounts.read(path, key, shape)
        except EngineError as error:
            logger.warning("counting of experts begins anew: %s", error.message)
    return ExpertCounts(shape, key)


def model_key(header: ModelHeader) -> str:
    """A digest of what a model's experts are: names, types, shapes and places of its tensors."""
    digest = hashlib.sha256()
    for path, shard in zip(header.paths, header.shards, strict=True):
        digest.update(f"{path.name}:{shard.data_start}\n".encode(errors="surrogateescape"))
    for name, (shard_idx, info) in sorted(header.tensors.items()):
        digest.update(f"{name}:{shard_idx}:{info.type.value}:{info.offset}:{info.shape}\n".encode())
    return digest.hexdigest()[:24]
