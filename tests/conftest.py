"""For all tests: Qt draws into memory, and a machine that cannot load Qt still runs the others."""

from __future__ import annotations

import os

import pytest

# A test that needs a screen (marker `desktop`) is started with another value.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

WHY_NO_QT = ""
try:
    import PySide6.QtWidgets  # noqa: F401  # whether it can be loaded
except ImportError as error:
    WHY_NO_QT = str(error)


def pytest_plugin_registered(manager: pytest.PytestPluginManager) -> None:
    """Without Qt pytest-qt would end the whole run when it is configured."""
    if WHY_NO_QT and manager.has_plugin("pytest-qt"):
        manager.unregister(name="pytest-qt")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs Qt where there is none."""
    if not WHY_NO_QT:
        return
    for item in items:
        if "qtbot" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=f"Qt cannot be loaded here: {WHY_NO_QT}"))
