"""Cards that would share a model, counted as one."""

from __future__ import annotations

import dataclasses

import pytest

from engine.core.cards_together import cards_together
from engine.core.catalog_file import load_catalog
from engine.core.gpu import Gpu
from engine.core.machine import Machine
from engine.core.model_numbers import ModelNumbers, numbers_of_catalog
from engine.core.placement_hybrid import place

GIB = 1 << 30
HOST = 50e9


def gpu(index: int, gib: float, gb_per_s: float = 600, **facts: object) -> Gpu:
    size = int(gib * GIB)
    card = Gpu(index, f"Card {index}", size, size, has_display=False)
    return dataclasses.replace(card, memory_bytes_per_s=gb_per_s * 1e9, **facts)


@pytest.fixture(scope="module")
def numbers() -> ModelNumbers:
    catalog = load_catalog()
    model = catalog.find("qwen-iq3_xxs")
    assert model is not None
    return numbers_of_catalog(catalog, model)


def together(numbers: ModelNumbers, *cards: Gpu) -> Gpu | None:
    return cards_together(numbers, cards, context=32768, host_bytes_per_s=HOST)


def test_one_card_is_itself_and_no_card_is_none(numbers):
    assert together(numbers) is None
    assert together(numbers, gpu(0, 12)) == gpu(0, 12)


def test_two_cards_that_both_help_are_counted_with_the_memory_of_both(numbers):
    both = together(numbers, gpu(0, 12), gpu(1, 24))
    assert both is not None
    assert both.name == "Card 0 + Card 1"
    assert 34 * GIB < both.vram_total_bytes < 36 * GIB - 700 * (1 << 20)
    assert both.index == 1


def test_of_two_cards_of_unequal_speed_the_bytes_take_a_time_between_theirs(numbers):
    both = together(numbers, gpu(0, 24, 600), gpu(1, 24, 900))
    assert both is not None
    assert both.memory_bytes_per_s is not None
    assert 600e9 < both.memory_bytes_per_s < 900e9


def test_a_card_that_the_program_would_leave_out_is_not_counted(numbers):
    large = gpu(1, 96, 1800)
    assert together(numbers, gpu(0, 6, 100), large) == large


def test_cards_that_hold_nothing_leave_the_largest_which_is_refused_by_the_placement(numbers):
    assert together(numbers, gpu(0, 1), gpu(1, 2)) == gpu(1, 2)


def test_a_model_is_placed_on_both_and_more_of_its_experts_are_on_cards(numbers):
    machine = Machine("Linux", "cpu", 8, 16, 96 * GIB, 90 * GIB, 0)
    alone, both = gpu(1, 24), together(numbers, gpu(0, 12), gpu(1, 24))
    slots = [place(numbers, machine, card, 32768).expert_slots for card in (alone, both)]
    more = (slots[1] - slots[0]) * numbers.expert_slot_bytes
    assert 8 * GIB < more < 12 * GIB
