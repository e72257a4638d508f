"""The self-test of a card, on an emulated one."""

from __future__ import annotations

import numpy as np
import pytest

from engine.commands import doctor
from engine.core import gpu
from engine.core.gpu import Gpu, GpuReport
from engine.device.base import DeviceError
from engine.device.emulated import EmulatedDevice
from engine.ops import self_test_card as module
from engine.ops.check_cases import RowsCase
from engine.ops.cuda import CudaOps
from engine.ops.self_test import small_cases


def test_every_operation_passes_on_an_emulated_card():
    checks = module.card_self_test(EmulatedDevice(1 << 30, capability=(8, 6)))
    assert [check for check in checks if not check.ok] == []
    assert len(checks) == len(small_cases())
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
    (check,) = module.card_self_test(EmulatedDevice(1 << 28))
    assert not check.ok


@pytest.fixture
def one_card(monkeypatch: pytest.MonkeyPatch) -> None:
    report = GpuReport(cards=(Gpu(0, "Some card", 12 << 30, 11 << 30),))
    monkeypatch.setattr(gpu, "probe_gpus", lambda: report)
    monkeypatch.setattr("engine.device.select.open_card", lambda: EmulatedDevice(1 << 28))


@pytest.mark.usefixtures("one_card", "wrong_norm")
def test_the_doctor_names_what_a_card_computes_wrongly():
    (finding,) = doctor.check_card()
    assert finding.health is doctor.Health.FAILED
    assert "Some card: 1 of 1 checks disagree with the reference: rms_norm 9." in finding.detail


@pytest.mark.usefixtures("one_card")
def test_the_doctor_tells_why_a_card_cannot_be_used(monkeypatch: pytest.MonkeyPatch):
    def broken() -> EmulatedDevice:
        raise DeviceError("The driver is too old.")

    monkeypatch.setattr("engine.device.select.open_card", broken)
    (finding,) = doctor.check_card()
    assert "The driver is too old." in finding.detail


def test_the_doctor_is_silent_where_there_is_no_card(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu, "probe_gpus", GpuReport)
    assert doctor.check_card() == []
