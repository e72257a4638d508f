"""The self-test of a card, on an emulated one."""

from __future__ import annotations

import numpy as np
import pytest

from engine.device.emulated import EmulatedDevice
from engine.ops import self_test_card as module
from engine.ops.check_cases import RowsCase
from engine.ops.cuda import CudaOps
from engine.ops.cuda_sampling import CudaSampling
from engine.ops.self_test import small_cases


def test_every_operation_passes_on_an_emulated_card():
    checks = module.card_self_test(EmulatedDevice(1 << 30, capability=(8, 6)))
    assert [check for check in checks if not check.ok] == []
    assert len(checks) == len(small_cases()) + 1
    assert checks[-1].name == "largest of 9000 logits"
    assert {check.isa for check in checks} == {"sm_86"}


@pytest.fixture
def wrong_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    right = CudaOps.rms_norm

    def norm(self, x, weight, eps, out):
        right(self, x, weight, eps, out)
        self.synchronize()
        out[...] = out.numpy() * np.float32(1.001)

    monkeypatch.setattr(CudaOps, "rms_norm", norm)
    monkeypatch.setattr(module, "small_cases", lambda: [RowsCase("rms_norm", 9)])


@pytest.mark.usefixtures("wrong_norm")
def test_a_wrong_operation_is_found():
    check, of_logits = module.card_self_test(EmulatedDevice(1 << 28))
    assert not check.ok
    assert of_logits.ok


@pytest.mark.parametrize("name", ["argmax", "candidates"])
def test_a_wrong_choice_is_found(name: str, monkeypatch: pytest.MonkeyPatch):
    right = getattr(CudaSampling, name)

    def choose(self, logits, found):
        right(self, logits, found)
        found[1] = np.zeros(found[1].shape, np.int32)

    monkeypatch.setattr(CudaSampling, name, choose)
    monkeypatch.setattr(module, "small_cases", list)
    (check,) = module.card_self_test(EmulatedDevice(1 << 28))
    assert not check.ok
