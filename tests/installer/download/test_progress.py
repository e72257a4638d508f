"""Figures and phases that a download reports, and how the PC is kept awake meanwhile."""

from __future__ import annotations

import stat
import sys
import time

import pytest

from engine.core.keep_awake import SystemdKeepAwake, system_keep_awake
from installer.download.control import Control, InterruptedTransferError
from installer.download.job import DownloadJob
from installer.download.progress import DownloadProgress, Phase, SpeedMeter
from installer.download.reporter import Reporter
from installer.errors import CancelledError, StoppedError
from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import GeneratedContent


def test_speed_is_that_of_the_last_seconds():
    now = 0.0
    meter = SpeedMeter(lambda: now)
    for _ in range(300):
        now += 0.1
        meter.add(1000)
    assert meter.bytes_per_s == pytest.approx(10_000, rel=0.02)
    for _ in range(300):
        now += 0.1
        meter.add(100)
    assert meter.bytes_per_s == pytest.approx(1000, rel=0.02)
    meter.reset()
    assert meter.bytes_per_s == 0


def test_the_time_left_follows_from_speed_and_missing_bytes():
    seen: list[DownloadProgress] = []
    reporter = Reporter(seen.append)
    reporter.set_total(10_000_000, 0)
    reporter.begin(Phase.DOWNLOADING, "m.gguf", 10_000_000)
    for _ in range(6):
        time.sleep(0.11)
        reporter.received(100_000)
    last = seen[-1]
    assert last.eta_s == pytest.approx((last.bytes_total - last.bytes_done) / last.bytes_per_s)
    assert 10_000 < last.bytes_per_s < 1_500_000


def test_reports_come_some_times_a_second_and_not_for_each_chunk():
    seen: list[DownloadProgress] = []
    reporter = Reporter(seen.append)
    began_s = time.monotonic()
    reporter.begin(Phase.DOWNLOADING, "m.gguf", 1_000_000)
    for _ in range(1000):
        reporter.received(10)
    assert len(seen) <= 2 + (time.monotonic() - began_s) / 0.1


def test_a_download_reports_its_phases_in_order(hub, make_options):
    catalog = catalog_for(hub, {"m": {"m.gguf": GeneratedContent(300_000)}}, is_known=False)
    phases: list[Phase] = []
    DownloadJob(catalog, "m", make_options()).run(lambda report: phases.append(report.phase))
    order = [p for i, p in enumerate(phases) if i == 0 or phases[i - 1] is not p]
    assert order == [Phase.LISTING, Phase.CHECKING, Phase.DOWNLOADING, Phase.DONE]


def test_what_earlier_starts_fetched_counts_as_done(hub, make_options):
    catalog = catalog_for(hub, {"m": {"m.gguf": GeneratedContent(1_000_000)}})
    hub.bytes_per_s = 2e6
    first = DownloadJob(catalog, "m", make_options())
    with pytest.raises(StoppedError):
        first.run(lambda report: first.stop() if report.bytes_done > 300_000 else None)
    seen: list[DownloadProgress] = []
    DownloadJob(catalog, "m", make_options()).run(seen.append)
    begun = next(report for report in seen if report.phase is Phase.DOWNLOADING)
    assert begun.bytes_done >= 300_000
    assert begun.file_bytes_done >= 300_000
    assert seen[-1].bytes_done == seen[-1].bytes_total == 1_000_000


def test_control_tells_pause_stop_and_cancel_apart():
    control = Control()
    control.check()
    control.pause()
    with pytest.raises(InterruptedTransferError):
        control.check()
    control.check_stopped()
    control.resume()
    control.check()
    control.stop()
    with pytest.raises(StoppedError):
        control.check()
    control.cancel()
    with pytest.raises(CancelledError):
        control.wait_while_paused()


def test_a_wait_ends_when_something_is_asked_for():
    control = Control()
    control.pause()
    control.sleep(600)


def test_the_pc_is_kept_awake_while_a_download_runs_and_only_then(tmp_path, monkeypatch):
    if sys.platform == "win32":
        pytest.skip("a shell script stands for systemd here")
    log = tmp_path / "log"
    script = tmp_path / "inhibit"
    script.write_text(f'#!/bin/sh\necho "begin $*" >> "{log}"\ncat\necho end >> "{log}"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    keeper = SystemdKeepAwake(str(script))
    with keeper.hold("Downloading a model"):
        deadline = time.monotonic() + 60
        # The shell creates the file before it writes the line.
        while not (log.exists() and log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "--why=Downloading a model" in log.read_text()
        assert "end" not in log.read_text()
    assert log.read_text().endswith("end\n")


def test_a_system_without_a_way_to_stay_awake_is_no_error(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with system_keep_awake().hold("x"), SystemdKeepAwake("no-such-program").hold("x"):
        pass
