"""Writes what the engine runs an installed model with: its run config, and the settings.

Only our own keys are set. A config that is there already keeps everything else, with a copy of the
old file beside it: installing again must not take away what a person set by hand.
"""

from __future__ import annotations

import logging
from pathlib import Path

from engine.core.card_record import card_troubles
from engine.core.cards_together import cards_together
from engine.core.catalog import Catalog, CatalogModel, FileKind, Sampling
from engine.core.catalog_file import PROGRAM_DIR
from engine.core.config import CONFIG_FORMAT, RunConfig, SamplingDefaults
from engine.core.config_file import load_config
from engine.core.errors import EngineError
from engine.core.files import keep_backup, write_json
from engine.core.gguf_header import read_model_header
from engine.core.gpu import probe_gpus
from engine.core.login_start import is_portable, set_login_start
from engine.core.machine import probe_machine
from engine.core.model_numbers import numbers_of_catalog, numbers_of_header
from engine.core.operating_system import system_name
from engine.core.placement import DEFAULT_CONTEXT
from engine.core.placement_hybrid import gpu_problems, place
from engine.core.settings import Settings, load_settings, save_settings
from installer.choices import Choices
from installer.download.installed import InstalledModel
from installer.speed import DEFAULT_BANDWIDTH

logger = logging.getLogger(__name__)

_GPU_PATIENCE_S = 5.0  # for a driver to name its cards


def run_config_path(data_dir: Path, model_id: str) -> Path:
    """Where the run config of a model is."""
    return data_dir / "configs" / f"{model_id}.json"


def write_run_config(
    catalog: Catalog,
    model: CatalogModel,
    installed: InstalledModel,
    choices: Choices,
    data_dir: Path,
) -> Path:
    """Write the run config of an installed model; its path.

    Raises:
        ResourceError: the folder cannot be written.
    """
    path = run_config_path(data_dir, model.id)
    before = _existing(path)
    changes: dict[str, object] = {
        "model": installed.model_path,
        "model_id": model.id,
    }
    if choices.context is not None:
        shape = catalog.family_of(model).shape
        changes["context"] = min(choices.context, shape.trained_context)
    if choices.effort is not None:
        changes["default_reasoning_effort"] = choices.effort
    if before is None and not model.is_bundled:  # a person's own values stay
        changes["sampling"] = _sampling(catalog.sampling.thinking)
    if before is None or "parallel" not in before.model_fields_set:
        parallel = _parallel(catalog, model, installed, choices.context, data_dir)
        if parallel < RunConfig().parallel:
            changes["parallel"] = parallel
    head = installed.first(FileKind.DRAFT_HEAD)
    named = before.mtp_file if before is not None else None
    if head is not None or (named is not None and not named.is_file()):
        changes["mtp_file"] = head
    config = (before or RunConfig()).model_copy(update=changes)
    if config == before:
        return path
    if path.exists():
        keep_backup(path)
    # Only what was chosen: a default that stands nowhere follows the product's when that changes.
    write_json(
        path, {"format": CONFIG_FORMAT, **config.model_dump(mode="json", exclude_unset=True)}
    )
    return path


def remember_installation(choices: Choices, data_dir: Path, config_path: Path) -> Settings:
    """Make the model the active one in `settings.json`; what else is there stays.

    Raises:
        ConfigError: the settings are of a newer version, or broken.
        ResourceError: they cannot be written.
    """
    settings = load_settings()
    content: dict[str, object] = {
        **settings.model_dump(mode="json"),
        "data_dir": str(data_dir),
        "active_config": str(config_path),
        "starts_at_login": choices.starts_at_login,
    }
    if choices.language is not None:
        content["language"] = choices.language.value
    changed = Settings.model_validate(content)
    if changed != settings:
        save_settings(changed)
    # A portable copy, whose settings lie beside it, changes nothing of the system.
    was_on = bool((settings.model_extra or {}).get("starts_at_login"))
    is_wrong = was_on != choices.starts_at_login or choices.resumes_at_login
    if is_wrong and not is_portable():
        set_login_start(PROGRAM_DIR, is_on=choices.starts_at_login)
    return changed


def _parallel(
    catalog: Catalog,
    model: CatalogModel,
    installed: InstalledModel,
    context: int | None,
    data_dir: Path,
) -> int:
    """Requests that this PC has memory for at a time."""
    try:
        numbers = numbers_of_header(read_model_header(installed.model_path))
    except EngineError as error:  # the engine will say what it cannot read
        logger.warning("the size of %s is taken from the catalogue: %s", model.id, error)
        numbers = numbers_of_catalog(catalog, model)
    found = probe_gpus(_GPU_PATIENCE_S)
    troubles = card_troubles(data_dir, found)
    cards = [card for card in found.cards if card.index not in troubles]
    needed = catalog.min_driver.get(system_name().lower(), 0)
    context = context or DEFAULT_CONTEXT
    gpu = cards_together(
        numbers,
        [card for card in cards if not gpu_problems(card, found.driver_major, needed)],
        context=context,
        host_bytes_per_s=DEFAULT_BANDWIDTH,
    )
    return place(
        numbers,
        probe_machine(),
        gpu,
        context,
        may_read_disk=model.needs.has_ram_budget,
    ).parallel


def _existing(path: Path) -> RunConfig | None:
    if not path.exists():
        return None
    try:
        return load_config(path)
    except EngineError as error:  # broken by hand: the new one works, the old one is kept
        logger.warning("%s is written anew, the old one is kept as .bak: %s", path, error)
        return None


def _sampling(preset: Sampling) -> SamplingDefaults:
    return SamplingDefaults(
        temperature=preset.temperature,
        top_p=preset.top_p,
        top_k=preset.top_k,
        min_p=preset.min_p,
        presence_penalty=preset.presence_penalty,
        repetition_penalty=preset.repetition_penalty,
    )
