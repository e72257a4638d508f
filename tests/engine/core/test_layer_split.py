"""Dividing layers among cards: what is gained, what is left out, and that everything has a place."""

from __future__ import annotations

import itertools
import math

import pytest

from engine.core.layer_split import (
    BOUNDARY_S,
    LayerSplit,
    SplitCard,
    SplitModel,
    split_layers,
)

GIB = 1 << 30
HOST = 60e9  # bytes per second of the processor's memory
MODEL = SplitModel(  # about the model this is made for, at 2.3 bits a weight
    num_layers=48,
    fixed_bytes=60 << 20,
    kept_bytes=20 << 20,
    expert_bytes=GIB * 5 // 4,
    used_expert_bytes=25 << 20,
    last_bytes=GIB,
    card_bytes=GIB // 2,
)


def card(index: int, gib: float, gb_per_s: float) -> SplitCard:
    return SplitCard(index, f"card {index}", int(gib * GIB), gb_per_s * 1e9)


def counts(split: LayerSplit) -> dict[int, int]:
    return {share.index: share.stop - share.first for share in split.shares}


def test_one_card_has_all_layers_and_no_note():
    split = split_layers(MODEL, [card(0, 11, 500)], HOST)
    assert counts(split) == {0: 48}
    assert split.notes == ()


def test_two_equal_cards_have_about_half_each_and_the_one_with_the_head_less():
    split = split_layers(MODEL, [card(0, 22, 900), card(1, 22, 900)], HOST)
    first, last = split.shares
    assert 0 < (first.stop - first.first) - (last.stop - last.first) <= 4


@pytest.mark.parametrize(("small", "large"), [(8, 24), (12, 24), (16, 32)])
def test_of_two_cards_of_one_speed_layers_follow_the_memory(small, large):
    split = split_layers(MODEL, [card(0, small, 700), card(1, large, 700)], HOST)
    found = counts(split)
    assert found[0] + found[1] == 48
    assert found[0] / 48 == pytest.approx(small / (small + large), abs=0.1)


def test_of_two_cards_of_one_size_the_faster_one_has_more_layers():
    found = counts(split_layers(MODEL, [card(0, 30, 500), card(1, 30, 1000)], HOST))
    assert found[1] > found[0] > 0


def test_a_second_card_is_left_out_where_the_first_holds_everything_and_is_faster():
    split = split_layers(MODEL, [card(0, 96, 1800), card(1, 12, 300)], HOST)
    assert counts(split) == {0: 48}
    assert [(note.code, note.params["index"]) for note in split.notes] == [
        ("gpu_left_out_slower", 1)
    ]


def test_a_card_without_room_for_a_layer_is_left_out_with_that_reason():
    split = split_layers(MODEL, [card(0, 0.5, 300), card(1, 12, 700)], HOST)
    assert counts(split) == {1: 48}
    assert [note.code for note in split.notes] == ["gpu_left_out_too_small"]


def test_where_no_card_has_room_no_card_is_used():
    split = split_layers(MODEL, [card(0, 1, 300), card(1, 0.2, 700)], HOST)
    assert split.shares == ()
    assert split.token_s == math.inf
    assert len(split.notes) == 2


def test_two_cards_that_only_together_hold_the_model_are_both_used():
    layers = 48 * (MODEL.fixed_bytes + MODEL.kept_bytes) / GIB
    half = card(0, layers / 2 + 1.8, 500)
    other = card(1, layers / 2 + 1.8, 500)
    assert split_layers(MODEL, [half], HOST).shares == ()
    together = split_layers(MODEL, [half, other], HOST)
    assert len(together.shares) == 2


@pytest.mark.parametrize("sizes", list(itertools.product((2, 8, 12, 24), repeat=3)))
def test_shares_join_without_gaps_and_stay_within_the_cards(sizes):
    cards = [card(i, size, 300 + 200 * i) for i, size in enumerate(sizes)]
    split = split_layers(MODEL, cards, HOST)
    room = {one.index: one.room_bytes for one in cards}
    if split.shares:
        assert [s.first for s in split.shares] == [0, *(s.stop for s in split.shares[:-1])]
        assert split.shares[-1].stop == 48
    assert all(0 < s.num_bytes <= room[s.index] for s in split.shares)
    assert {s.index for s in split.shares}.isdisjoint(n.params["index"] for n in split.notes)
    assert len(split.shares) + len(split.notes) == 3


def test_no_other_division_is_faster():
    cards = [card(0, 11, 500), card(1, 22, 900)]
    split = split_layers(MODEL, cards, HOST)

    def seconds(first: SplitCard, last: SplitCard, num_first: int) -> float:
        total = BOUNDARY_S + MODEL.last_bytes / (last.bytes_per_s * 0.75)
        for one, count in ((first, num_first), (last, 48 - num_first)):
            room = one.room_bytes - MODEL.card_bytes - (MODEL.last_bytes if one is last else 0)
            room -= count * (MODEL.fixed_bytes + MODEL.kept_bytes)
            if room < 0:
                return math.inf
            held = min(1.0, room / (count * MODEL.expert_bytes))
            hits = held**0.4 * MODEL.used_expert_bytes
            misses = MODEL.used_expert_bytes - hits
            total += count * MODEL.fixed_bytes / (one.bytes_per_s * 0.75)
            total += count * max(hits / (one.bytes_per_s * 0.6), misses / HOST)
        return total

    best = min(seconds(a, b, n) for a, b in (cards, cards[::-1]) for n in range(1, 48))
    assert split.token_s == pytest.approx(best)
    assert split.token_s < split_layers(MODEL, cards[:1], HOST).token_s
    assert split.token_s < split_layers(MODEL, cards[1:], HOST).token_s
