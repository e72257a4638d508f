"""What the run config says about a graphics card, as the operations on one take it."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt

from engine.core.config import ExpertMode, RunConfig
from engine.core.errors import EngineError
from engine.core.gguf_header import ModelHeader
from engine.core.gpu import Gpu, probe_gpus
from engine.core.machine import probe_machine
from engine.core.model_config import ModelConfig
from engine.core.model_numbers import numbers_of_header
from engine.core.model_sizes import model_config_of
from engine.core.placement_hybrid import (
    COMFORT_BYTES,
    VRAM_RESERVE_DISPLAY_BYTES,
    rates_of,
    reserve_bytes,
)
from engine.core.settings import load_settings
from engine.core.small_prompts import rows_for_cpu
from engine.core.timeline import REFERENCE_RATES
from engine.memory.expert_counts import FOLDER, model_key, open_counts
from engine.ops.cuda_settings import CudaSettings

logger = logging.getLogger(__name__)


def card_settings(config: RunConfig, header: ModelHeader) -> CudaSettings:
    """The settings of operations on a card, for the model of this header."""
    wanted = config.expert_vram_mib
    return CudaSettings(
        cache_bytes=None if wanted is None else wanted << 20,
        reserve_bytes=_reserve(config),
        pcie_frac=config.pcie_frac,
        host_rows=_host_rows(config, header),
        pins_experts=config.expert_mode is ExpertMode.RESIDENT,
        pinned_copy_bytes=_room_for_copies(config, header),
        counts=_known_counts(config, header),
    )


def _host_rows(config: RunConfig, header: ModelHeader) -> int:
    """Rows up to which the CPU computes what a card lacks, beside the fastest link of the cards."""
    model, numbers = model_config_of(header), numbers_of_header(header, config)
    buses = [rates_of(gpu).bus for gpu in probe_gpus().cards]
    return rows_for_cpu(
        *(model.num_experts, model.num_experts_used, numbers.expert_slot_bytes),
        expert_values=3 * model.hidden_size * model.expert_width,
        cores=config.threads or probe_machine().physical_cores,
        bus_bytes_per_s=max(buses, default=REFERENCE_RATES.bus),
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


def _reserve(config: RunConfig) -> int:
    """Card memory for others; the larger amount where nobody says that no screen hangs on it."""
    reserves = [reserve_of(config, card) for card in probe_gpus().cards]
    if config.vram_reserve_mib is not None:
        return config.vram_reserve_mib << 20
    return max(reserves, default=VRAM_RESERVE_DISPLAY_BYTES)


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
