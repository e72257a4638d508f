"""Log probabilities that clients ask for: of the raw logits, whatever the sampling settings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.decode.filters import top_candidates
from engine.worker.messages import TokenLogprobs

FloatArray = npt.NDArray[np.float32]

# What a token of probability zero gets: messages carry finite numbers only.
LOWEST_LOGPROB = -9999.0


def token_logprobs(logits: FloatArray, token_id: int, num_top: int) -> TokenLogprobs:
    """Log-softmax of `logits` `[V]` at the chosen token and at the `num_top` best ones."""
    wide = logits.astype(np.float64)
    highest = float(wide.max())
    wide -= highest
    np.exp(wide, out=wide)
    log_sum = highest + float(np.log(wide.sum()))

    def at(i: int) -> float:
        # Rounding may put a certain token a hair above zero.
        return min(0.0, max(float(logits[i]) - log_sum, LOWEST_LOGPROB))

    top = top_candidates(logits, num_top) if num_top > 0 else ()
    return TokenLogprobs(token_id, at(token_id), tuple((int(i), at(int(i))) for i in top))
