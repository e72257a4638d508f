"""Draws from the best logits of a row, where that is provably what all logits would give.

Biases aside, a token is drawn from the k largest logits after penalties, among those that may come
(k: top_k, or 1 for temperature 0). Let the row be sorted by logit, ties by lower id, and let the card
have given its first 64 entries.

- Nothing moves logits: the k largest allowed ones are among the 64 when k of these are allowed.
- Penalties that only lower logits: a token behind the 64 stays behind each of the 64 that no penalty
  moves. So with k of those among the allowed ones, it is not among the k largest.
- Fewer than 64 entries: the others are minus infinity and never drawn, as long as nothing moves them.

Otherwise the row is asked for. Draws of the host library take the largest numbers of the array that
they are given, ties by lower index; so they give the same bits for the few as for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.decode.penalties import LARGEST, Penalties
from engine.ops.best_logits import MOST_CANDIDATES, BestLogits
from engine.ops.host_draw import DrawSettings, HostDraw
from engine.ops.token_mask import TokenMask

FloatArray = npt.NDArray[np.float32]
IdArray = npt.NDArray[np.int32]


class _Few(NamedTuple):
    """Entries of a row that may be drawn, of which penalties move some, and whether they are enough."""

    ids: IdArray
    values: FloatArray
    num_moved: int
    is_proven: bool


class BestDraw:
    """Draws the tokens of one answer from few logits."""

    def __init__(self, draw: HostDraw, num_wanted: int, penalties: Penalties) -> None:
        """Begin; `new_best_draw` says for which answers.

        Args:
            draw: of the same settings, without biases.
            num_wanted: how many of the largest logits a draw looks at.
            penalties: of the answer.
        """
        self._draw = draw
        self._num_wanted = num_wanted
        self._penalties = penalties
        self._seen_ids = np.zeros(MOST_CANDIDATES, np.int64)  # numbers of entries
        self._seen_counts = np.zeros(MOST_CANDIDATES, np.float32)
        draw.use_seen(self._seen_ids, self._seen_counts)

    def draw(
        self, best: BestLogits, position: int, mask: TokenMask | None, *, use_penalties: bool
    ) -> int | None:
        """The token at `position` of the answer; None when all logits are needed.

        A row whose other logits are gone is taken for all there is.

        Args:
            best: of the row.
            position: tokens of the answer before it.
            mask: which tokens may be drawn; None = all.
            use_penalties: whether they count now.
        """
        few = self._few(best, mask, use_penalties=use_penalties)
        if few is None or not (few.is_proven or best.fetch is None):
            return None
        entry = self._draw.draw(few.values, position, few.num_moved)
        return None if entry is None else int(few.ids[entry])

    def draw_for_any_mask(
        self, best: BestLogits, position: int, *, use_penalties: bool
    ) -> int | None:
        """The token that is drawn with every mask that allows it; None when that is not known.

        Args:
            best: of the row.
            position: tokens of the answer before it.
            use_penalties: whether they count now.
        """
        few = self._few(best, None, use_penalties=use_penalties)
        if few is None or not few.is_proven:
            return None
        entry = self._draw.draw_for_any_mask(few.values, position, few.num_moved)
        return None if entry is None else int(few.ids[entry])

    def _few(self, best: BestLogits, mask: TokenMask | None, *, use_penalties: bool) -> _Few | None:
        """What to draw from, as far as it is known; None where nothing may be drawn."""
        if not best.is_usable:
            return None
        ids, values = best.ids, best.values
        if mask is not None:
            allowed = mask.holds(ids)
            ids, values = ids[allowed], values[allowed]
        if not len(ids):
            return None
        if not (use_penalties and self._penalties.num_seen):
            return _Few(ids, values, 0, len(ids) >= self._num_wanted or best.is_all)
        order = ids.argsort()  # entries in the order of ids: moved logits may come to be equal
        ids, values = ids[order], values[order]
        num_moved = self._note_moved(ids)
        return _Few(ids, values, num_moved, self._is_proven_of_moved(values, num_moved))

    def _is_proven_of_moved(self, values: FloatArray, num_moved: int) -> bool:
        """Whether enough logits stay where they are, all above what the lowest ones are lifted to."""
        is_enough = len(values) - num_moved >= self._num_wanted
        return is_enough and float(values.min()) > -LARGEST

    def _note_moved(self, ids: IdArray) -> int:
        """Which entries the penalties move; how many."""
        count = 0
        for entry, token_id in enumerate(ids.tolist()):
            seen = self._penalties.count_of(token_id)
            if seen:
                self._seen_ids[count], self._seen_counts[count] = entry, seen
                count += 1
        return count


def new_best_draw(
    settings: DrawSettings,
    penalties: Penalties,
    new_draw: Callable[[DrawSettings], HostDraw | None],
) -> BestDraw | None:
    """What draws an answer's tokens from few logits; None where its settings may need the others.

    Args:
        settings: of the answer.
        penalties: of the answer.
        new_draw: makes draws of the host library.
    """
    lowers = settings.repetition >= 1 and settings.frequency >= 0 and settings.presence >= 0
    if len(settings.bias_ids) or (penalties.is_active and not lowers) or not settings.is_drawable:
        return None
    draw = new_draw(settings)
    if draw is None:
        return None
    num_wanted = 1 if settings.temperature == 0 else settings.top_k
    return BestDraw(draw, num_wanted, penalties)
