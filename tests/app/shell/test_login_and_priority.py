"""Starting at login: the system's list has the last word, and low priority is not inherited."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app import autostart
from app.priority import take_normal_priority
from engine.core.login_start import autostart_file, set_login_start, starts_at_login
from engine.core.settings import load_settings

ROOT = Path(__file__).resolve().parents[3]
posix = pytest.mark.skipif(sys.platform == "win32", reason="Linux keeps it in a file")


@pytest.fixture
def config_home(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "config ünï"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder


@posix
def test_the_switch_is_read_from_the_system(config_home, context, monkeypatch):
    monkeypatch.setattr(autostart, "is_portable", lambda: False)
    assert not autostart.is_on()
    autostart.set_on(context.settings, is_on=True)
    assert autostart.is_on()
    assert (load_settings().model_extra or {})["starts_at_login"] is True
    autostart_file().unlink()  # the person removed it in the desktop's own list
    assert not autostart.is_on()


@posix
@pytest.mark.parametrize("line", ["Hidden=true", "X-GNOME-Autostart-enabled=false"])
def test_switched_off_in_the_desktops_list_is_off(config_home, tmp_path, line):
    set_login_start(tmp_path, is_on=True)
    assert starts_at_login()
    file = autostart_file()
    kept = [text for text in file.read_text("utf-8").splitlines() if "enabled" not in text]
    file.write_text("\n".join([*kept, line]), "utf-8")
    assert not starts_at_login()


@posix
def test_a_portable_copy_has_no_such_switch(config_home):
    assert not autostart.can_be_changed()
    assert not autostart.is_on()


@posix
def test_a_low_priority_is_raised_where_that_is_allowed_and_logged_where_not(caplog):
    child = subprocess.Popen(
        ["nice", "-n", "7", sys.executable, "-c", "import time; time.sleep(60)"]
    )
    try:
        process = psutil.Process(child.pid)
        is_normal = take_normal_priority(process)
        assert is_normal is (process.nice() <= 0)
        assert is_normal or "low priority" in caplog.text
    finally:
        child.kill()
        child.wait()


@posix
def test_where_it_is_not_allowed_the_log_says_what_it_costs(monkeypatch, caplog):
    class Stubborn(psutil.Process):
        def nice(self, value=None):
            if value is None:
                return 10
            raise psutil.AccessDenied(self.pid)

    assert not take_normal_priority(Stubborn())
    assert "low priority" in caplog.text
