"""Rows of a prompt in one pass: what is chosen on a card, and what is obeyed."""

from __future__ import annotations

import dataclasses

import pytest

from engine.core.catalog_file import load_catalog
from engine.core.config import BUNDLED_MODEL, RunConfig
from engine.core.gguf_header import read_model_header
from engine.core.gpu import Gpu
from engine.core.model_config import LayerKind, ModelConfig, PleConfig
from engine.core.model_numbers import ModelNumbers, numbers_of_catalog, numbers_of_header
from engine.core.model_sizes import card_row_bytes
from engine.core.placement_hybrid import HybridPlacement, place
from engine.core.prompt_chunk import CARD_ROWS, rows_on_card, rows_on_cpu
from tests.support.pc_profiles import card, pc


def numbers(prompt_chunk: int | None = None) -> ModelNumbers:
    catalog = load_catalog()
    model = catalog.find("qwen-q2_0")
    assert model is not None
    return numbers_of_catalog(catalog, model, RunConfig(prompt_chunk=prompt_chunk))


def placed(model: ModelNumbers, gpu: Gpu | None) -> HybridPlacement:
    return place(model, pc(62.7).machine, gpu, 32_768)


def test_the_cpu_reads_256_rows_at_a_time_unless_told_otherwise() -> None:
    assert rows_on_cpu(RunConfig()) == 256
    assert rows_on_cpu(RunConfig(prompt_chunk=64)) == 64
    assert placed(numbers(), None).prompt_rows == 0


def test_a_card_of_12_gb_reads_4096_rows_at_a_time_and_their_memory_is_counted() -> None:
    gpu = dataclasses.replace(card("card", 12), memory_bytes_per_s=672e9)
    chosen = placed(numbers(), gpu)
    small = placed(numbers(prompt_chunk=256), gpu)
    assert (chosen.prompt_rows, small.prompt_rows) == (4096, 256)
    model = numbers()
    fewer = (small.expert_slots - chosen.expert_slots) * model.expert_slot_bytes
    assert fewer == pytest.approx((4096 - 256) * model.card_row_bytes, abs=2 * 1_400_000)


def test_a_slow_bus_makes_more_rows_pay_and_a_fast_one_fewer() -> None:
    rows = []
    for generation, lanes in ((3, 4), (4, 16), (6, 16)):
        gpu = dataclasses.replace(
            card("card", 16), pcie_generation_max=generation, pcie_width_max=lanes
        )
        rows.append(
            placed(numbers(), dataclasses.replace(gpu, memory_bytes_per_s=672e9)).prompt_rows
        )
    assert rows[0] > rows[1] > rows[2]
    assert set(rows) <= set(CARD_ROWS)


def test_a_number_that_was_asked_for_is_taken_and_as_much_of_it_as_fits() -> None:
    assert placed(numbers(prompt_chunk=8192), card("card", 24)).prompt_rows == 8192
    assert placed(numbers(prompt_chunk=700), card("card", 24)).prompt_rows == 700
    tight = placed(numbers(prompt_chunk=8192), card("card", 8))
    assert tight.gpu_index is not None
    assert tight.prompt_rows < 8192
    assert rows_on_card(700, lambda rows: 5 if rows < 700 else -1, lambda *_: 0.0) == (512, 5)
    assert rows_on_card(None, lambda _: -1, lambda *_: 0.0) is None


def test_of_sizes_that_are_as_good_the_smallest_is_taken() -> None:
    assert rows_on_card(None, lambda _: 9, lambda *_: 1.0) == (256, 9)


def test_a_small_model_that_the_card_holds_whole_needs_no_large_passes() -> None:

    model = numbers_of_header(read_model_header(BUNDLED_MODEL), RunConfig())
    assert placed(model, card("card", 12)).prompt_rows == 256


def test_estimate_and_header_agree_about_the_memory_of_a_row() -> None:
    """Sizes of the published model, in the words of a header's config."""

    ple = PleConfig.__new__(PleConfig)
    config = ModelConfig(
        layer_kinds=(LayerKind.DELTA, LayerKind.ATTENTION),
        num_mtp_layers=0,
        context_length=262_144,
        vocab_size=248_320,
        hidden_size=2560,
        rms_eps=1e-6,
        num_streams=4,
        low_rank=320,
        num_heads=24,
        num_kv_heads=2,
        head_dim=256,
        rope_theta=1e7,
        rope_dim=64,
        rope_sections=(11, 11, 10),
        num_index_heads=4,
        index_dim=128,
        block_ratio=4,
        top_blocks=512,
        delta_num_k_heads=16,
        delta_num_v_heads=48,
        delta_head_dim=128,
        delta_conv_kernel=4,
        num_experts=512,
        num_experts_used=10,
        expert_width=640,
        shared_expert_width=640,
        ple=ple,
    )
    assert card_row_bytes(config) == pytest.approx(numbers().card_row_bytes, rel=0.1)
