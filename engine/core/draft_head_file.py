"""A draft head in a file of its own: which file, and what it adds to the model's tensors.

    head = read_draft_head(config, header)          # None: the model's own file has it, or nobody wants one
    tensors_with_head(header, head, num_layers)     # what placement counts

Reads headers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.core.config import RunConfig
from engine.core.errors import EngineError
from engine.core.gguf_header import ModelHeader, TensorInfo, read_model_header
from engine.core.model_config import ModelConfig

# `mtp-NAME.gguf` as Unsloth names them, `NAME-mtp.gguf` as `engine mtp-import` is asked to.
_PATTERNS = ("mtp-*.gguf", "*-mtp.gguf", "*-MTP.gguf", "mtp.gguf")


def draft_head_path(config: RunConfig, header: ModelHeader) -> Path | None:
    """The file of the draft head; None when none is wanted, or the model's own file has it."""
    if config.spec_mtp == 0 or config.mtp_file is not None:
        return config.mtp_file if config.spec_mtp else None
    found = heads_beside(config, header)
    return found[0] if len(found) == 1 else None


def heads_beside(config: RunConfig, header: ModelHeader) -> list[Path]:
    """Files beside a model that are named like a draft head, where one is looked for; several are none."""
    if config.spec_mtp == 0 or config.mtp_file is not None or _has_own(header):
        return []
    model = header.paths[0]
    found = {path for pattern in _PATTERNS for path in model.parent.glob(pattern)} - {model}
    return sorted(found)


def read_draft_head(config: RunConfig, header: ModelHeader) -> ModelHeader | None:
    """The header of the draft head's file; None without one, or when it cannot be read.

    Who opens the file says why it cannot be used.
    """
    path = draft_head_path(config, header)
    if path is None:
        return None
    try:
        return read_model_header(path)
    except (EngineError, OSError):
        return None


def tensors_with_head(
    header: ModelHeader, head: ModelHeader | None, num_layers: int
) -> Mapping[str, tuple[int, TensorInfo]]:
    """The model's tensors with the head's as the block behind the trunk, whose place they take.

    An embedding of the head's own is left out: one row per draft is read.

    Args:
        header: of the model.
        head: of the draft head's file; None without one.
        num_layers: of the trunk.
    """
    if head is None:
        return header.tensors
    block = f"blk.{num_layers}."
    tensors = {
        name: one for name, one in header.tensors.items() if not is_draft_layer(name, num_layers)
    }
    for name in head_tensors(head.tensors):
        key = name if name.startswith(block) else block + name
        tensors[key] = head.tensors[name]
    return tensors


def head_tensors(names: Iterable[str]) -> set[str]:
    """Of the tensors of a draft head's own file those that every draft reads whole."""
    return {name for name in names if name != "token_embd.weight"}


def is_draft_layer(name: str, num_layers: int) -> bool:
    """Whether a tensor of a model's file belongs to a block behind the trunk's: to its draft head."""
    block = name.split(".", 2)[1] if name.startswith("blk.") else ""
    return block.isdigit() and int(block) >= num_layers


def _has_own(header: ModelHeader) -> bool:
    tensors = {name: info for name, (_shard, info) in header.tensors.items()}
    return ModelConfig.from_metadata(header.metadata, tensors).num_mtp_layers > 0
