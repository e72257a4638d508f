"""The tensors of a model in groups, and where each group is read from.

The CPU computes with experts where they lie in the mapped file. What every token reads is read whole; of the
token embedding and the n-gram table a token reads some rows.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Mapping
from dataclasses import dataclass

from engine.core.draft_head_file import is_draft_layer
from engine.core.gguf_header import ModelHeader, TensorInfo
from engine.core.model_sizes import model_config_of
from engine.core.ngram_numbers import TABLE_NAME
from engine.core.requant import is_requantised, requantised_bytes

EXPERTS = "Experts"
COPIED_EXPERTS = "Experts, taken apart"  # files that store gate and up as one tensor
TABLE_PART = "n-gram table"


class Tier(enum.StrEnum):
    """Where a part lives."""

    RAM_MAPPED = "ram_mapped"  # the file itself, through the system's page cache
    RAM = "ram"
    VRAM = "vram"
    DISK = "disk"  # mapped too, but only a few rows are read per token


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """One part of what is needed.

    Attributes:
        name: what it is.
        tier: where it lives.
        num_bytes: its size.
        reason: why there, or how the size comes about.
    """

    name: str
    tier: Tier
    num_bytes: int
    reason: str


def weight_parts(
    tensors: Mapping[str, tuple[int, TensorInfo]], num_layers: int, *, requant: bool
) -> list[PlacedPart]:
    """The weights in groups, each with its tier and the reason for it."""
    sizes = {
        EXPERTS: 0,
        COPIED_EXPERTS: 0,
        TABLE_PART: 0,
        "Token embedding": 0,
        "MTP layer": 0,
        "Other": 0,
    }
    sizes |= {"Stream projections": 0, "Stream projections as Q8_0": 0}
    for name, (_shard, info) in tensors.items():
        if requant and is_requantised(name, info.type, info.shape):
            sizes["Stream projections"] += info.num_bytes
            sizes["Stream projections as Q8_0"] += requantised_bytes(info.shape)
        else:
            sizes[_weight_group(name, num_layers)] += info.num_bytes
    reasons = {
        COPIED_EXPERTS: (Tier.RAM, "gate and up are one tensor in the file: copied at the start"),
        EXPERTS: (Tier.RAM_MAPPED, "the CPU computes experts where they lie in the file"),
        TABLE_PART: (Tier.DISK, "a few rows per token are read"),
        "Token embedding": (Tier.DISK, "one row per token is read"),
        "MTP layer": (Tier.RAM_MAPPED, "read for every draft"),
        "Stream projections": (Tier.DISK, "read once, at the start (setting: requant)"),
        "Stream projections as Q8_0": (Tier.RAM, "made at the start (setting: requant)"),
        "Other": (Tier.RAM_MAPPED, "mixers, routers, shared experts and head: read every token"),
    }
    if not is_read_by_rows("token_embd.weight", tensors):
        reasons["Token embedding"] = (Tier.RAM_MAPPED, "it is the head too: read every token")
    return [
        PlacedPart(group, reasons[group][0], num_bytes, reasons[group][1])
        for group, num_bytes in sizes.items()
        if num_bytes
    ]


def expert_tensors(header: ModelHeader) -> set[str]:
    """Tensors of the layers' experts that are computed with where they lie in the file."""
    num_layers = model_config_of(header).num_layers
    return {name for name in header.tensors if _weight_group(name, num_layers) == EXPERTS}


def read_every_token(header: ModelHeader, *, has_other_head: bool = False) -> set[str]:
    """Tensors that every token reads whole; of a draft head all, because every draft reads it.

    With a draft head from another file that of the model's own is not read.
    """
    num_layers = model_config_of(header).num_layers
    return {
        name
        for name in header.tensors
        if _weight_group(name, num_layers) not in {EXPERTS, COPIED_EXPERTS}
        and not is_read_by_rows(name, header.tensors)
        and not (has_other_head and is_draft_layer(name, num_layers))
    }


def is_read_by_rows(name: str, tensors: Container[str]) -> bool:
    """Whether a token reads only some rows of a tensor, so that the rest may stay on the disk.

    Without a head of its own the model multiplies by its embedding: that is then read whole.
    """
    if name == "token_embd.weight":
        return "output.weight" in tensors
    return name == TABLE_NAME


def _weight_group(name: str, num_layers: int) -> str:
    if name == TABLE_NAME:
        return TABLE_PART
    if name == "token_embd.weight":
        return "Token embedding"
    if is_draft_layer(name, num_layers):
        return "MTP layer"
    if "_exps." in name:
        return COPIED_EXPERTS if "gate_up_exps." in name else EXPERTS
    return "Other"
