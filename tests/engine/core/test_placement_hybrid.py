"""Placement with a graphics card: sizes that must add up, what is given up first, and real kits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.catalog import Catalog
from engine.core.catalog_file import bundled_model_path, load_catalog
from engine.core.config import RunConfig
from engine.core.gguf_header import read_model_header
from engine.core.gpu import Gpu
from engine.core.machine import Machine
from engine.core.model_numbers import ModelNumbers, numbers_of_catalog, numbers_of_header
from engine.core.placement import Verdict, place_on_cpu
from engine.core.placement_hybrid import (
    HybridPlacement,
    best_gpu,
    gpu_problems,
    near_tokens,
    place,
    reserve_bytes,
)
from engine.core.weight_groups import Tier
from tests.support.pc_profiles import card, pc

GIB = 1 << 30
MODELS = ("qwen-q2_0", "qwen-iq2_xs", "qwen-iq3_xxs", "coder-iq1_m", "unsloth-ud-iq4_xs")
CONTEXTS = (8_192, 32_768, 131_072)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def numbers(catalog: Catalog, model_id: str) -> ModelNumbers:
    model = catalog.find(model_id)
    assert model is not None
    return numbers_of_catalog(catalog, model)


def machine(ram_gib: float) -> Machine:
    return pc(ram_gib).machine


def in_tier(placement: HybridPlacement, tier: Tier) -> int:
    return sum(part.num_bytes for part in placement.parts if part.tier is tier)


@pytest.mark.parametrize("model_id", MODELS)
@pytest.mark.parametrize("vram_gib", [8, 12, 16, 24, 32])
@pytest.mark.parametrize("ram_gib", [31.1, 46.9, 62.7, 125.6])
def test_what_is_placed_adds_up_and_leaves_the_reserve_free(
    model_id: str, vram_gib: int, ram_gib: float, catalog: Catalog
) -> None:
    model = numbers(catalog, model_id)
    gpu = card("card", vram_gib, has_display=True)
    for context in CONTEXTS:
        found = place(model, machine(ram_gib), gpu, context)
        assert in_tier(found, Tier.VRAM) == found.vram_bytes
        assert in_tier(found, Tier.RAM) + in_tier(found, Tier.RAM_MAPPED) == found.ram_bytes
        experts = [part for part in found.parts if part.name == "Experts"]
        held = found.expert_slots * model.expert_slot_bytes
        assert sum(part.num_bytes for part in experts if part.tier is Tier.VRAM) == held
        assert sum(part.num_bytes for part in experts) >= model.expert_bytes
        if found.gpu_index is not None:
            assert found.vram_bytes <= gpu.vram_total_bytes - reserve_bytes(gpu)
            assert model.experts_used <= found.expert_slots <= model.num_experts


@pytest.mark.parametrize("model_id", MODELS)
def test_more_memory_never_makes_it_worse(model_id: str, catalog: Catalog) -> None:
    model = numbers(catalog, model_id)
    order = (Verdict.FITS, Verdict.TIGHT, Verdict.DOES_NOT_FIT)
    for vram in (None, 12, 24):
        gpu = card("card", vram) if vram is not None else None
        by_ram = [place(model, machine(ram), gpu, 32_768).verdict for ram in range(8, 140, 2)]
        assert by_ram == sorted(by_ram, key=order.index, reverse=True)
    slots = [
        place(model, machine(62.7), card("card", vram), 32_768).expert_slots
        for vram in range(4, 64, 2)
    ]
    # Between steps something that was given up comes back: then slots may fall, but not to nothing.
    assert slots[0] == 0
    assert slots[-1] == model.num_experts or slots[-1] > slots[len(slots) // 2]
    grown = [after >= before * 0.5 for before, after in itertools.pairwise(slots)]
    assert all(grown)


def test_experts_on_the_card_need_no_ram_only_where_ram_is_short(catalog: Catalog) -> None:
    model = numbers(catalog, "qwen-iq2_xs")
    gpu = card("card", 24)
    short, ample = (
        place(model, machine(31.1), gpu, 32_768),
        place(model, machine(62.7), gpu, 32_768),
    )
    assert short.verdict is Verdict.FITS
    assert "experts_not_doubled" in {note.code for note in short.notes}
    assert ample.ram_bytes - short.ram_bytes == ample.expert_slots * model.expert_slot_bytes


def test_a_small_card_gives_up_parallel_requests_before_drafts_before_the_card(
    catalog: Catalog,
) -> None:
    model = numbers(catalog, "qwen-iq2_xs")
    given_up = []
    for vram in (16.0, 9.0, 7.9, 6.2, 5.0):
        codes = {note.code for note in place(model, machine(62.7), card("c", vram), 32_768).notes}
        given_up.append(codes - {"vram_taken"})
    assert given_up == [
        set(),
        set(),
        {"one_request_at_a_time"},
        {"one_request_at_a_time", "no_vram_for_drafts"},
        {"vram_too_small"},
    ]


def kv_bytes(placement: HybridPlacement, tier: Tier) -> int:
    parts = (p for p in placement.parts if p.name == "KV pages" and p.tier is tier)
    return sum(part.num_bytes for part in parts)


def test_a_card_without_room_for_all_keys_and_values_leaves_the_rest_in_memory(
    catalog: Catalog,
) -> None:
    model = numbers(catalog, "qwen-iq2_xs")
    for vram, is_split in ((7.9, False), (6.9, True)):
        found = place(model, machine(62.7), card("c", vram), 32_768)
        far = kv_bytes(found, Tier.RAM)
        assert (far > 0) is is_split
        # Of the tokens in RAM the card holds the pooled index keys alone.
        assert far + kv_bytes(found, Tier.VRAM) == 32_768 * model.kv_token_bytes
        assert in_tier(found, Tier.RAM) + in_tier(found, Tier.RAM_MAPPED) == found.ram_bytes
        assert "no_vram_for_drafts" not in {note.code for note in found.notes}


def test_as_many_tokens_stay_on_the_card_as_are_wished_for(catalog: Catalog) -> None:
    model, context = numbers(catalog, "qwen-iq2_xs"), 32_768
    large = card("c", 16)
    wished = replace(model, kv_vram_tokens=4096)
    found, usual = (place(m, machine(62.7), large, context) for m in (wished, model))
    each = model.kv_token_bytes - model.kv_pooled_token_bytes
    assert kv_bytes(found, Tier.RAM) == (context - 4096) * each
    assert kv_bytes(usual, Tier.RAM) == 0
    assert found.expert_slots > usual.expert_slots
    above = replace(model, kv_vram_tokens=10 * context)
    assert place(above, machine(62.7), large, context) == usual


def test_more_than_one_context_stays_on_the_card_only_beside_all_experts(catalog: Catalog) -> None:
    model = numbers(catalog, "qwen-iq2_xs")
    context, tokens = 32_768, 4 * 32_768
    near = [near_tokens(model, gib * GIB, context, tokens, 4) for gib in (4, 8, 16, 40, 44, 90)]
    assert near == sorted(near)
    assert near[0] == 0
    assert near[2] == context
    assert context < near[4] <= tokens
    assert near[5] == tokens


def test_a_model_larger_than_its_memory_reads_the_rest_from_the_disk(catalog: Catalog) -> None:
    model = numbers(catalog, "unsloth-ud-iq4_xs")
    refused = place(model, machine(46.9), None, 8_192)
    budgeted = place(model, machine(46.9), None, 8_192, may_read_disk=True)
    assert refused.verdict is Verdict.DOES_NOT_FIT
    assert budgeted.verdict is Verdict.TIGHT
    assert 0 < budgeted.disk_expert_bytes < model.expert_bytes
    assert place(model, machine(15.4), None, 8_192, may_read_disk=True).verdict is (
        Verdict.DOES_NOT_FIT
    )


@pytest.mark.parametrize(
    ("ram_gib", "model_id", "verdict"),
    [
        (31.1, "coder-iq1_m", Verdict.TIGHT),
        (31.9, "coder-iq1_m", Verdict.TIGHT),
        (46.9, "qwen-iq2_xs", Verdict.FITS),
        (47.8, "qwen-iq2_xs", Verdict.FITS),
        (62.6, "qwen-iq3_xxs", Verdict.FITS),
        (62.6, "qwen-iq3_s", Verdict.FITS),
        (31.1, "qwen-q2_0", Verdict.DOES_NOT_FIT),
    ],
)
def test_kits_that_report_less_than_their_name_get_what_is_meant_for_them(
    ram_gib: float, model_id: str, verdict: Verdict, catalog: Catalog
) -> None:
    assert place(numbers(catalog, model_id), machine(ram_gib), None, 32_768).verdict is verdict


def test_one_request_at_a_time_is_offered_where_it_decides(catalog: Catalog) -> None:
    found = place(numbers(catalog, "coder-iq1_m"), machine(31.1), None, 65_536)
    assert (found.verdict, found.parallel) == (Verdict.TIGHT, 1)
    assert {note.code for note in found.notes} == {"one_request_at_a_time"}


def test_what_others_hold_on_the_card_is_said_when_it_decides(catalog: Catalog) -> None:
    model = numbers(catalog, "qwen-iq2_xs")
    busy = place(model, machine(62.7), card("card", 12, taken_gib=9), 32_768)
    assert busy.gpu_index == 0
    assert "vram_taken" in {note.code for note in busy.notes}


@pytest.mark.parametrize(
    ("gpu", "driver", "codes"),
    [
        (card("RTX 3060", 12, (8, 6)), 525, []),
        (card("RTX 3060", 12, (8, 6)), 470, ["driver_too_old"]),
        (card("RTX 2070", 8, (7, 5)), 580, []),
        (card("GTX 1080", 8, (6, 1)), 580, ["gpu_too_old"]),
        (card("Titan V", 12, (7, 0)), 470, ["gpu_too_old", "driver_too_old"]),
        (card("RTX 5070", 12, (12, 0)), 560, ["driver_too_old"]),
        (card("RTX 5070", 12, (12, 0)), 570, []),
        (replace(card("?", 12), compute_capability=None), None, []),
    ],
)
def test_a_card_that_cannot_be_used_says_why(
    gpu: Gpu, driver: int | None, codes: list[str]
) -> None:
    assert [note.code for note in gpu_problems(gpu, driver, 525)] == codes


def test_the_card_with_the_most_memory_is_taken_of_those_that_can_be_used() -> None:
    cards = [card("old", 32, (6, 1)), card("a", 8, index=1), card("b", 12, index=2)]
    found = best_gpu(cards, 580, 525)
    assert found is not None
    assert found.index == 2
    assert best_gpu([card("a", 8, index=1), card("b", 8, index=2)], 580, 525) == card(
        "a", 8, index=1
    )
    assert best_gpu(cards, 470, 525) is None
    assert best_gpu([], 580, 525) is None


def test_numbers_of_a_header_agree_with_the_placement_of_its_files(catalog: Catalog) -> None:
    path: Path = bundled_model_path(catalog)
    header, config = read_model_header(path), RunConfig(parallel=1)
    exact = numbers_of_header(header, config)
    parts = {part.name: part for part in place_on_cpu(machine(16), header, config).parts}
    assert exact.expert_bytes == parts["Experts"].num_bytes
    assert exact.mtp_bytes == parts["MTP layer"].num_bytes
    assert exact.state_bytes == parts["Recurrent states"].num_bytes
    assert exact.dense_bytes + exact.row_bytes + exact.expert_bytes + exact.mtp_bytes == sum(
        info.num_bytes for _shard, info in header.tensors.values()
    )
    found = place(exact, machine(16), card("card", 8), 32_768)
    assert (found.verdict, found.expert_slots) == (Verdict.FITS, exact.num_experts)


def test_numbers_of_the_catalogue_are_near_those_of_the_files(catalog: Catalog) -> None:
    about = numbers_of_catalog(catalog, catalog.bundled)
    exact = numbers_of_header(read_model_header(bundled_model_path(catalog)))
    assert about.num_experts == exact.num_experts
    assert about.experts_used == exact.experts_used
    assert about.kv_token_bytes == exact.kv_token_bytes
    assert about.trained_context == exact.trained_context
    total = exact.expert_bytes + exact.dense_bytes + exact.row_bytes + exact.mtp_bytes
    listed = about.expert_bytes + about.dense_bytes + about.row_bytes
    assert listed == pytest.approx(total, rel=0.05)
