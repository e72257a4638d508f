"""Whether Qt can be loaded; without it the other tests of this folder are left out."""

from __future__ import annotations

import pytest


def test_qt_can_be_loaded():
    try:
        import PySide6.QtWidgets  # noqa: F401, PLC0415  # that is the question
    except ImportError as error:
        pytest.skip(f"the wizard is not tested: Qt cannot be loaded here ({error})")
