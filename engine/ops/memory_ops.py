"""The part of the operations' contract that is about memory: weights, arrays, and what a card has room for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.device.base import DeviceMemoryError
from engine.gguf.reader import Tensor
from engine.ops.weights import Matrix, MoeWeights, RowTable

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]

ChoiceCounter = Callable[[int, IntArray], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest sizes that operations will see; scratch is allocated from them once.

    Attributes:
        max_rows: rows of a pass.
        max_window: rows of one sequence that can be committed in part.
        num_slots: sequences alive at once.
        num_pages: pages in each KV pool.
        threads: worker threads of the host implementation, 0 for its own choice.
        pin_threads: hold each of them to a core of its own.
    """

    max_rows: int
    max_window: int
    num_slots: int
    num_pages: int
    threads: int = 0
    pin_threads: bool = False

    def __post_init__(self) -> None:
        if min(self.max_rows, self.max_window, self.num_slots, self.num_pages) < 1:
            raise ValueError("limits must be positive")


class MemoryOps(ABC):
    """Where the operations keep weights and arrays, and how they share a card's memory."""

    name: str

    # -- weights ---------------------------------------------------------------------------------

    @abstractmethod
    def matrix(self, tensor: Tensor) -> Matrix:
        """Handle of a 2-D tensor `[out, in]`, or of a 3-D tensor `[E, out, in]` of experts.

        The tensor's bytes are used where they lie when the format allows it.

        Raises:
            ModelFileError: the implementation has no code for the tensor's format.
        """

    def row_table(self, table: RowTable) -> Matrix:
        """Handle of a table that stays on the disk, for `gather_rows` alone.

        Gathering then waits for the disk, and raises the table's `failure` when that cannot read.
        """
        raise NotImplementedError(f"{self.name} operations read no tables from the disk")

    def table(self, tensor: Tensor) -> Matrix:
        """Handle of a 2-D tensor of which only `gather_rows` reads rows.

        Raises:
            ModelFileError: the implementation has no code for the tensor's format.
        """
        return self.matrix(tensor)

    def vector(self, tensor: Tensor) -> FloatArray:
        """The tensor's values as float32, in its own shape."""
        return np.ascontiguousarray(tensor.dequantise(), dtype=np.float32)

    def zeros(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> npt.NDArray:  # type: ignore[type-arg]
        """An array in this implementation's memory."""
        return np.zeros(shape, dtype)

    def host_arrays(self, *parts: tuple[tuple[int, ...], npt.DTypeLike]) -> list[npt.NDArray[Any]]:
        """Zeroed numpy arrays of these shapes and types, which operations read and write quickly.

        For what is made by Python for every pass (a plan, row numbers) and for what Python reads of
        it (logits). Arrays of one call lie together, so that they can be copied at once.
        """
        return [np.zeros(shape, dtype) for shape, dtype in parts]

    def card_address(self, array: npt.NDArray[Any]) -> int:
        """Under which address a card reads a host array in place, over the bus.

        Raises:
            NotImplementedError: these operations have no card.
        """
        raise NotImplementedError(f"{self.name} operations have no card")

    def lend(self, memory: FloatArray) -> None:  # noqa: B027  # most have nothing to do
        """Memory that experts' results may lie in: nothing is in it then, nor between layers."""

    def resize(self, limits: Limits) -> None:  # noqa: B027  # most have nothing to do
        """Other limits than they were made with; before weights are loaded."""

    def free_card_bytes(self) -> int | None:
        """Memory of the card that is free; None without a card."""
        return None

    def finish_loading(self, layers: Sequence[MoeWeights], draft: Sequence[MoeWeights]) -> None:  # noqa: B027
        """All weights and states have been made: what memory is left may be used for speed.

        Args:
            layers: the experts of the model's layers.
            draft: those of the draft head, which every drafted token reads.
        """

    def count_choices(self, counter: ChoiceCounter | None) -> bool:
        """Have the experts counted that layers choose; False where the model must do it itself.

        Args:
            counter: is told a layer's number and its choice `[R, num_used]`; may miss layers whose
                experts are all at hand.
        """
        del counter
        return False

    def watch_reads(self, watch: ChoiceCounter | None) -> bool:
        """Say which experts will be read where they lie in the file; False where the model knows.

        Args:
            watch: is told a layer's number and its experts, negative ones being none, just before.
        """
        del watch
        return False

    def tune(self, settings: Mapping[str, float]) -> None:  # noqa: B027  # nothing to tune here
        """Settings of the run config that hold from the next pass on, until the next call.

        Args:
            settings: by key; what is not named is as it was loaded, what is not known is ignored.
        """

    def make_room(self, error: DeviceMemoryError, attempt: int = 0) -> bool:
        """Give memory up so that a pass that failed can be done again; False when none is left.

        Args:
            error: what the pass failed with.
            attempt: how often the same pass has asked before.
        """
        del error, attempt
        return False

    def balance_memory(self) -> None:  # noqa: B027  # most have nothing to do
        """Follow what other programs leave free of a card's memory; between passes, every second or so."""
