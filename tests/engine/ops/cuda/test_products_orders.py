"""Product kernels give one result in whatever order threads and work go on, and whatever memory held before."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.device.emulated import EmulatedDevice
from engine.ops.base import Ops
from engine.ops.check_cases import MatmulCase, MoeCase, MoeSizes, OpCase
from tests.support.cuda_products import ProductOps, product_files
from tests.support.emulated import results_in_all_orders

TYPES = (GgmlType.F16, GgmlType.Q8_0, GgmlType.Q2_K, GgmlType.IQ2_XS)
LOADED = (GgmlType.F32, *TYPES)
CASES: list[OpCase] = [
    *(MatmulCase([t, t], [37, 5], 512, num_rows=22) for t in TYPES),
    MatmulCase([GgmlType.Q8_0], [70], 96, num_rows=22),
    MoeCase(GgmlType.Q8_0, GgmlType.Q8_0, MoeSizes(4, 3, 64, 96, 32), num_rows=27),
    MoeCase(GgmlType.F16, GgmlType.Q8_0, MoeSizes(4, 2, 64, 32, 32), num_rows=20),
]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_result_does_not_depend_on_any_order(case: OpCase):
    cuts = [1, 3, case.num_rows - 4]  # the last by tensor cores, or grouped

    def run(card: EmulatedDevice) -> np.ndarray:
        card.load_kernels(product_files(LOADED))
        results = case.run(cast("Ops", ProductOps(card)), cuts)
        return np.concatenate([value.reshape(-1).view(np.uint8) for value in results.values()])

    assert len(results_in_all_orders(run)) == 1
