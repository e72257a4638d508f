"""A fake hub for each test, and downloads that do not wait long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from installer.download.options import DownloadOptions, RetryPolicy
from tests.fake_hub.server import FakeHub

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A hub that nobody but this test uses; nothing of this PC's own settings is seen."""
    for name in _PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf home"))
    with FakeHub() as server:
        yield server


@pytest.fixture
def make_options(hub: FakeHub, tmp_path: Path) -> Callable[..., DownloadOptions]:
    """Options for that hub; a data folder with spaces and letters of other scripts."""

    def make(**changes: object) -> DownloadOptions:
        values: dict[str, object] = {
            "data_dir": tmp_path / "Jürgen 測試 data",
            "endpoint": hub.endpoint,
            "retry": RetryPolicy(
                max_attempts=3, first_wait_s=0.01, longest_wait_s=0.05, stall_s=60, connect_s=60
            ),
        }
        return DownloadOptions(**(values | changes))  # type: ignore[arg-type]  # checked by use

    return make
