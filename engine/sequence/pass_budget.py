"""How long a pass over a prompt takes, so that nobody's stream waits too long for it.

A stream's next token may wait for `slice_s` while a prompt is read. A pass that is done by then takes
the tokens of all streams along, which costs next to nothing. A longer one is left at the end of a
layer, the streams' tokens are computed, and it goes on: then what it does within a layer must not
take much longer than the slice, which limits its rows on slow machines.

    10 ms a row, 48 layers, 256 rows:   2.6 s the pass, 53 ms a layer: left about every second layer
    0.2 ms a row, 12 layers, 256 rows:  51 ms the pass: takes the streams along
"""

from __future__ import annotations

from engine.ops.base import CHUNK_TOKENS

FEW_ROWS = 8  # taken along before anything is known
_LEAST_MEASURED = 32  # rows; smaller passes say little about a row's share
_NEWEST_SHARE = 0.5  # of the newest pass in the averages


class PassBudget:
    """What passes over prompts have taken so far."""

    def __init__(self, slice_s: float) -> None:
        self.slice_s = slice_s
        self._row_s = 0.0  # 0 = not known yet
        self._layer_row_s = 0.0

    def note(self, num_rows: int, pass_s: float, longest_layer_s: float) -> None:
        """A pass over so many rows was computed.

        Args:
            num_rows: prompt rows and others.
            pass_s: its own time, without what was computed in between.
            longest_layer_s: longest time without a look at others.
        """
        if num_rows < _LEAST_MEASURED:
            return
        self._row_s = _mixed(self._row_s, pass_s / num_rows)
        self._layer_row_s = _mixed(self._layer_row_s, longest_layer_s / num_rows)

    def is_short(self, num_rows: int) -> bool:
        """Whether a pass over so many rows is done within the slice."""
        if not self._row_s:
            return num_rows <= FEW_ROWS
        return num_rows * self._row_s <= self.slice_s

    def most_rows(self, prompt_chunk: int) -> int:
        """Prompt rows of a pass while streams wait for it: a multiple of 64 if it is fewer."""
        if not self._layer_row_s:
            return prompt_chunk
        rows = int(self.slice_s / self._layer_row_s) // CHUNK_TOKENS * CHUNK_TOKENS
        return min(prompt_chunk, max(rows, CHUNK_TOKENS))


def _mixed(known: float, new: float) -> float:
    return new if not known else known + _NEWEST_SHARE * (new - known)
