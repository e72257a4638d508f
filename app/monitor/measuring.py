"""Looks at what takes a moment, when the person asks why the model is slow. Off the main thread."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

from app.model_report import ModelReport, NoReportError, read_model_report
from app.monitor.machine_probe import busiest_others
from app.monitor.slow import Measured
from engine.core.bandwidth import measure_bandwidth
from engine.core.calibration import calibration_key_here, read_calibrations
from engine.core.config_file import load_config
from engine.core.drive_speed import DriveKind
from engine.core.drives import drive_of, speed_of
from engine.core.errors import EngineError
from engine.core.gpu import probe_gpus
from engine.core.machine import probe_machine

logger = logging.getLogger(__name__)

_GPU_PATIENCE_S = 3.0
_DRIVE_S = 2.0


def measure(
    config_path: Path | None, data_dir: Path, engine_pid: int | None, *, is_idle: bool
) -> Measured:
    """Look.

    Args:
        config_path: of the model that runs.
        data_dir: has the calibrations.
        engine_pid: whose work is not "other programs".
        is_idle: the memory may be measured; while the model answers it would slow it down.
    """
    machine = probe_machine()
    others = tuple(busiest_others(engine_pid))
    speed = None
    if is_idle:
        speed = measure_bandwidth(machine.physical_cores, machine.ram_available_bytes)
    cards = probe_gpus(_GPU_PATIENCE_S).cards
    return Measured(
        others=others,
        memory_per_s=speed,
        is_hard_disk=_is_on_hard_disk(config_path),
        calibrated_per_s=_calibrated(config_path, data_dir),
        has_display=frozenset(card.index for card in cards if card.has_display),
    )


def report_or_none(config_path: Path | None) -> ModelReport | None:
    """Where the model's parts live; None when that cannot be said."""
    try:
        return read_model_report(config_path)
    except NoReportError as error:
        logger.info("the model is not described: %s", error)
        return None


def _is_on_hard_disk(config_path: Path | None) -> bool:
    if config_path is None:
        return False
    try:
        folder = load_config(config_path).model_path.parent
    except EngineError:
        return False
    drive = drive_of(folder)
    if drive is None:
        return False
    # What the system says of a drive is wrong in virtual machines: its speed counts.
    measured = dataclasses.replace(drive, speed=speed_of(folder, _DRIVE_S))
    return measured.kind is DriveKind.HARD_DISK


def _calibrated(config_path: Path | None, data_dir: Path) -> float | None:
    """The best speed that tuning measured with this config on this PC."""
    if config_path is None:
        return None
    try:
        config = load_config(config_path)
        known = read_calibrations(data_dir).get(calibration_key_here(config))
    except (EngineError, OSError):
        return None
    if known is None:
        return None
    speeds = [
        finding.tokens_per_s
        if finding.is_kept and finding.tokens_per_s
        else finding.default_tokens_per_s
        for finding in known.findings
    ]
    return max(speeds, default=None)
