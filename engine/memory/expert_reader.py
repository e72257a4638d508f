"""Experts that memory does not hold: the disk is asked for them as soon as they are known.

Between a layer's router and its experts the model calls `chosen`. What is missing of the chosen experts is
then asked for at once, all matrices together, and waited for; a page that is touched instead would be one
read after the other. Meanwhile the next layer's router, applied to this layer's input, says which experts
that layer will probably want; another thread asks for these while this layer computes.

Answers do not depend on any of it: the same bytes are computed with, wherever they come from. A file that
cannot be read any more is an error of the request, where touching its pages would end the process. Knows no
operating system (`engine/gguf/file_pages.py`) and no arithmetic (`engine/memory/expert_guess.py`).
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.core.disk_reads import EXPERTS, UNKNOWN, DiskReads
from engine.core.errors import ModelFileError
from engine.core.gguf_values import printable
from engine.core.process_memory import major_faults
from engine.gguf.file_pages import FilePages, Range
from engine.memory.expert_counts import ExpertCounts
from engine.memory.expert_map import ExpertMap

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]

# A guess that is right less often than this costs the disk more than it hides.
LEAST_PRECISION = 0.3
_MEMORY = 0.1  # weight of the newest pass in the precision that is remembered
_LOOK_EVERY = 16  # passes after which a guess that did not pay is looked at again
# Asked for ahead of the layer that computes: more would push out what is still wanted.
MOST_AHEAD_BYTES = 256 << 20


class Guess(Protocol):
    """Says which experts a layer will choose."""

    def guess(self, layer_idx: int, x: FloatArray) -> npt.NDArray[np.int64]:
        """Experts of a layer, ascending, from the input `[R, H]` of the experts of the one before."""


class ExpertReader:
    """Has experts read before they are computed with.

    Args:
        experts: where they are.
        pages: what the system can do, for the thread that computes.
        kept: `[num_layers, num_experts]`, those that never leave memory.
        counts: counts every choice; None = nothing is counted.
        asks: whether the disk is asked; else choices are only counted.
        guess: what the next layer will choose; None = nobody says.
        pages_ahead: as `pages`, for the other thread.

    Attributes:
        asks: whether the disk is asked.
        faults_while_waiting: page faults that are part of the reads counted here.
    """

    def __init__(
        self,
        experts: ExpertMap,
        pages: FilePages,
        kept: BoolArray,
        counts: ExpertCounts | None = None,
        *,
        asks: bool = True,
        guess: Guess | None = None,
        pages_ahead: FilePages | None = None,
    ) -> None:
        self._experts = experts
        self._pages = pages
        self._kept = kept
        self._counts = counts
        self.asks = asks
        self._guess = guess if asks else None
        self._ahead = pages_ahead if pages_ahead is not None else pages
        self._thread = ThreadPoolExecutor(1, "experts-ahead") if self._guess is not None else None
        self._guessed: dict[int, npt.NDArray[np.int64]] = {}
        num_layers = len(experts.layers)
        self._precision = np.ones(num_layers)
        self._passes = np.zeros(num_layers, np.int64)
        self._num_guessed = self._num_right = 0
        self._reads = self._bytes = self._hits = 0
        self._waited_s = 0.0
        self.faults_while_waiting = 0
        self._knows = True  # what is in memory
        self._waits = True
        if asks:
            pages.expect_random(list(experts.all_ranges()))

    @property
    def reads(self) -> DiskReads:
        """What was read so far; a part is one matrix of an expert."""
        return DiskReads(
            EXPERTS,
            self._reads if self._knows else UNKNOWN,
            self._bytes if self._knows else UNKNOWN,
            self._hits if self._knows else UNKNOWN,
            self._waited_s * 1000 if self._waits else UNKNOWN,
        )

    @property
    def guess_precision(self) -> float | None:
        """How many of the guessed experts were chosen, of all guesses; None before the first."""
        return self._num_right / self._num_guessed if self._num_guessed else None

    def chosen(self, layer_idx: int, x: FloatArray, expert_ids: IntArray) -> None:
        """A layer's choice is known and is computed with next.

        Args:
            layer_idx: of the layer.
            x: `[R, H]`, the input of its experts.
            expert_ids: `[R, num_used]`; negative ones are none.

        Raises:
            ModelFileError: the file cannot be read.
        """
        if self._counts is not None:
            self._counts.add(layer_idx, expert_ids)
        if not self.asks:
            return
        wanted = _distinct(expert_ids)
        self._judge(layer_idx, wanted)
        self._fetch(layer_idx, wanted)
        if layer_idx + 1 < len(self._experts.layers):
            self._ask_ahead(layer_idx + 1, x)

    def will_read(self, layer_idx: int, expert_ids: npt.NDArray[np.integer]) -> None:
        """Have some experts of a layer read, where others are not wanted of the file: a card holds them.

        Neither counts nor guesses.

        Args:
            layer_idx: of the layer.
            expert_ids: of any shape; negative ones are none.

        Raises:
            ModelFileError: the file cannot be read.
        """
        self._fetch(layer_idx, _distinct(expert_ids))

    def close(self) -> None:
        """End the other thread."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def _fetch(self, layer_idx: int, wanted: npt.NDArray[np.integer]) -> None:
        ranges = self._experts.ranges(layer_idx, self._not_kept(layer_idx, wanted))
        self._hits += len(self._experts.layers[layer_idx]) * len(wanted) - len(ranges)
        missing = self._pages.missing_bytes(ranges)
        if missing is None:
            self._knows = False
        else:
            ranges = [one for one, count in zip(ranges, missing, strict=True) if count]
            self._hits += len(missing) - len(ranges)
            self._reads += len(ranges)
            self._bytes += sum(missing)
        if not ranges:
            return
        began_at, faults = time.perf_counter(), major_faults() or 0
        self._pages.request(ranges)
        try:
            self._waits = self._pages.wait(ranges) and self._waits
        except OSError as error:
            raise self._unreadable(layer_idx, error) from error
        finally:
            self._waited_s += time.perf_counter() - began_at
            self.faults_while_waiting += (major_faults() or 0) - faults

    def _ask_ahead(self, layer_idx: int, x: FloatArray) -> None:
        if self._guess is None or self._thread is None:
            return
        self._passes[layer_idx] += 1
        pays = self._precision[layer_idx] >= LEAST_PRECISION
        if not pays and self._passes[layer_idx] % _LOOK_EVERY:
            return
        guessed = self._guess.guess(layer_idx, x)
        self._guessed[layer_idx] = guessed
        if pays:
            ranges = self._experts.ranges(layer_idx, self._not_kept(layer_idx, guessed))
            self._thread.submit(self._request, ranges)

    def _request(self, ranges: list[Range]) -> None:
        """Ask for what is missing; runs in the other thread."""
        missing = self._ahead.missing_bytes(ranges)
        if missing is not None:
            ranges = [one for one, count in zip(ranges, missing, strict=True) if count]
        total = 0
        for index, (_, num_bytes) in enumerate(ranges):
            total += num_bytes
            if total > MOST_AHEAD_BYTES:
                ranges = ranges[:index]
                break
        self._ahead.request(ranges)

    def _judge(self, layer_idx: int, wanted: npt.NDArray[np.integer]) -> None:
        """Remember how good the guess for this layer was."""
        guessed = self._guessed.pop(layer_idx, None)
        if guessed is None or not len(guessed):
            return
        num_right = int(np.isin(guessed, wanted, assume_unique=True).sum())
        self._num_guessed += len(guessed)
        self._num_right += num_right
        share = num_right / len(guessed)
        self._precision[layer_idx] += _MEMORY * (share - self._precision[layer_idx])

    def _not_kept(self, layer_idx: int, wanted: npt.NDArray[np.integer]) -> Iterable[int]:
        return [int(one) for one in wanted[~self._kept[layer_idx, wanted]]]

    def _unreadable(self, layer_idx: int, error: OSError) -> ModelFileError:
        layer = self._experts.layers[layer_idx]
        name = printable(layer[0].file_name, 400) if layer else "the model file"
        # Linux calls a page behind the end of a file, or one that the drive fails to give, so.
        cause = "its end or the drive is gone" if error.errno == errno.EFAULT else error.strerror
        return ModelFileError(
            f"The model file {name} cannot be read any more ({cause}); put it back, or check the drive, "
            "then ask again.",
            code="file_unreadable",
            params={"file": name},
        )


def _distinct(expert_ids: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    wanted = np.unique(expert_ids)
    return wanted[wanted >= 0]
