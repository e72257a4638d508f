"""Where an answer stands in its form: what may come next, and where each token leads.

Positions are immutable: going back to an earlier one is keeping it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.decode.grammar_cursor import GrammarCursor
from engine.ops.token_mask import TokenMask


@dataclass(slots=True, eq=False)  # made for each mask: freezing takes three times as long
class Allowed:
    """The tokens that may come next.

    Attributes:
        cursor: gives those that its grammar allows.
        ids: these may come too.
        fixed: all that may come; there is no cursor and no id then.
    """

    cursor: GrammarCursor | None = None
    ids: tuple[int, ...] = ()
    fixed: TokenMask | None = None


EVERYTHING = Allowed()


class Position(Protocol):
    """A place in an answer."""

    def allowed(self) -> Allowed:
        """What may come next."""

    @property
    def is_strict(self) -> bool:
        """Whether `after` is None for every token that is not allowed, special ones aside."""
        return False

    def forced(self) -> list[int]:
        """Tokens of which each is the only one that may come; often none."""
        return []

    def after(self, token_id: int) -> Position | None:
        """Where this token leads; None when it must not come although it is allowed."""

    def after_all(self, token_id: int) -> Position | None:  # noqa: ARG002
        """Where a token leads that must not come, when nothing else could; None = nowhere."""
        return None
