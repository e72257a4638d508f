"""Thousands of damaged and hostile models: each loads or is refused in one sentence, in little memory."""

from __future__ import annotations

import importlib.util

import pytest

from tests.support.gguf_fuzz import fuzz
from tests.support.golden import CPU_OPS_NAMES, GOLDEN
from tests.support.model_fuzz import run_in_child

pytestmark = pytest.mark.slow


def test_2000_mutated_files_load_or_are_refused_in_one_sentence():
    models = [[GOLDEN / f"{name}.gguf"] for name in ("full", "odd", "nople", "quant-Q2_0")]
    report = fuzz("tests.support.golden:load_and_run", models, count=2000, seed=5)
    assert report["findings"] == []
    outcomes = report["outcomes"]
    assert isinstance(outcomes, dict)
    assert sum(outcomes.values()) == 2000
    assert outcomes["model_file"] >= 30, outcomes  # refused by the model, not by the header


@pytest.mark.parametrize("ops_name", CPU_OPS_NAMES)
def test_2000_models_of_wild_content_load_or_are_refused_in_one_sentence(ops_name):
    if ops_name == "host" and importlib.util.find_spec("engine.ops.host") is None:
        pytest.skip("the host operations are not written yet")
    report = run_in_child(ops_name, seed=1, count=2000)
    assert report["findings"] == []
    outcomes = report["outcomes"]
    assert isinstance(outcomes, dict)
    assert sum(outcomes.values()) == 2000
    assert 100 < outcomes["accepted"] < 600, outcomes
