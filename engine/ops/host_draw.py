"""Drawing tokens by the host library (engine/kernels/host/draw.cpp).

A token is drawn for every row of a pass, and numpy takes as long for that as the kernels for a layer
of a small model. What is computed is said, and written plainly, in engine/decode/sampling.py.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.ops.token_mask import TokenMask

FloatArray = npt.NDArray[np.float32]
IdArray = npt.NDArray[np.int64]

MOST_CANDIDATES = 64  # `kMostCandidates`: top_k up to here, and the largest logit alone
_BAD_LOGITS, _DEPENDS = -1, -3
_ANY_MASK = -1  # in place of a mask's size
_SEED_MASK = (1 << 64) - 1

DrawFunction = Callable[[int, int, int, int, int, int], int]


@dataclass(frozen=True, slots=True)
class DrawSettings:
    """How tokens of one answer are drawn.

    Attributes:
        bias_ids: ids whose logits are moved, each once.
        biases: by how much, float64.
    """

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition: float
    frequency: float
    presence: float
    seed: int
    bias_ids: IdArray
    biases: npt.NDArray[np.float64]

    @property
    def is_drawable(self) -> bool:
        """Whether the library can do it: few candidates are enough."""
        return self.temperature == 0 or 0 < self.top_k <= MOST_CANDIDATES


class _DrawRules(ctypes.Structure):
    """`DrawRules` of draw.cpp."""

    _fields_ = (
        ("bias_ids", ctypes.c_void_p),
        ("biases", ctypes.c_void_p),
        ("num_biases", ctypes.c_int64),
        ("seen_ids", ctypes.c_void_p),
        ("seen_counts", ctypes.c_void_p),
        ("saved", ctypes.c_void_p),
        ("object_head", ctypes.c_int64),
        ("repetition", ctypes.c_float),
        ("frequency", ctypes.c_float),
        ("presence", ctypes.c_float),
        ("unused", ctypes.c_float),
        ("temperature", ctypes.c_double),
        ("top_p", ctypes.c_double),
        ("min_p", ctypes.c_double),
        ("top_k", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
    )


class HostDraw:
    """Draws the tokens of one answer."""

    def __init__(
        self, function: DrawFunction, window_function: DrawFunction, settings: DrawSettings
    ) -> None:
        self._function = function
        self._window_function = window_function
        self._settings = settings  # owns the biases
        self._seen: tuple[IdArray, FloatArray] | None = None
        self._saved = np.zeros(len(settings.bias_ids), np.float32)
        self._rules = _DrawRules(
            saved=self._saved.ctypes.data,
            object_head=object.__basicsize__,
            bias_ids=settings.bias_ids.ctypes.data,
            biases=settings.biases.ctypes.data,
            num_biases=len(settings.bias_ids),
            repetition=settings.repetition,
            frequency=settings.frequency,
            presence=settings.presence,
            temperature=settings.temperature,
            top_p=settings.top_p,
            min_p=settings.min_p,
            top_k=min(max(settings.top_k, 1), MOST_CANDIDATES),
            seed=settings.seed & _SEED_MASK,
        )
        self._address = ctypes.addressof(self._rules)

    def use_seen(self, ids: IdArray, counts: FloatArray) -> None:
        """Read the tokens that penalties count from these arrays from now on."""
        self._seen = (ids, counts)
        self._rules.seen_ids = ids.ctypes.data
        self._rules.seen_counts = counts.ctypes.data
        self._saved = np.zeros(len(self._settings.bias_ids) + len(ids), np.float32)
        self._rules.saved = self._saved.ctypes.data

    def draw(
        self, logits: FloatArray, position: int, num_seen: int, mask: TokenMask | None = None
    ) -> int | None:
        """The token at `position` of the answer; None when the allowed logits are no usable numbers.

        Args:
            logits: contiguous `[V]`, unchanged afterwards.
            position: tokens of the answer before it.
            num_seen: of the seen tokens, so many count; 0 = no penalties.
            mask: which tokens may be drawn; None = all.

        Raises:
            ValueError: the array has another form, or an id is not below V.
        """
        address, size = (0, 0) if mask is None else (mask.address, mask.num_tokens)
        token_id = self._function(self._address, id(logits), position, num_seen, address, size)
        if token_id >= 0:
            return token_id
        if token_id == _BAD_LOGITS:
            return None
        raise _unfit()

    def draw_for_any_mask(self, logits: FloatArray, position: int, num_seen: int) -> int | None:
        """The token that is drawn with every mask that allows it.

        None when that depends on the mask, or some logit is no usable number.

        Args:
            logits: contiguous `[V]`, unchanged afterwards.
            position: tokens of the answer before it.
            num_seen: of the seen tokens, so many count; 0 = no penalties.

        Raises:
            ValueError: as `draw`.
        """
        token_id = self._function(self._address, id(logits), position, num_seen, 0, _ANY_MASK)
        if token_id >= 0:
            return token_id
        if token_id in {_BAD_LOGITS, _DEPENDS}:
            return None
        raise _unfit()

    def draw_window(self, logits: FloatArray, position: int, drafts: Sequence[int]) -> list[int]:
        """The tokens from `position` on, without penalties, up to the first that was not drafted.

        Rows of no usable numbers and what comes behind them are left out.

        Args:
            logits: contiguous `[1 + drafts, V]`, unchanged afterwards.
            position: tokens of the answer before the first of them.
            drafts: what each of the next tokens but the last is expected to be.

        Raises:
            ValueError: as `draw`.
        """
        words = array("q", (*drafts, *drafts, 0))  # the drafts, then room for what is drawn
        address, num_drafts = words.buffer_info()[0], len(drafts)
        count = self._window_function(
            *(self._address, id(logits), position, address),
            *(num_drafts, address + num_drafts * words.itemsize),
        )
        if count < 0:
            raise _unfit()
        return words[num_drafts : num_drafts + count].tolist()


def _unfit() -> ValueError:
    return ValueError("the logits do not fit the ids that are to be moved, or are not contiguous")
