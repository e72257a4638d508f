"""For all tests: Qt draws into memory, and a machine that cannot load Qt still runs the others.

Hypothesis does not time its examples: a machine that is busy is no fault of what is tested.

Tests marked `desktop` take the fixture `desktop`: a screen with window manager and panel of their own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.desktop import Desktop, missing

# A test that needs a screen (marker `desktop`) is started with another value.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

WHY_NO_QT = ""
try:
    import PySide6.QtWidgets  # noqa: F401  # whether it can be loaded
except ImportError as error:
    WHY_NO_QT = str(error)


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    """What a program's start sets for its log is no setting of the tests behind it."""
    loggers = [logging.getLogger(name) for name in ("", "app", "engine", "installer")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture
def desktop(tmp_path: Path) -> Iterator[Desktop]:
    """A desktop of its own for a test that needs a real one."""
    lacking = missing()
    if lacking:
        pytest.skip(f"no desktop can be started here: {', '.join(lacking)} not installed")
    with Desktop.open(tmp_path / "desktop") as opened:
        yield opened


@pytest.fixture
def qtbot(qapp: object, request: pytest.FixtureRequest) -> object:  # Qt is there
    """pytest-qt's, with more patience."""
    from tests.support.patient_qtbot import PatientQtBot  # noqa: PLC0415  # where there is Qt

    return PatientQtBot(request)


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
