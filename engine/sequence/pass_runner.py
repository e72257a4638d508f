"""Runs passes: the one that may be left between two layers, and short ones meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.sequence.batch import Batch, LogitsForm, PassResult
from engine.sequence.language_model import LanguageModel, Passes
from engine.sequence.pass_budget import PassBudget
from engine.sequence.pass_parts import Part, is_in_vain
from engine.sequence.rows_ahead import RowsAhead
from engine.sequence.running_request import WINDOW_ROWS, RunningRequest

NOBODY: frozenset[RunningRequest] = frozenset()


class PassRunner:
    """Computes what the scheduler has chosen.

    Args:
        model: what computes.
        prompt_chunk: prompt rows of one pass.
        parallel: requests that run together.
        budget: is told what passes took.
        rows_ahead: is told which prompt rows come next.
        between_layers: called after each layer.
        serve_windows: called after a layer, when others have waited long enough; computes their short
            steps by `compute`.
        clock: seconds.

    Attributes:
        open: requests in the pass that is left open.
        has_windows_alone: the newest pass held nothing else, so that its time tells what they cost.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        prompt_chunk: int,
        parallel: int,
        budget: PassBudget,
        rows_ahead: RowsAhead,
        between_layers: Callable[[], None],
        serve_windows: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._model = model
        self._prompt_chunk = prompt_chunk
        self._parallel = parallel
        self._budget = budget
        self._rows_ahead = rows_ahead
        self._between_layers = between_layers
        self._serve_windows = serve_windows
        self._clock = clock
        self._lane: Passes | None = None  # for passes meanwhile
        self._window_at = 0.0  # when sequences that decode got their last tokens
        self._num_passes = 0
        self.open = NOBODY
        self.has_windows_alone = False

    def compute(self, parts: Sequence[Part]) -> PassResult | None:
        """The result, or None when the pass was left because of a cancelled request.

        Raises:
            EngineError: it cannot be computed; nothing of it is left.
        """
        self.has_windows_alone = False
        form = LogitsForm.CANDIDATES
        for part in parts:
            if part.is_last and not part.request.takes_few:
                form = LogitsForm.ALL
        batch = Batch([part.entry() for part in parts], form)
        if self.open:
            return self._compute_meanwhile(batch, parts)
        self._num_passes += 1
        for part in parts:
            part.request.served = self._num_passes
        self.open = frozenset([part.request for part in parts])
        try:
            return self._compute_openly(batch, parts)
        finally:
            self.open = NOBODY

    def is_window_due(self, layer_s: float = 0.0) -> bool:
        """Whether now is nearer to the end of the slice than after another layer of that time."""
        return self._clock() - self._window_at + layer_s / 2 >= self._budget.slice_s

    def _compute_openly(self, batch: Batch, parts: Sequence[Part]) -> PassResult | None:
        """A pass that is left for others between its layers."""
        layers = self._model.layers(batch)
        pass_s = longest_s = 0.0
        num_windows = 0
        for part in parts:
            num_windows += part.request.is_window
        while True:
            began_at = self._clock()
            try:
                next(layers)
            except StopIteration as end:
                result: PassResult = end.value
                break
            if not longest_s:  # the pass has asked for its own rows
                self._rows_ahead.prompts(parts, self._prompt_chunk)
            layer_s = self._clock() - began_at
            pass_s, longest_s = pass_s + layer_s, max(longest_s, layer_s)
            self._between_layers()
            if not is_in_vain(parts):
                self._let_others_in(layer_s)
            if is_in_vain(parts):
                layers.close()
                return None
        now = self._clock()
        self._budget.note(batch.num_rows, pass_s + now - began_at, longest_s)
        if num_windows:
            self._window_at = now
        self.has_windows_alone = num_windows == len(parts)
        return result

    def _compute_meanwhile(self, batch: Batch, parts: Sequence[Part]) -> PassResult | None:
        """A short pass while another one is open."""
        if self._lane is None:
            self._lane = self._model.new_lane(self._parallel + WINDOW_ROWS)
        layers = self._lane.layers(batch)
        while True:
            try:
                next(layers)
            except StopIteration as end:
                result: PassResult = end.value
                return result
            self._between_layers()
            if is_in_vain(parts):
                layers.close()
                return None

    def _let_others_in(self, layer_s: float) -> None:
        if self.is_window_due(layer_s) and self._serve_windows():
            self._window_at = self._clock()
