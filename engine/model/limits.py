"""How large a loaded model may work: what its buffers are sized for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.core.kv_type import KvType
from engine.ops.base import Limits

HEAD_ROWS = 256  # of a draft head's pass: of prompts it reads the ends


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Sizes that buffers are allocated from once.

    Attributes:
        max_rows: tokens of one pass, all sequences together.
        max_window: tokens of one sequence whose pass can be committed in part.
        max_sequences: sequences alive at once.
        context: tokens of one sequence.
        kv_type: storage of keys, values and index keys.
        kv_pages: pages of the key/value cache, None for full contexts of all sequences.
        kv_near_pages: of these, how many lie in a card's memory; the others lie in RAM, where it reads
            them over the bus. None for all; only for operations on a card.
        page_tokens: tokens of a page, rounded up to a multiple of the model's block ratio.
        with_head: load the draft head, where there is one.
        threads: worker threads of the operations, 0 for their own choice.
        pin_threads: hold each of them to a core of its own.
    """

    max_rows: int = 512
    max_window: int = 16
    max_sequences: int = 1
    context: int = 4096
    kv_type: KvType = KvType.F16
    kv_pages: int | None = None
    kv_near_pages: int | None = None
    page_tokens: int = 256
    with_head: bool = True
    threads: int = 0
    pin_threads: bool = False

    def __post_init__(self) -> None:
        sizes = (self.max_rows, self.max_window, self.max_sequences, self.context, self.page_tokens)
        if min(sizes) < 1 or (self.kv_pages is not None and self.kv_pages < 1):
            raise ValueError("limits must be positive")
        if self.kv_near_pages is not None and self.kv_near_pages < 0:
            raise ValueError("there are no fewer than 0 pages")
        object.__setattr__(self, "kv_type", KvType(self.kv_type))

    def page_size(self, block_ratio: int) -> int:
        """Tokens of a page of a model with this block ratio."""
        return -(-self.page_tokens // block_ratio) * block_ratio

    def for_ops(self) -> Limits:
        """What operations must be made for to serve a model with these limits."""
        pages = self.kv_pages
        if pages is None:
            pages = self.max_sequences * -(-self.context // self.page_tokens)
        return Limits(
            max_rows=self.max_rows,
            max_window=self.max_window,
            num_slots=self.max_sequences,
            num_pages=pages,
            threads=self.threads,
            pin_threads=self.pin_threads,
        )

    def of_head(self) -> ModelLimits:
        """The same for a draft head, which reads windows and the ends of prompts."""
        return replace(self, max_rows=min(self.max_rows, HEAD_ROWS))

    def num_pages(self, block_ratio: int) -> int:
        """Pages of the key/value cache."""
        if self.kv_pages is not None:
            return self.kv_pages
        return self.max_sequences * -(-self.context // self.page_size(block_ratio))

    def num_near_pages(self, block_ratio: int) -> int:
        """Of these, pages in the card's memory."""
        pages = self.num_pages(block_ratio)
        return pages if self.kv_near_pages is None else min(pages, self.kv_near_pages)
