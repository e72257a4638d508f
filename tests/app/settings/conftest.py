"""Settings of nobody else, beside an engine that the test starts itself or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engine.server.conftest import start_server  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

    from app.context import AppContext
    from tests.app.monitor.live import LiveSupervisor

collect_ignore_glob: list[str] = []
try:
    import PySide6.QtWidgets  # noqa: F401  # whether it can be loaded
except ImportError:
    collect_ignore_glob = ["test_*.py"]

PATIENCE_MS = 60_000


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings and data of nobody else, below a name with other scripts."""
    path = tmp_path / "Jürgen 測試 home"
    path.mkdir()
    monkeypatch.setenv("STRATUM_HOME", str(path))
    return path


@pytest.fixture
def config_path(home: Path) -> Path:
    """A run config of the bundled model, with a key that no version knows."""
    from engine.core.files import write_json  # noqa: PLC0415

    path = home / "data" / "configs" / "tiny.json"
    write_json(path, {"format": 1, "model_id": "tiny", "from_tomorrow": [1, 2]})
    return path


@pytest.fixture
def supervisor(qapp: QApplication, config_path: Path) -> LiveSupervisor:
    """Runs no engine until the test says so."""
    from tests.app.monitor.live import LiveSupervisor  # noqa: PLC0415  # where there is Qt

    return LiveSupervisor(config_path, qapp)


@pytest.fixture
def context(qapp: QApplication, home: Path, supervisor: LiveSupervisor) -> Iterator[AppContext]:
    """The parts."""
    from tests.app.monitor.live import make_context  # noqa: PLC0415  # where there is Qt

    yield make_context(qapp, supervisor)
    supervisor.http.close()


@pytest.fixture
def wait(qtbot) -> Callable[[Callable[[], object]], None]:
    """Wait for a condition, patiently."""

    def wait(condition: Callable[[], object]) -> None:
        qtbot.waitUntil(lambda: bool(condition()), timeout=PATIENCE_MS)

    return wait
