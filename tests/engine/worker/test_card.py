"""Loading onto a card, and what happens where there is none or it fails."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.core.config import OpsName, RunConfig
from engine.core.errors import ConfigError
from engine.core.gguf_header import read_model_header
from engine.core.gpu import GpuReport, probe_gpus
from engine.core.model_numbers import numbers_of_header
from engine.core.weight_groups import Tier
from engine.decode.generate import generate
from engine.device.base import DeviceError, DeviceMemoryError
from engine.memory.expert_counts import ExpertCounts, model_key
from engine.worker import card, card_loading
from engine.worker.card import card_settings
from engine.worker.loading import LoadedModel, load_model
from engine.worker.messages import SamplingParams, Start
from tests.support.drafted_runs import answers_of, named_drafting
from tests.support.golden import GOLDEN
from tests.support.plain_cards import GIB, gpu, plain_card, stand_in
from tests.support.plain_device import PlainDevice

MODEL = GOLDEN / "full.gguf"
GREEDY = SamplingParams(temperature=0)


def on_plain_cards(monkeypatch: pytest.MonkeyPatch, device: Callable[[], PlainDevice]) -> None:
    """The PC has one card, a plain device, from here on."""
    stand_in(monkeypatch, device)


def config(ops: OpsName, **changes: object) -> RunConfig:
    return RunConfig(**({"model": MODEL, "context": 64, "ops": ops, "prompt_chunk": 32} | changes))


def generated(loaded: LoadedModel) -> list[int]:
    generation = generate(loaded.model, [5, 6, 7], GREEDY, 8, [], loaded.limits)
    return [token.token_id for token in generation]


def answer(of: RunConfig) -> tuple[str, list[int]]:
    loaded = load_model(of)
    try:
        return loaded.ops.name, generated(loaded)
    finally:
        loaded.close()


def test_the_card_gives_the_answer_of_the_reference(monkeypatch):
    on_plain_cards(monkeypatch, PlainDevice)
    name, tokens = answer(config(OpsName.CUDA, vram_reserve_mib=0))
    assert name == "cuda"
    assert tokens == answer(config(OpsName.REFERENCE))[1]


@pytest.mark.parametrize("kv_type", ["f32", "i8"])
def test_keys_and_values_beyond_the_wished_tokens_lie_in_host_memory(monkeypatch, kv_type):
    monkeypatch.setattr("engine.core.model_sizes.PAGE_TOKENS", 4)
    on_plain_cards(monkeypatch, PlainDevice)
    wished = config(OpsName.CUDA, vram_reserve_mib=0, kv_vram_tokens=5, kv_type=kv_type)
    loaded = load_model(wished)
    try:
        assert loaded.model.limits.kv_near_pages == 2
        for pool in loaded.model.store.kv:
            assert pool.far is not None
            assert len(pool.keys) == 2
            assert len(pool.far.arrays[0]) == loaded.placement.kv_pages - 2
        tokens = generated(loaded)
    finally:
        loaded.close()
    assert tokens == answer(config(OpsName.REFERENCE, kv_type=kv_type))[1]


def ram_bytes(loaded: LoadedModel, name: str) -> int:
    of_name = [part for part in loaded.placement.parts if part.name == name]
    return sum(part.num_bytes for part in of_name if part.tier in {Tier.RAM, Tier.RAM_MAPPED})


def test_what_the_card_holds_is_not_counted_as_ram(monkeypatch):
    stand_in(monkeypatch, plain_card(2 * GIB))
    wished = {"session_cache_mib": 0, "vram_reserve_mib": 0}
    loaded = load_model(config(OpsName.CUDA, **wished))
    loaded.close()
    for name in ("KV pages", "Other", "Recurrent states", "Workspace"):
        assert ram_bytes(loaded, name) == 0
    assert loaded.placement.near_pages == loaded.placement.kv_pages
    on_cpu = load_model(config(OpsName.HOST, **wished))
    on_cpu.close()
    assert ram_bytes(on_cpu, "KV pages") > 0
    assert loaded.placement.needed_bytes < on_cpu.placement.needed_bytes


def test_rows_of_a_prompt_are_those_that_the_card_has_memory_for(monkeypatch, caplog):
    stand_in(monkeypatch, plain_card(2 * GIB), plain_card(GIB))
    rows = []
    for wished in (None, 700, 32):
        of = config(OpsName.CUDA, vram_reserve_mib=0, gpus=("0",), prompt_chunk=wished)
        loaded = load_model(of)
        loaded.close()
        rows.append(loaded.limits.prompt_chunk)
        most = loaded.limits.prompt_chunk + loaded.placement.max_sequences
        assert loaded.model.limits.max_rows == loaded.ops.limits.max_rows == most
    assert rows == [256, 700, 32]  # a small model gains nothing from more
    monkeypatch.setattr("engine.core.model_numbers.card_row_bytes", lambda _: 4 << 20)
    loaded = load_model(config(OpsName.CUDA, vram_reserve_mib=0, gpus=("0",), prompt_chunk=700))
    loaded.close()
    assert loaded.limits.prompt_chunk == 256
    assert "prompt_chunk is 700, but the graphics card has memory for passes of 256 rows" in (
        caplog.text
    )


def test_a_small_card_computes_one_request_at_a_time(monkeypatch):
    stand_in(monkeypatch, plain_card(2 * GIB))
    monkeypatch.setattr("engine.core.model_numbers.state_bytes", lambda _: 600 << 20)
    loaded = load_model(config(OpsName.CUDA, vram_reserve_mib=0))
    loaded.close()
    assert loaded.limits.parallel == loaded.model.limits.max_sequences == 1


def test_a_card_without_room_for_the_draft_head_answers_without_it(monkeypatch, caplog):
    stand_in(monkeypatch, plain_card(2 * GIB))
    head = GOLDEN / "full-mtp.gguf"
    drafted = config(OpsName.CUDA, vram_reserve_mib=0, mtp_file=head)
    loaded = load_model(drafted)
    loaded.close()
    assert loaded.model.mtp is not None
    assert "draft head" not in caplog.text
    monkeypatch.setattr(
        "engine.worker.card_sizes.numbers_of_header",
        lambda *given: dataclasses.replace(numbers_of_header(*given), mtp_bytes=2 * GIB),
    )
    loaded = load_model(drafted)
    try:
        assert loaded.model.mtp is None
        tokens = generated(loaded)
    finally:
        loaded.close()
    assert tokens == answer(config(OpsName.REFERENCE))[1]
    assert "no memory for the draft head" in caplog.text


def test_all_keys_and_values_stay_on_a_card_that_has_room(monkeypatch):
    on_plain_cards(monkeypatch, PlainDevice)
    loaded = load_model(config(OpsName.CUDA, vram_reserve_mib=0))
    loaded.close()
    assert all(pool.far is None for pool in loaded.model.store.kv)


def full_card() -> PlainDevice:
    return PlainDevice(total_bytes=1 << 20)


class Boaster(PlainDevice):
    """A card that has less than it says."""

    def alloc(self, num_bytes):
        raise DeviceMemoryError("The card has no room.")


def test_a_card_that_runs_out_leaves_auto_to_the_cpu_with_a_sentence(monkeypatch, caplog):
    on_plain_cards(monkeypatch, Boaster)
    name, tokens = answer(config(OpsName.AUTO, vram_reserve_mib=0))
    assert name == "host"
    assert tokens == answer(config(OpsName.HOST))[1]
    assert "The graphics card is not used: The card has no room." in caplog.text


def test_auto_leaves_a_card_alone_that_has_nothing_beside_its_reserve(monkeypatch):
    on_plain_cards(monkeypatch, plain_card(GIB // 2))
    loaded = load_model(config(OpsName.AUTO))
    loaded.close()
    assert loaded.ops.name == "host"
    assert "MiB free, and 700.0 MiB are left to other programs" in (loaded.card_notice)
    assert "lower the setting" in loaded.card_notice
    assert answer(config(OpsName.CUDA))[0].startswith("cuda")  # asked for by name, it is taken


def test_auto_leaves_a_card_alone_whose_room_beside_the_reserve_is_too_little(monkeypatch):
    stand_in(monkeypatch, plain_card(GIB // 4), gpus=[gpu(0, 0.25)])
    loaded = load_model(config(OpsName.AUTO, vram_reserve_mib=64))
    loaded.close()
    assert loaded.ops.name == "host"
    assert (
        "Graphics card 0 (Plain 0) has too little room for this model: of 256.0 MiB that are free 64.0 MiB "
        "are left to other programs (setting: vram_reserve_mib); close programs that use it, use a smaller "
        "context, or lower the setting."
    ) in loaded.card_notice


def test_a_card_that_was_asked_for_by_name_is_not_replaced(monkeypatch):
    on_plain_cards(monkeypatch, full_card)
    with pytest.raises(DeviceMemoryError, match="no room"):
        load_model(config(OpsName.CUDA))


def test_auto_takes_the_cpu_where_there_is_no_card(monkeypatch, caplog):
    monkeypatch.setattr(card_loading, "probe_gpus", GpuReport)
    assert answer(config(OpsName.AUTO))[0] == "host"
    assert "raphics card" not in caplog.text


def test_a_card_that_cannot_be_opened_leaves_auto_to_the_cpu_with_a_sentence(monkeypatch, caplog):
    def broken() -> PlainDevice:
        raise DeviceError("Plain 0 is used by a program that lets no other use it.")

    stand_in(monkeypatch, broken)
    loaded = load_model(config(OpsName.AUTO))
    loaded.close()
    assert loaded.ops.name == "host"
    assert "Plain 0 is used by a program" in loaded.card_notice
    assert f"The graphics card is not used: {loaded.card_notice.partition(': ')[2]}" in caplog.text


def test_int8_caches_where_no_card_computes_are_refused_before_a_weight_is_read(monkeypatch):
    def broken() -> PlainDevice:
        raise DeviceError("Plain 0 is used by a program that lets no other use it.")

    stand_in(monkeypatch, broken)
    monkeypatch.setattr(card_loading.ModelSource, "load", lambda *_: pytest.fail("it loads"))
    with pytest.raises(
        ConfigError, match=r"i8 need a graphics card .* Plain 0 is used by a program"
    ):
        load_model(config(OpsName.AUTO, kv_type="i8"))


def test_settings_come_from_the_config_and_the_reserve_from_the_card(monkeypatch):
    header = read_model_header(MODEL)
    named = config(OpsName.CUDA, pcie_frac=0.25, expert_vram_mib=3, vram_reserve_mib=9)
    given = card_settings(named, header)(gpu(0))
    assert (given.pcie_frac, given.cache_bytes, given.reserve_bytes) == (0.25, 3 << 20, 9 << 20)
    assert not given.pins_experts
    resident = config(OpsName.CUDA, expert_mode="resident")
    monkeypatch.setattr(card, "COMFORT_BYTES", 0)
    given = card_settings(resident, header)(gpu(0))
    assert given.pins_experts
    assert given.pinned_copy_bytes > 0
    of_card = card_settings(config(OpsName.CUDA), header)
    reserves = [of_card(gpu(0, has_display=it)).reserve_bytes for it in (False, True, None)]
    assert reserves[0] < reserves[1] == reserves[2]


def test_how_much_is_left_to_the_cpu_goes_by_the_bus_of_the_card_that_computes(monkeypatch):
    quick, slow = (
        gpu(number, pcie_generation_max=generation, pcie_width_max=width)
        for number, (generation, width) in enumerate([(6, 16), (1, 1)])
    )
    asked = stand_in(monkeypatch, PlainDevice, PlainDevice, gpus=[quick, slow])
    for gpus in ([0], [1], [0, 1]):
        load_model(config(OpsName.CUDA, gpus=gpus, threads=2)).close()
    rows = [tuple(use.settings.host_rows for use in uses) for uses in asked]
    assert rows[0] < rows[1]
    assert rows[2] == rows[0] + rows[1]


def test_one_load_asks_the_driver_once(monkeypatch):
    asked = []

    def run_smi(timeout_s: float) -> str:
        asked.append(timeout_s)
        return "Plain 0, 12288, 12000, 580.95.05, 4, 4, 16, 16, Disabled\n"

    stand_in(monkeypatch, PlainDevice)
    monkeypatch.setattr(card_loading, "probe_gpus", probe_gpus)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr("engine.core.gpu.run_smi", run_smi)
    loaded = load_model(config(OpsName.AUTO, vram_reserve_mib=0))
    loaded.close()
    assert loaded.ops.name == "cuda"
    assert len(asked) == 1


@pytest.mark.parametrize("drafter", ["head", "both", "long chains"])
def test_drafts_change_no_answer_on_a_card(monkeypatch, drafter):
    on_plain_cards(monkeypatch, PlainDevice)
    drafted = config(OpsName.CUDA, vram_reserve_mib=0, mtp_file=GOLDEN / "full-mtp.gguf")
    loaded = load_model(drafted)
    prompts = {"a": [5, 6, 7, 5, 6, 7, 5, 6], "b": [9, 8, 9, 8, 9]}
    starts = [Start(name, tuple(ids), 14, (), GREEDY) for name, ids in prompts.items()]
    try:
        plain, _ = answers_of(loaded, starts)
        guessed, ends = answers_of(loaded, starts, named_drafting(loaded, drafter))
    finally:
        loaded.close()
    assert guessed == plain
    assert sum(end.timings.draft_tokens for end in ends.values()) > 0


def test_learned_counts_fill_the_cache_and_are_learned_on(monkeypatch, tmp_path: Path):
    header = read_model_header(MODEL)
    path = tmp_path / "counts.json"
    counts = ExpertCounts((4, 16), model_key(header))
    counts.add(1, np.array([[11, 11, 3]], np.int32))
    counts.save(path)
    on_plain_cards(monkeypatch, PlainDevice)
    learning = config(
        OpsName.CUDA,
        vram_reserve_mib=0,
        expert_vram_mib=1,
        expert_profile=path,
        expert_profile_learn=True,
    )
    settings = card_settings(learning, header)(gpu(0))
    assert settings.counts is not None
    assert settings.counts[1].argmax() == 11
    loaded = load_model(learning)
    generated(loaded)
    loaded.save()
    loaded.close()
    learned = ExpertCounts.read(path, model_key(header), (4, 16)).counts
    assert learned.sum() > 3
    assert learned[1, 11] >= 2
