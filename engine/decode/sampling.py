"""Chooses the next token from logits.

Order, as users of vLLM and llama.cpp know it: logit bias, penalties, (temperature 0: the largest
wins, lower id on ties), temperature, top_k, top_p, min_p, draw. Temperature comes before the
truncations, as in transformers and vLLM, for which the model's values were published; top_p sums the
probabilities that top_k leaves, min_p compares with the most probable token.

The draw of an answer's i-th token is a function of the seed and i: the same seed gives the same text,
whatever else runs in the same batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from engine.core.errors import EngineError
from engine.decode.best_draw import new_best_draw
from engine.decode.filters import (
    LOWEST_TEMPERATURE,
    IdArray,
    ProbabilityArray,
    min_p_count,
    softmax,
    top_candidates,
    top_p_count,
)
from engine.decode.penalties import Biases, Penalties
from engine.ops.best_logits import BestLogits, RowLogits
from engine.ops.host_draw import DrawSettings, HostDraw
from engine.ops.token_mask import TokenMask
from engine.worker.messages import SamplingParams

FloatArray = npt.NDArray[np.float32]

# Without top_k, top_p looks at so many candidates first, then at eight times as many, and so on: its
# nucleus is small nearly always, and sorting everything takes 20 ms.
FIRST_CANDIDATES = 512
CANDIDATE_GROWTH = 8

DRAW_BLOCK = 512
FEW_CANDIDATES = 64  # of top_k

_BELOW_ONE = float(np.nextafter(1.0, 0.0))
_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


class BadLogitsError(EngineError):
    """The model computed numbers that are none: a damaged file or a broken operation."""

    code = "bad_logits"


NewDraw = Callable[[DrawSettings], HostDraw | None]


class Sampler:
    """Chooses the tokens of one answer, one after the other.

    Attributes:
        num_seen: tokens of the answer so far; the position of the next draw.
    """

    def __init__(self, params: SamplingParams, new_draw: NewDraw = lambda _: None) -> None:
        """Begin an answer; `new_draw` makes what draws quicker than the code here, if there is such."""
        self.num_seen = 0
        self._params = params
        self._penalties = Penalties(params)
        self._biases = Biases(params.logit_bias)
        settings = _settings(params, self._biases)
        self._draw = new_draw(settings)
        self._best_draw = new_best_draw(settings, self._penalties, new_draw)
        self._drawn_from: object = None  # arrays of the penalties that `_draw` reads

    def sample(
        self,
        logits: RowLogits,
        mask: TokenMask | None = None,
        *,
        use_penalties: bool = True,
        ahead: int = 0,
    ) -> int:
        """The next token's id; `logits` `[V]` is not changed.

        `note` must be told every token that becomes part of the answer, this one too. With `ahead`,
        drawn as the token that comes so many tokens after the next one will be.

        Args:
            logits: of the model; the largest ones do where the others are not needed.
            mask: which tokens may be drawn; None = all.
            use_penalties: whether those of the request count now.
            ahead: 0, or how far before its time the token is drawn.

        Raises:
            BadLogitsError: a logit that counts is NaN or plus infinity, or all are minus infinity.
        """
        use_penalties = use_penalties and self._penalties.is_active
        if isinstance(logits, BestLogits):
            position = self.num_seen + ahead
            if self._best_draw is not None:
                token_id = self._best_draw.draw(logits, position, mask, use_penalties=use_penalties)
                if token_id is not None:
                    return token_id
            logits = logits.all_logits()
        if self._draw is not None:
            return self._drawn(self._draw, logits, mask, ahead, use_penalties=use_penalties)
        allowed = logits if mask is None else mask.applied(logits)
        if not np.isfinite(allowed.max()):
            raise _bad_logits()
        if use_penalties or self._biases.is_active:
            logits = logits.copy()
            if self._biases.is_active:
                self._biases.apply(logits)
            if use_penalties:
                self._penalties.apply(logits)
            allowed = logits if mask is None else mask.applied(logits)  # they move -inf too
        params = self._params
        if params.temperature == 0:
            return int(np.argmax(allowed))
        u = uniform(params.seed, self.num_seen + ahead)
        if 0 < params.top_k <= FEW_CANDIDATES:
            return draw_of_few(allowed, params, u)
        ids, probabilities = candidates(allowed, params)
        return int(ids[draw(probabilities, u)])

    def sample_for_any_mask(self, logits: RowLogits, *, use_penalties: bool = True) -> int | None:
        """What `sample` gives with every mask that allows it; None when that is not known.

        It depends on the mask, it would take as long to find out, or a logit is no usable number.
        """
        use_penalties = use_penalties and self._penalties.is_active
        if not isinstance(logits, BestLogits):
            if self._draw is not None:
                num_seen = self._moved_by(self._draw) if use_penalties else 0
                return self._draw.draw_for_any_mask(logits, self.num_seen, num_seen)
        elif self._best_draw is not None:
            token_id = self._best_draw.draw_for_any_mask(
                logits, self.num_seen, use_penalties=use_penalties
            )
            if token_id is not None:
                return token_id
        if self._params.temperature > 0:
            return None
        try:
            return self.sample(logits, use_penalties=use_penalties)
        except BadLogitsError:
            return None

    def sample_window(self, logits: FloatArray, drafts: Sequence[int]) -> list[int]:
        """The next tokens up to the first one that is not its draft; often none.

        That they are drawn in one call is all there is to it: none where a draw depends on the tokens
        before it, nor from a row on that holds no usable numbers.

        Args:
            logits: `[1 + drafts, V]`, not changed.
            drafts: what each of the tokens but the last is expected to be.
        """
        if self._draw is None or self._penalties.is_active:
            return []
        return self._draw.draw_window(logits, self.num_seen, drafts)

    @property
    def takes_best(self) -> bool:
        """Whether each token is that of the largest logit, whatever the others are."""
        is_moved = self._biases.is_active or self._penalties.is_active
        return self._params.temperature == 0 and not is_moved

    @property
    def takes_few(self) -> bool:
        """Whether the largest logits of a row will mostly do."""
        return self._best_draw is not None

    def note(self, token_id: int) -> None:
        """A token, sampled or forced, became part of the answer."""
        self.num_seen += 1
        self._penalties.note(token_id)

    def _drawn(
        self,
        draw: HostDraw,
        logits: FloatArray,
        mask: TokenMask | None,
        ahead: int,
        *,
        use_penalties: bool,
    ) -> int:
        num_seen = self._moved_by(draw) if use_penalties else 0
        token_id = draw.draw(logits, self.num_seen + ahead, num_seen, mask)
        if token_id is None:
            raise _bad_logits()
        return token_id

    def _moved_by(self, draw: HostDraw) -> int:
        """How many tokens penalties count, which the draw knows now."""
        penalties = self._penalties
        if penalties.ids is not self._drawn_from:
            self._drawn_from = penalties.ids
            draw.use_seen(penalties.ids, penalties.counts)
        return penalties.num_seen


def _bad_logits() -> BadLogitsError:
    return BadLogitsError(
        "The model computed no usable numbers. Check its file (`engine inspect`) and this machine "
        "(`engine doctor`), or try `--ops reference`."
    )


def _settings(params: SamplingParams, biases: Biases) -> DrawSettings:
    return DrawSettings(
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        repetition=params.repetition_penalty,
        frequency=params.frequency_penalty,
        presence=params.presence_penalty,
        seed=params.seed,
        bias_ids=biases.ids,
        biases=biases.values,
    )


def candidates(
    logits: FloatArray, params: SamplingParams
) -> tuple[IdArray | range, ProbabilityArray]:
    """Ids that may be drawn and their probabilities, which need not sum to one.

    They come in descending order when anything truncates, else in the order of their ids.

    Args:
        logits: `[V]`, after biases and penalties.
        params: temperature > 0, top_k, top_p and min_p are used.
    """
    if params.top_k == 0 and params.top_p >= 1 and params.min_p <= 0:
        return range(len(logits)), softmax(logits, params.temperature)
    if params.top_k > 0:
        ids = top_candidates(logits, params.top_k)
        probabilities = softmax(logits[ids], params.temperature)
        count = top_p_count(probabilities, params.top_p) if params.top_p < 1 else len(ids)
    else:
        ids, probabilities, count = _nucleus(logits, params)
    ids, probabilities = ids[:count], probabilities[:count]
    if params.min_p > 0:
        count = min_p_count(probabilities, params.min_p)
        ids, probabilities = ids[:count], probabilities[:count]
    return ids, probabilities


def draw_of_few(logits: FloatArray, params: SamplingParams, u: float) -> int:
    """What `draw` takes of `candidates` for a small top_k; numbers of Python are faster for those.

    Plain twin of engine/kernels/host/draw.cpp, which draws where the host library computes.

    Args:
        logits: `[V]`, after biases and penalties.
        params: temperature > 0, top_k > 0, top_p and min_p are used.
        u: in [0, 1).
    """
    ids = top_candidates(logits, params.top_k)
    values: list[float] = logits[ids].tolist()
    temperature = max(params.temperature, LOWEST_TEMPERATURE)
    weights = [math.exp((value - values[0]) / temperature) for value in values]
    least = min(params.min_p, 1.0)  # of the largest weight, which is 1
    mass = params.top_p * (1 - 1e-9) * math.fsum(weights) if params.top_p < 1 else math.inf
    total, count = 0.0, 0
    for weight in weights:
        if weight < least or total >= mass:
            break
        total += weight
        count += 1
    target = u * total
    for index in range(count):
        target -= weights[index]
        if target < 0 and weights[index] > 0:
            return int(ids[index])
    return int(ids[max(index for index in range(count) if weights[index] > 0)])  # rounded up


def _nucleus(logits: FloatArray, params: SamplingParams) -> tuple[IdArray, ProbabilityArray, int]:
    """Descending candidates of the whole vocabulary, and how many of them top_p keeps.

    There are enough of them for min_p too: the last one is below its bound, or is the last of all.
    """
    everything = softmax(logits, params.temperature)  # (V,)
    size = FIRST_CANDIDATES
    while True:
        ids = top_candidates(logits, size)
        probabilities = everything[ids]
        is_all = len(ids) < size or len(ids) == len(logits)
        if is_all or (params.top_p < 1 and probabilities.sum() >= params.top_p):
            count = top_p_count(probabilities, params.top_p) if params.top_p < 1 else len(ids)
            return ids, probabilities, count
        if params.min_p > 0 and probabilities[-1] < params.min_p * probabilities[0]:
            return ids, probabilities, len(ids)  # min_p cuts before top_p would
        size *= CANDIDATE_GROWTH


def draw(probabilities: ProbabilityArray, u: float) -> int:
    """The index on which `u` in [0, 1) falls; never one of probability zero."""
    first = 0
    if len(probabilities) > DRAW_BLOCK:  # find the block first: a cumulative sum of all takes 3 ms
        starts = np.arange(0, len(probabilities), DRAW_BLOCK)
        block, u = _search(np.add.reduceat(probabilities, starts), u)
        first = int(starts[block])
        probabilities = probabilities[first : first + DRAW_BLOCK]
    return first + _search(probabilities, u)[0]


def _search(weights: ProbabilityArray, u: float) -> tuple[int, float]:
    """The index on which `u` in [0, 1) of the sum falls, and where in its weight, in [0, 1)."""
    total = np.cumsum(weights)
    target = u * float(total[-1])
    index = int(np.searchsorted(total, target, side="right"))
    if index >= len(total):  # u * sum was rounded up to the sum
        index = int(np.flatnonzero(weights)[-1])
    before = float(total[index - 1]) if index else 0.0
    return index, min(max((target - before) / float(weights[index]), 0.0), _BELOW_ONE)


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on seed and position alone (two rounds of SplitMix64).

    Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014. A numpy
    generator with a counter costs ten times as much to set up for one number.
    """
    return (_mixed(_mixed(seed) + (position + 1) * _GAMMA) >> 11) * 2.0**-53


def _mixed(value: int) -> int:
    """A bijection of 64 bits in which every bit depends on every other."""
    value = (value + _GAMMA) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
