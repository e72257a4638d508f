"""What calibration found out, kept per machine and model, and how it gets into a run config.

`calibration.json` in the data folder holds one entry for each machine and model that was measured. The
winners stand in the run config as explicit keys; a value that did not win stands nowhere, so it
follows the product's defaults when those change. A value that the person wrote by hand is neither
measured nor touched: it is told apart by not being one that a calibration wrote.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.core.config import RunConfig
from engine.core.config_file import load_config, parse_config
from engine.core.config_gpus import AUTO_GPUS
from engine.core.errors import ConfigError, InputError
from engine.core.files import keep_backup, read_json, write_json
from engine.core.gguf_header import find_shards
from engine.core.gpu import probe_gpus
from engine.core.machine import Machine, probe_machine

logger = logging.getLogger(__name__)

CALIBRATION_FORMAT: Literal[1] = 1
GPU_PATIENCE_S = 5.0  # for a driver to name its cards

SettingValue = int | float


class Finding(BaseModel):
    """What the measurement of one setting came to.

    Attributes:
        key: the setting.
        default: its value without calibration.
        value: the best other value; None when none was faster at first sight.
        default_tokens_per_s: decoding with the default, median.
        tokens_per_s: decoding with `value`, median; None without one.
        gain: the second by the first, less 1.
        is_kept: whether `value` goes into the config.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    key: str
    default: SettingValue
    value: SettingValue | None
    default_tokens_per_s: float
    tokens_per_s: float | None
    gain: float
    is_kept: bool


class Calibration(BaseModel):
    """One calibration of one model on one machine.

    Attributes:
        measured_at: date and time, with its zone.
        settings: the winners; empty when the defaults were best.
        findings: how each came out.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    measured_at: str
    settings: dict[str, SettingValue]
    findings: tuple[Finding, ...] = ()


def calibration_path(data_dir: Path) -> Path:
    """The file that keeps calibrations."""
    return data_dir / "calibration.json"


def calibration_key(config: RunConfig, machine: Machine, gpus: Sequence[str] = ()) -> str:
    """What a calibration is valid for, in words: the machine, the model, and what it is run with.

    Memory is rounded to GiB, because what the system reports moves by some MiB with each update.
    """
    model_bytes = 0
    for path in find_shards(config.model_path):
        model_bytes += path.stat().st_size
    return " | ".join(
        (
            *gpus,
            f"{machine.cpu_name}, {machine.physical_cores} of {machine.logical_cores} cores",
            f"{machine.ram_total_bytes / (1 << 30):.0f} GiB",
            f"{config.model_name}, {model_bytes} bytes",
            f"context {config.context or 'default'}, {config.kv_type}, ops {config.ops}",
            *([] if config.gpus == AUTO_GPUS else [f"cards {', '.join(config.gpus)}"]),
        )
    )


def calibration_key_here(config: RunConfig) -> str:
    """The key of this machine and a config."""
    cards = probe_gpus(GPU_PATIENCE_S).cards
    gpus = [f"{card.name}, {card.vram_total_bytes / (1 << 30):.0f} GiB" for card in cards]
    return calibration_key(config, probe_machine(), gpus)


def read_calibrations(data_dir: Path) -> dict[str, Calibration]:
    """All that is known, by key; empty when there is no file or it cannot be used (that is logged).

    Raises:
        ConfigError: the file is of a newer version.
    """
    path = calibration_path(data_dir)
    if not path.exists():
        return {}
    try:
        entries = read_json(path, CALIBRATION_FORMAT).get("calibrations")
    except InputError as error:
        if error.code == "format_too_new":
            raise
        logger.warning("earlier calibrations are not used: %s", error)
        return {}
    found: dict[str, Calibration] = {}
    for key, entry in entries.items() if isinstance(entries, dict) else ():
        try:
            found[key] = Calibration.model_validate(entry)
        except ValidationError:
            logger.warning("%s: the calibration of %s cannot be used", path, key)
    return found


def save_calibration(data_dir: Path, key: str, calibration: Calibration) -> None:
    """Keep a calibration in the place of an earlier one of the same key.

    Raises:
        ConfigError: the file is of a newer version.
        ResourceError: the data folder cannot be written.
    """
    known = read_calibrations(data_dir)
    path = calibration_path(data_dir)
    if path.exists() and not known:
        keep_backup(path)  # something that could not be read
    entries: dict[str, object] = {
        name: entry.model_dump(mode="json") for name, entry in {**known, key: calibration}.items()
    }
    write_json(path, {"format": CALIBRATION_FORMAT, "calibrations": entries})


def calibrated_settings(config: RunConfig, data_dir: Path) -> dict[str, SettingValue]:
    """The explicit settings of a config that a calibration, of whatever machine, wrote there."""
    written = [calibration.settings for calibration in read_calibrations(data_dir).values()]
    return {
        key: value
        for key, value in explicit_settings(config).items()
        if any(key in settings and settings[key] == value for settings in written)
    }


def explicit_settings(config: RunConfig) -> dict[str, SettingValue]:
    """The numbers that a config names itself."""
    return {
        key: value
        for key in config.model_fields_set
        if isinstance(value := getattr(config, key), int | float) and not isinstance(value, bool)
    }


def write_settings(path: Path, changes: Mapping[str, SettingValue | None]) -> None:
    """Set keys of a run config file, or take them out (None); everything else stays as it is.

    Raises:
        ConfigError: the file is no run config, or would not be one with these values.
        ResourceError: it cannot be written.
    """
    content = read_json(path, 1)
    changed = {key: value for key, value in content.items() if key not in changes}
    changed |= {key: value for key, value in changes.items() if value is not None}
    if changed == content:
        return
    parse_config(changed, source=str(path))
    write_json(path, {"format": content.get("format", 1), **changed})


def apply_calibration(path: Path, data_dir: Path, key: str) -> dict[str, SettingValue]:
    """Bring a config in line with what is known of this machine and model (after an update, say).

    Winners are written where the person has set nothing; what a calibration of another machine or
    model left there is taken out.

    Args:
        path: the run config.
        data_dir: has the calibrations.
        key: see `calibration_key`.

    Returns:
        The calibrated settings that the config has now.

    Raises:
        ConfigError: the config cannot be used.
    """
    config = load_config(path)
    known = read_calibrations(data_dir).get(key)
    wanted = known.settings if known is not None else {}
    ours = calibrated_settings(config, data_dir)
    by_hand = explicit_settings(config).keys() - ours.keys()
    winners = {name: value for name, value in wanted.items() if name not in by_hand}
    changes: dict[str, SettingValue | None] = {name: None for name in ours if name not in winners}
    try:
        write_settings(path, {**changes, **winners})
    except ConfigError:  # the setting has other bounds in this version
        logger.warning("%s: an earlier calibration does not fit this version", path)
        write_settings(path, dict.fromkeys(ours))
        return {}
    return winners
