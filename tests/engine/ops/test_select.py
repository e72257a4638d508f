"""Choosing operations by name."""

from __future__ import annotations

import sys
import types

import pytest

from engine.core.errors import ConfigError, EngineError
from engine.ops.base import Limits
from engine.ops.select import make_ops

LIMITS = Limits(max_rows=4, max_window=2, num_slots=1, num_pages=1)


def test_the_reference_is_made_by_name():
    assert make_ops("reference", LIMITS).name == "reference"


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="auto, reference, host"):
        make_ops("gpu", LIMITS)


def host_that_fails(limits: Limits) -> None:
    raise EngineError("The library does not load.")


def test_auto_falls_back_to_the_reference_with_a_warning(monkeypatch, caplog):
    broken = types.ModuleType("engine.ops.host")
    broken.HostOps = host_that_fails  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "engine.ops.host", broken)
    assert make_ops("auto", LIMITS).name == "reference"
    assert "answers will be slow: The library does not load." in caplog.text
    with pytest.raises(EngineError, match="does not load"):
        make_ops("host", LIMITS)
