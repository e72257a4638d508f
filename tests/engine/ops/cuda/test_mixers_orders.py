"""All other kernels give one result too in whatever order threads and work go on, and whatever memory held.

A thread that reads what another one writes without a barrier between them gives two results here.
"""

from __future__ import annotations

import numpy as np
import pytest

from engine.device.emulated import EmulatedDevice
from engine.ops.base import Limits
from engine.ops.best_logits import ROW_WORDS
from engine.ops.check_cases import OpCase, Results
from engine.ops.check_sequences import DeltaCase, PleCase
from engine.ops.cuda_launch import Launcher
from engine.ops.cuda_sampling import CudaSampling
from tests.engine.ops.cuda.test_attention import LIMITS as ATTENTION_LIMITS
from tests.engine.ops.cuda.test_attention import LONG, ODD, AttentionSizes, ShuffledCase
from tests.engine.ops.cuda.test_mixers import CASES
from tests.support.cuda_mixers import KERNEL_FILES, MixerOps
from tests.support.emulated import results_in_all_orders

LIMITS = Limits(max_rows=64, max_window=8, num_slots=3, num_pages=200)

pytestmark = pytest.mark.slow


def joined(*results: Results) -> np.ndarray:
    values = [np.ascontiguousarray(value) for result in results for value in result.values()]
    return np.concatenate([value.reshape(-1).view(np.uint8) for value in values])


def mixer_ops(card: EmulatedDevice, limits: Limits = LIMITS) -> MixerOps:
    card.load_kernels(KERNEL_FILES)
    return MixerOps(limits, card)


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_a_result_does_not_depend_on_any_order(case: OpCase):
    def run(card: EmulatedDevice) -> np.ndarray:
        ops = mixer_ops(card)
        found = [case.run(ops, [1, 3, case.num_rows - 4])]
        if isinstance(case, DeltaCase | PleCase):
            found.append(case.run_committed(ops, 4, 8, 3))
        return joined(*found)

    assert len(results_in_all_orders(run)) == 1


@pytest.mark.parametrize("sizes", [LONG, ODD], ids=["long", "odd"])
@pytest.mark.parametrize("dtype", [np.int8, np.float16])
def test_pages_and_choices_do_not_depend_on_any_order(sizes: AttentionSizes, dtype: type):
    case = ShuffledCase(sizes, num_rows=130)

    def run(card: EmulatedDevice) -> np.ndarray:
        ops, pool = mixer_ops(card, ATTENTION_LIMITS), case.pool(dtype, np.float16)
        parts = (slice(0, 110), slice(110, 126), slice(126, 130))
        found = [case.advance(ops, pool, part) for part in parts]
        return joined(*found, {"keys": pool.keys, "index": pool.index_pooled})

    assert len(results_in_all_orders(run)) == 1


@pytest.mark.parametrize("vocabulary", [40, 5000])
def test_the_largest_logits_do_not_depend_on_any_order(vocabulary: int):
    random = np.random.default_rng(vocabulary)
    logits = np.round(random.standard_normal((3, vocabulary)) * 8).astype(np.float32) / 4
    logits[2, 3] = np.nan

    def run(card: EmulatedDevice) -> np.ndarray:
        card.load_kernels(["sampling"])
        launcher = Launcher(card)
        space, sampling = launcher.space, CudaSampling(launcher)
        on_it = space.upload(logits)
        ids, bests = space.empty((3,), np.int32), space.empty((3, ROW_WORDS), np.int32)
        sampling.argmax(on_it, ids)
        sampling.candidates(on_it, bests)
        return joined({"ids": ids.numpy(), "bests": bests.numpy()[:2]})

    assert len(results_in_all_orders(run)) == 1
