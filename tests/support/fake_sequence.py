"""A sequence that remembers its committed tokens, for models that are made up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class Alive(Protocol):
    """The model that made it."""

    alive: list[FakeSequence]


@dataclass(eq=False)
class FakeSequence:
    """Tokens that are committed, and those of the last pass; released once."""

    model: Alive
    tokens: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    is_released: bool = False
    last_streams: None = None

    @property
    def length(self) -> int:
        return len(self.tokens)

    def commit(self, num_tokens: int) -> None:
        assert num_tokens <= len(self.pending)
        self.tokens += self.pending[:num_tokens]
        self.pending = []

    def release(self) -> None:
        assert not self.is_released
        self.is_released = True
        self.model.alive.remove(self)
