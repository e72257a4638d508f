"""What int8 keys and values cost in quality: logits against those of float32 pages, and float16 beside it.

The pages of the host operations are rounded as the card's int8 pages are (a float32 scale for each token
and head, engine/kernels/cuda/attention_prepare.cu); index keys stay as they are. Run it from the
repository's root:

    python -m bench.int8_pages
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.core.kv_type import KvType
from engine.gguf.reader import GgufFile
from engine.model.limits import ModelLimits
from engine.model.trunk import Model
from engine.ops.base import FloatArray
from engine.ops.host import HostOps
from engine.ops.plan import PassPlan
from engine.ops.pools import KvPool
from engine.ops.weights import AttentionWeights
from engine.text.tokenizer import Tokenizer
from tests.support.golden import arrays, mean_kl, model_file, run_tokens

_GOLDEN = ("full", "nople", "odd", "quant-Q4_K_M", "quant-Q2_0")
_BUNDLED = Path("assets/models/stratum-tiny.gguf")
_TEXT = Path("README.md")
_NUM_TOKENS = 1000


class RoundingOps(HostOps):
    """The host operations with float32 pages whose keys and values are rounded to `kind`."""

    kind = "f32"

    def attention_append(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        k: FloatArray,
        v: FloatArray,
        index_k: FloatArray,
    ) -> None:
        """Append, then round what was appended."""
        super().attention_append(weights, pool, plan, k, v, index_k)
        for row in range(plan.num_rows):
            position = int(plan.positions[row])
            page = plan.page_table[plan.row_seq[row], position // pool.page_tokens]
            for numbers in (pool.keys, pool.values):
                place = numbers[page, position % pool.page_tokens]
                place[...] = _rounded(place, self.kind)


def _rounded(numbers: npt.NDArray[np.generic], kind: str) -> FloatArray:
    wide = np.asarray(numbers, np.float32)
    if kind == "f16":
        return wide.astype(np.float16).astype(np.float32)
    if kind == "f32":
        return wide
    scales = np.maximum(np.abs(wide).max(axis=-1, keepdims=True), np.float32(1e-30)) / np.float32(
        127
    )
    return np.asarray(np.rint(wide / scales) * scales, np.float32)


def _logits(file: GgufFile, tokens: list[int], kind: str) -> FloatArray:
    limits = ModelLimits(max_rows=256, max_sequences=1, context=2048, kv_type=KvType.F32)
    ops = RoundingOps(limits.for_ops())
    ops.kind = kind
    try:
        model = Model.load(file, ops, limits)
        return run_tokens(model, model.new_sequence(), tokens, 64)
    finally:
        ops.close()


def main() -> None:
    """Print a table."""
    with GgufFile.open(_BUNDLED) as bundled:
        cases = [(name, model_file(name), arrays(name)["tokens"].tolist()) for name in _GOLDEN]
        tokenizer = Tokenizer.from_metadata(bundled.metadata)
        text = _TEXT.read_text(encoding="utf-8")
        cases.append((_BUNDLED.stem, bundled, tokenizer.encode(text)[:_NUM_TOKENS]))
        print("model          tokens  pages   mean KL   same best token")
        for name, file, tokens in cases:
            wanted = _logits(file, tokens, "f32")
            for kind in ("f16", "int8"):
                got = _logits(file, tokens, kind)
                same = float(np.mean(wanted.argmax(axis=1) == got.argmax(axis=1)))
                print(
                    f"{name:14} {len(tokens):6}  {kind:5}  {mean_kl(wanted, got):.2e}  {same:.1%}"
                )


if __name__ == "__main__":
    main()
