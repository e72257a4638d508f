"""What must hold before a model is loaded."""

import logging
import sys
from types import SimpleNamespace

import pytest

from engine.core.config import RunConfig
from engine.core.errors import ConfigError, ResourceError
from engine.server import before_load as module
from engine.server.before_load import MIB, before_load


async def test_too_little_free_graphics_memory_refuses_the_load(monkeypatch):
    monkeypatch.setattr(module, "free_vram_bytes", lambda _gpus: 100 * MIB)
    await before_load(RunConfig(min_free_vram_mib=100))
    with pytest.raises(ResourceError, match="100 MiB free; 101 MiB are wanted") as caught:
        await before_load(RunConfig(min_free_vram_mib=101))
    assert caught.value.code == "insufficient_vram"


async def test_of_several_cards_those_count_that_are_to_compute(monkeypatch):
    sizes = (100, 300, 700)
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 3,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda index: f"GPU-000{index}".encode(),
        nvmlDeviceGetName=lambda index: f"Card {index}",
        nvmlDeviceGetMemoryInfo=lambda index: SimpleNamespace(free=sizes[index] * MIB, used=0),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    for gpus, free in (("auto", 1100), ([0], 100), ([1, 0], 400), (["GPU-0002"], 700)):
        await before_load(RunConfig(min_free_vram_mib=free, gpus=gpus))
        with pytest.raises(ResourceError, match=f"{free} MiB free"):
            await before_load(RunConfig(min_free_vram_mib=free + 1, gpus=gpus))


async def test_a_machine_that_tells_no_graphics_memory_is_not_checked(monkeypatch, caplog):
    monkeypatch.setattr(module, "free_vram_bytes", lambda _gpus: None)
    with caplog.at_level(logging.WARNING):
        await before_load(RunConfig(min_free_vram_mib=100))
    assert "not checked" in caplog.text


async def test_a_program_that_is_not_there_is_named_without_its_folder():
    config = RunConfig(before_load=("/no/such/folder/stop-game", "--secret"))
    with pytest.raises(ConfigError, match=r"the program stop-game .* cannot be started") as caught:
        await before_load(config)
    assert "folder" not in caught.value.message
    assert "secret" not in caught.value.message
