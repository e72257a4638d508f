"""What the run config says about a graphics card, as the operations on one take it."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from engine.core.config import ExpertMode, RunConfig
from engine.core.errors import EngineError
from engine.core.gguf_header import ModelHeader
from engine.core.gpu import Gpu
from engine.core.machine import probe_machine
from engine.core.model_config import ModelConfig
from engine.core.model_numbers import numbers_of_header
from engine.core.model_sizes import model_config_of
from engine.core.placement_hybrid import (
    COMFORT_BYTES,
    rates_of,
    reserve_bytes,
)
from engine.core.settings import load_settings
from engine.core.small_prompts import rows_for_cpu
from engine.memory.expert_counts import FOLDER, model_key, open_counts
from engine.ops.cuda_settings import CudaSettings

logger = logging.getLogger(__name__)


def card_settings(config: RunConfig, header: ModelHeader) -> Callable[[Gpu], CudaSettings]:
    """What tells the settings of operations on a card that computes this model alone.

    Files are read and the machine is asked here, once for all cards.
    """
    wanted = config.expert_vram_mib
    common = CudaSettings(
        cache_bytes=None if wanted is None else wanted << 20,
        pcie_frac=config.pcie_frac,
        pins_experts=config.expert_mode is ExpertMode.RESIDENT,
        pinned_copy_bytes=_room_for_copies(config, header),
        counts=_known_counts(config, header),
    )
    host_rows = _host_rows(config, header)
    return lambda gpu: dataclasses.replace(
        common, reserve_bytes=reserve_of(config, gpu), host_rows=host_rows(rates_of(gpu).bus)
    )


def _host_rows(config: RunConfig, header: ModelHeader) -> Callable[[float], int]:
    """What tells up to how many rows the CPU computes what a card lacks, beside the card's link."""
    model, numbers = model_config_of(header), numbers_of_header(header, config)
    return functools.partial(
        rows_for_cpu,
        *(model.num_experts, model.num_experts_used, numbers.expert_slot_bytes),
        3 * model.hidden_size * model.expert_width,
        config.threads or probe_machine().physical_cores,
    )


def _room_for_copies(config: RunConfig, header: ModelHeader) -> int:
    """RAM for a second copy of experts, beside the first one and what everything else takes."""
    if config.expert_mode is not ExpertMode.RESIDENT:
        return 0
    experts = numbers_of_header(header, config).expert_bytes
    return max(0, probe_machine().ram_available_bytes - COMFORT_BYTES - experts)


def reserve_of(config: RunConfig, gpu: Gpu) -> int:
    """Memory of a card that is left to other programs."""
    reserve = config.vram_reserve_mib
    return reserve_bytes(gpu) if reserve is None else reserve << 20


def _known_counts(config: RunConfig, header: ModelHeader) -> list[npt.NDArray[np.float32]] | None:
    """How often each layer's experts were used, when that was learned before."""
    key = model_key(header)
    try:
        path = config.expert_profile or load_settings().data_dir / FOLDER / f"{key}.json"
        tensors = {name: info for name, (_, info) in header.tensors.items()}
        model = ModelConfig.from_metadata(header.metadata, tensors)
    except (EngineError, OSError) as error:
        logger.warning("the counts of experts are not read: %s", error)
        return None
    counts = open_counts(path, key, (model.num_layers, model.num_experts))
    return None if counts.is_empty else [row.astype(np.float32) for row in counts.counts]
