"""Where an answer stands in its form: what may come next, and where each token leads.

Positions are immutable: going back to an earlier one is keeping it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.decode.grammar_cursor import GrammarCursor

IdArray = npt.NDArray[np.int64]
NO_IDS: IdArray = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """The tokens that may come next.

    Attributes:
        cursor: those that its grammar allows, and `ids`; None = see `is_except`.
        ids: further ones, or all of them, or the exceptions.
        is_except: every token may come but `ids`.
    """

    cursor: GrammarCursor | None = None
    ids: IdArray = field(default_factory=lambda: NO_IDS)
    is_except: bool = False


EVERYTHING = Allowed(is_except=True)


class Position(Protocol):
    """A place in an answer."""

    def allowed(self) -> Allowed:
        """What may come next."""

    def after(self, token_id: int) -> Position | None:
        """Where this token leads; None when it must not come although it is allowed."""

    def after_all(self, token_id: int) -> Position | None:  # noqa: ARG002
        """Where a token leads that must not come, when nothing else could; None = nowhere."""
        return None
