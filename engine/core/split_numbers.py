"""What `split_layers` wants to know of a model and of cards, from what is known of both.

Sizes of a layer are means: the layers of a model differ by a few per cent, its mixers by kind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

from engine.core.card_bytes import CUDA_BYTES, OTHER_SCRATCH_BYTES
from engine.core.gguf_header import ModelHeader
from engine.core.gpu import Gpu
from engine.core.layer_split import LayerSplit, SplitCard, SplitModel
from engine.core.model_numbers import ModelNumbers
from engine.core.placement_hybrid import near_tokens
from engine.core.timeline import REFERENCE_RATES, WindowLoad


@dataclass(frozen=True, slots=True)
class SplitInput:
    """A model that several cards are to share.

    Attributes:
        numbers: of the model.
        head_bytes: of its dense weights the head's, which the last card has.
        rows: of a prompt in one pass.
        context: tokens of one sequence.
        num_tokens: of all pages.
        parallel: sequences.
    """

    numbers: ModelNumbers
    head_bytes: int
    rows: int
    context: int
    num_tokens: int
    parallel: int

    def for_split(self) -> SplitModel:
        """Means over the layers, with the keys and values of one context on the cards."""
        numbers = self.numbers
        layers = max(numbers.num_layers, 1)
        near = self.context if numbers.kv_vram_tokens is None else numbers.kv_vram_tokens
        near = min(near, self.num_tokens)
        kept = self.parallel * numbers.state_bytes + near * numbers.kv_token_bytes
        kept += (self.num_tokens - near) * numbers.kv_pooled_token_bytes
        return SplitModel(
            num_layers=layers,
            fixed_bytes=(numbers.dense_bytes - self.head_bytes) // layers,
            kept_bytes=-(-kept // layers),
            expert_bytes=-(-numbers.expert_bytes // layers),
            used_expert_bytes=numbers.active_expert_bytes // layers,
            last_bytes=self.head_bytes + numbers.mtp_bytes,
            card_bytes=(self.rows + self.parallel) * numbers.card_row_bytes + OTHER_SCRATCH_BYTES,
        )

    def slots(self, split: LayerSplit) -> int:
        """Experts that the cards of a division hold together."""
        held = sum(share.expert_share * (share.stop - share.first) for share in split.shares)
        return int(held * self.numbers.num_experts / max(self.numbers.num_layers, 1))

    def window_load(self, slots: int) -> WindowLoad:
        """What a decode window has to do where the cards hold so many experts."""
        numbers = self.numbers
        return WindowLoad(
            layers=numbers.num_layers,
            experts_used=numbers.experts_used // max(numbers.num_layers, 1),
            expert_bytes=numbers.expert_slot_bytes,
            dense_bytes=numbers.dense_bytes,
            cached_share=slots / max(numbers.num_experts, 1),
        )

    def near_tokens(self, num_layers: int, room: int, *, is_last: bool) -> int:
        """Tokens whose keys and values a card with so many of the layers has room for.

        Args:
            num_layers: that the card computes.
            room: bytes of its memory for everything.
            is_last: whether head and draft layer are its own.
        """
        part = self._part(num_layers, is_last=is_last)
        return near_tokens(part, room, self.context, self.num_tokens, self.parallel, rows=self.rows)

    def _part(self, num_layers: int, *, is_last: bool) -> ModelNumbers:
        """The numbers of so many of the layers."""
        numbers, all_layers = self.numbers, max(self.numbers.num_layers, 1)

        def part(value: int) -> int:
            return -(-value * num_layers // all_layers)

        dense = part(numbers.dense_bytes - self.head_bytes)
        return dataclasses.replace(
            numbers,
            expert_bytes=part(numbers.expert_bytes),
            num_experts=part(numbers.num_experts),
            experts_used=part(numbers.experts_used),
            dense_bytes=dense + (self.head_bytes if is_last else 0),
            mtp_bytes=numbers.mtp_bytes if is_last else 0,
            kv_token_bytes=part(numbers.kv_token_bytes),
            kv_pooled_token_bytes=part(numbers.kv_pooled_token_bytes),
            state_bytes=part(numbers.state_bytes),
            num_layers=num_layers,
        )


def head_bytes(header: ModelHeader) -> int:
    """Of the matrix that makes logits, which may be the embedding."""
    names: Collection[str] = header.tensors.keys()
    name = "output.weight" if "output.weight" in names else "token_embd.weight"
    return header.tensors[name][1].num_bytes if name in names else 0


def split_card(gpu: Gpu, number: int, reserve: int) -> SplitCard:
    """A card's numbers.

    Args:
        gpu: the card.
        number: under which the division names it.
        reserve: bytes that are left to other programs.
    """
    rate = gpu.memory_bytes_per_s or REFERENCE_RATES.card
    return SplitCard(number, gpu.name, gpu.vram_free_bytes - reserve - CUDA_BYTES, rate)
