"""How long a pass over a prompt takes, so that nobody's stream waits too long for it.

A stream's next token may wait for `slice_s` while a prompt is read. A pass that is done by then takes
the tokens of all streams along, which costs next to nothing. A longer one is left at the end of a
layer, the streams' tokens are computed, and it goes on: then what it does within a layer must not
take much longer than the slice, which limits its rows on slow machines.

    10 ms a row, 48 layers, 256 rows:   2.6 s the pass, 53 ms a layer: left about every second layer
    0.2 ms a row, 12 layers, 256 rows:  51 ms the pass: takes the streams along
    a card that lacks 30 GB of experts: 1.6 s the pass, 33 ms a layer, for 64 rows as for 4,096

On a card a pass has a share that its rows do not change, so passes are remembered by size.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.ops.base import CHUNK_TOKENS

FEW_ROWS = 8  # taken along before anything is known
_FIRST_ROWS = 2048  # of a pass, before anything is known
_LEAST_MEASURED = 17  # rows; windows of so few take another way, on a card the processor's
_NEWEST_SHARE = 0.5  # of the newest pass in the averages
_GAIN = 0.75  # of a layer's time: passes of half the rows must be so much shorter to be worth it


@dataclass(slots=True)
class _Known:
    """Passes of about the same size: the averages of the newest ones."""

    rows: float
    pass_s: float
    layer_s: float


class PassBudget:
    """What passes over prompts have taken so far."""

    def __init__(self, slice_s: float) -> None:
        self.slice_s = slice_s
        self._known: dict[int, _Known] = {}  # by the bits of the number of rows

    def note(self, num_rows: int, pass_s: float, longest_layer_s: float) -> None:
        """A pass over so many rows was computed.

        Args:
            num_rows: prompt rows and others.
            pass_s: its own time, without what was computed in between.
            longest_layer_s: longest time without a look at others.
        """
        if num_rows < _LEAST_MEASURED:
            return
        known = self._known.get(num_rows.bit_length())
        if known is None:
            self._known[num_rows.bit_length()] = _Known(num_rows, pass_s, longest_layer_s)
            return
        known.rows = _mixed(known.rows, num_rows)
        known.pass_s = _mixed(known.pass_s, pass_s)
        known.layer_s = _mixed(known.layer_s, longest_layer_s)

    def is_short(self, num_rows: int) -> bool:
        """Whether a pass over so many rows is done within the slice."""
        if not self._known:
            return num_rows <= FEW_ROWS
        known, share = self._nearest(num_rows)
        if num_rows >= _LEAST_MEASURED and num_rows.bit_length() not in self._known:
            share = max(share, 1.0)  # it may be as long as a larger one
        return known.pass_s * share <= self.slice_s

    def most_rows(self, prompt_chunk: int) -> int:
        """Prompt rows of a pass while streams wait for it: a multiple of 64 if it is fewer."""
        if not self._known:
            return min(prompt_chunk, _FIRST_ROWS)
        rows = prompt_chunk
        while rows > CHUNK_TOKENS:
            known, share = self._nearest(rows)
            layer_s = known.layer_s * share
            if layer_s <= self.slice_s:
                break
            fewer = int(rows * self.slice_s / layer_s) // CHUNK_TOKENS * CHUNK_TOKENS
            fewer = max(fewer, CHUNK_TOKENS)
            half, half_share = self._nearest(fewer)
            if half is not known and half.layer_s * half_share > _GAIN * layer_s:
                break  # what takes so long are not the rows
            rows = fewer
        return min(prompt_chunk, rows)

    def _nearest(self, num_rows: int) -> tuple[_Known, float]:
        """Passes of about this size, and how many times their rows these are."""
        bits = num_rows.bit_length()
        size = min(self._known, key=lambda one: (abs(one - bits), one))
        known = self._known[size]
        return known, num_rows / known.rows


def _mixed(known: float, new: float) -> float:
    return known + _NEWEST_SHARE * (new - known)
