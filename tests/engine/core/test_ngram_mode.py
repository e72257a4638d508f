from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from engine.core.config import NgramMode, RunConfig
from engine.core.drive_speed import DriveKind
from engine.core.ggml_types import GgmlType
from engine.core.gguf_header import TensorInfo, read_model_header
from engine.core.machine import Machine
from engine.core.ngram_mode import (
    CACHE_BYTES,
    NgramPlan,
    plan_ngram_table,
    reader_bytes,
    slow_drive_sentence,
)
from engine.core.ngram_numbers import CACHE_ROWS, TABLE_NAME
from engine.core.placement import place_on_cpu
from engine.core.weight_groups import TABLE_PART, Tier

GIB = 1 << 30
REAL_ROWS = 320_001_536
REAL = TensorInfo(TABLE_NAME, GgmlType.IQ4_NL, (160, REAL_ROWS), 0, REAL_ROWS * 90)
SMALL = TensorInfo(TABLE_NAME, GgmlType.IQ4_NL, (160, 50_000), 0, 50_000 * 90)
LONG_ROWS = TensorInfo(TABLE_NAME, GgmlType.F32, (2048, 4_000_000), 0, 8192 * 4_000_000)


@pytest.mark.parametrize(
    ("table", "drive", "free_gib", "mode"),
    [
        (REAL, DriveKind.SOLID_STATE, 100, NgramMode.DIRECT),
        (REAL, DriveKind.UNKNOWN, 100, NgramMode.DIRECT),
        (REAL, DriveKind.HARD_DISK, 100, NgramMode.RAM),
        (REAL, DriveKind.SLOW_SOLID_STATE, 29, NgramMode.RAM),
        (REAL, DriveKind.HARD_DISK, 28, NgramMode.DIRECT),
        (REAL, DriveKind.HARD_DISK, -5, NgramMode.DIRECT),
        (SMALL, DriveKind.SOLID_STATE, 100, NgramMode.RAM),
        (SMALL, DriveKind.HARD_DISK, 0, NgramMode.RAM),
        (LONG_ROWS, DriveKind.SOLID_STATE, 100, NgramMode.MAPPED),
    ],
)
def test_auto_chooses_by_size_drive_and_memory(
    table: TensorInfo, drive: DriveKind, free_gib: float, mode: NgramMode
) -> None:
    plan = plan_ngram_table(RunConfig(), table, drive, int(free_gib * GIB))
    assert plan is not None
    assert plan.mode is mode
    assert plan.is_slow == (mode is NgramMode.DIRECT and drive is DriveKind.HARD_DISK)


@pytest.mark.parametrize("mode", [NgramMode.DIRECT, NgramMode.MAPPED, NgramMode.RAM])
def test_a_mode_that_is_asked_for_is_taken(mode: NgramMode) -> None:
    config = RunConfig(ngram_mode=mode)
    for drive in DriveKind:
        plan = plan_ngram_table(config, REAL, drive, 0)
        assert plan is not None
        assert plan.mode is mode
    assert plan_ngram_table(config, None, DriveKind.UNKNOWN, 0) is None


def test_the_cache_of_the_published_rows_takes_95_megabytes() -> None:
    plan = plan_ngram_table(RunConfig(), REAL, DriveKind.UNKNOWN, 0)
    assert plan is not None
    assert plan.ram_bytes == reader_bytes(90, CACHE_ROWS)
    assert 95e6 < plan.ram_bytes < 99e6
    assert abs(plan.ram_bytes - CACHE_BYTES) < 1e5
    assert RunConfig().ngram_cache_rows == CACHE_ROWS
    few = plan_ngram_table(RunConfig(ngram_cache_rows=16), REAL, DriveKind.UNKNOWN, 0)
    assert few is not None
    assert few.ram_bytes < 4e6


def test_the_sentence_names_the_drive_and_the_way_out() -> None:
    slow = NgramPlan(NgramMode.DIRECT, REAL.num_bytes, 0, "", is_slow=True)
    sentence = slow_drive_sentence(slow, "model.gguf", 6.2e-3)
    assert "model.gguf takes 6.2 ms" in sentence
    assert "Move the model to an SSD, or free 26.8 GiB" in sentence
    kept = dataclasses.replace(slow, mode=NgramMode.RAM)
    assert "kept in memory" in slow_drive_sentence(kept, "model.gguf", 6.2e-3)


@pytest.mark.parametrize(
    ("mode", "tier"),
    [
        (NgramMode.DIRECT, Tier.DISK),
        (NgramMode.MAPPED, Tier.DISK),
        (NgramMode.RAM, Tier.RAM),
    ],
)
def test_placement_counts_what_the_mode_takes(mode: NgramMode, tier: Tier) -> None:
    header = read_model_header(Path(__file__).parents[2] / "golden" / "full.gguf")
    machine = Machine("Linux", "a processor", 8, 16, 32 * GIB, 24 * GIB, 0)
    placed = place_on_cpu(machine, header, RunConfig(ngram_mode=mode))
    plain = place_on_cpu(machine, header, RunConfig(ngram_mode=NgramMode.MAPPED))
    parts = {part.name: part for part in placed.parts}
    assert parts[TABLE_PART].tier is tier
    assert mode.value in parts[TABLE_PART].reason
    assert ("n-gram row cache" in parts) == (mode is NgramMode.DIRECT)
    assert placed.ngram is not None
    assert placed.private_bytes - plain.private_bytes == placed.ngram.ram_bytes
    assert placed.needed_bytes - plain.needed_bytes == placed.ngram.ram_bytes
