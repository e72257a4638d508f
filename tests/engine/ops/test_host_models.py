"""The golden models on each instruction set of this processor."""

from __future__ import annotations

import numpy as np
import pytest

from engine.kernels.library import load_library
from engine.model.trunk import Model
from engine.ops.host import HostOps
from tests.support.golden import (
    FLOAT_CASES,
    MEAN_KL_BOUNDS,
    QUANTISED_CASES,
    arrays,
    golden_limits,
    mean_kl,
    model_file,
    run_tokens,
)

FLOAT_BOUND = 5e-5


def logits_of(case: str, isa: str, chunk: int | None) -> np.ndarray:
    limits = golden_limits()
    ops = HostOps(limits.for_ops(), isa)
    try:
        model = Model.load(model_file(case), ops, limits)
        return run_tokens(model, model.new_sequence(), arrays(case)["tokens"].tolist(), chunk)
    finally:
        ops.close()


@pytest.mark.parametrize("isa", load_library().variants)
@pytest.mark.parametrize("case", FLOAT_CASES)
def test_float_models_give_the_golden_logits(case: str, isa: str):
    got = logits_of(case, isa, None)
    assert np.abs(got - arrays(case)["logits"]).max() < FLOAT_BOUND


@pytest.mark.parametrize("isa", load_library().variants)
@pytest.mark.parametrize("case", QUANTISED_CASES)
def test_quantised_models_stay_near_the_golden_logits(case: str, isa: str):
    got = logits_of(case, isa, None)
    assert mean_kl(arrays(case)["logits"], got) < MEAN_KL_BOUNDS["quantised"]


@pytest.mark.parametrize("isa", load_library().variants)
@pytest.mark.parametrize("case", ["full", "quant-Q4_K_M"])
def test_chunks_of_a_prompt_change_no_bit(case: str, isa: str):
    whole = logits_of(case, isa, None)
    for chunk in (1, 7):
        assert logits_of(case, isa, chunk).tobytes() == whole.tobytes()
