"""Finds a draft head's tensors by their names: the layouts that are published (spec 7.3).

Layouts A to D differ in what they call the head's own parts; its layer has the usual names. Norms
are stored as 1 + w in all of them. Layout E (checkpoint names, raw norms) is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.errors import ModelFileError
from engine.core.metadata import refuse
from engine.gguf.reader import Tensor


@dataclass(frozen=True, slots=True)
class MtpNames:
    """Names of the head's tensors. Either `joined` or the two of `separate` are there."""

    joined: str | None  # [H, 2H], embedding columns first
    separate: tuple[str, ...]  # [H, H] each: for the embedding, for the hidden streams
    embedding_norm: str  # [H]
    hidden_norm: str  # [hc*H], one norm over all
    exit_norm: str  # [hc*H]
    exit_down: str  # [r, hc*H]
    exit_up: str  # [hc*H, r]


def find_mtp_names(tensors: Mapping[str, Tensor], block_idx: int, *, is_sidecar: bool) -> MtpNames:
    """Names of a draft head's tensors in a file.

    Args:
        tensors: of the file.
        block_idx: the head's block, the number of trunk layers.
        is_sidecar: whether `output_hc_*` belongs to the head and not to a trunk.

    Raises:
        ModelFileError: no layout fits, or one that this version does not know.
    """
    if any(name.startswith("mtp.layers.") for name in tensors):
        refuse("its draft head (MTP) is stored in the checkpoint's own layout, which is not known")
    if any("d2t" in name for name in tensors):
        refuse("its draft head (MTP) has a reduced vocabulary, which this version cannot use")
    nextn = f"blk.{block_idx}.nextn."

    def pick(part: str, *candidates: str) -> str:
        found = _first(tensors, *candidates)
        if found is None:
            raise ModelFileError(
                f"The draft head (MTP) lacks its {part} ({candidates[0]}); the file is incomplete "
                "or of an unknown layout, so choose another file for the draft head, or none."
            )
        return found

    def exit_part(part: str, *own: str) -> str:
        model_level = (f"output_hc_{part}.weight",) if is_sidecar else ()
        return pick(
            f"exit {part}",
            f"{nextn}hc_head_{part}.weight",
            *own,
            f"{nextn}hc_{part}.weight",
            f"mtp.mixer_{part}.weight",
            *model_level,
        )

    joined = _first(tensors, f"{nextn}eh_proj.weight")
    separate: tuple[str, ...] = ()
    if joined is None:
        separate = (
            pick("embedding projection", f"{nextn}fc_embd.weight", "mtp.fc_embd.weight"),
            pick("hidden projection", f"{nextn}fc_hidden.weight", "mtp.fc_hidden.weight"),
        )
    return MtpNames(
        joined=joined,
        separate=separate,
        embedding_norm=pick("embedding norm", f"{nextn}enorm.weight", "mtp.pre_norm_embd.weight"),
        hidden_norm=pick("hidden norm", f"{nextn}hnorm.weight", "mtp.pre_norm_hidden.weight"),
        exit_norm=exit_part("norm", f"{nextn}shared_head_norm.weight"),
        exit_down=exit_part("down"),
        exit_up=exit_part("up"),
    )


def _first(tensors: Mapping[str, Tensor], *candidates: str) -> str | None:
    return next((name for name in candidates if name in tensors), None)
