from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from engine.core import operating_system
from engine.core.operating_system import architecture, is_x86_64, system_name, system_version


def test_this_system_has_a_name_a_version_and_an_architecture() -> None:
    assert system_name() in {"Linux", "Windows"}
    assert len(system_version()) > 5
    assert architecture()


@pytest.mark.parametrize(
    ("build", "expected"),
    [(19045, "Windows 10 (10.0.19045)"), (26100, "Windows 11 (10.0.26100)")],
)
def test_windows_is_asked_without_its_management_service(
    build: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def service(*_arguments: object) -> str:
        raise AssertionError("platform asks the management service")

    for name in ("system", "machine", "release", "version", "uname", "processor"):
        monkeypatch.setattr(operating_system.platform, name, service)
    found = SimpleNamespace(platform_version=(10, 0, build))
    windows = SimpleNamespace(platform="win32", getwindowsversion=lambda: found)
    monkeypatch.setattr(operating_system, "sys", windows)
    monkeypatch.setenv("PROCESSOR_ARCHITECTURE", "AMD64")
    monkeypatch.delenv("PROCESSOR_ARCHITEW6432", raising=False)
    assert (system_name(), system_version()) == ("Windows", expected)
    assert is_x86_64()
    monkeypatch.setenv("PROCESSOR_ARCHITECTURE", "ARM64")
    assert not is_x86_64()


@pytest.mark.skipif(sys.platform == "win32", reason="Linux without a description of itself")
def test_a_linux_that_does_not_describe_itself_has_its_kernels_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing() -> dict[str, str]:
        raise OSError("no os-release")

    monkeypatch.setattr(operating_system.platform, "freedesktop_os_release", nothing)
    assert system_version().startswith("Linux (")
