"""The self-test that runs on people's machines."""

from __future__ import annotations

import pytest

from engine.kernels.library import load_library
from engine.ops import self_test as module
from engine.ops.check_cases import RowsCase
from engine.ops.host import HOST_FORMATS, HostOps


def test_every_operation_passes_on_every_instruction_set():
    checks = module.self_test()
    assert [check for check in checks if not check.ok] == []
    assert {check.isa for check in checks} == set(load_library().variants)
    for ggml_type in HOST_FORMATS:
        assert any(ggml_type.name in check.name.split() for check in checks)


@pytest.mark.parametrize("wrong", [1.001, float("nan")])
def test_a_wrong_operation_is_found(monkeypatch: pytest.MonkeyPatch, wrong: float):
    right = HostOps.rms_norm

    def wrong_norm(self, x, weight, eps, out):
        right(self, x, weight, eps, out)
        out[-1, -1] *= wrong

    monkeypatch.setattr(HostOps, "rms_norm", wrong_norm)
    monkeypatch.setattr(module, "small_cases", lambda: [RowsCase("rms_norm", 9)])
    checks = module.self_test()
    assert checks
    assert not any(check.ok for check in checks)
