import numpy as np
import pytest

from engine.memory.expert_cache import ExpertCache, Swap, slots_for


def filled(num_experts, num_slots, counts=None) -> ExpertCache:
    cache = ExpertCache(num_experts, num_slots, counts)
    for swap in cache.first_fill():
        cache.admit(swap)
    return cache


def test_slots_are_filled_with_what_was_used_most():
    counts = [np.array([1, 9, 0, 5], np.float32), np.array([0, 0, 0, 1], np.float32)]
    cache = filled([4, 4], [2, 1], counts)
    assert cache.slot_of[0].tolist() == [-1, 0, -1, 1]
    assert cache.slot_of[1].tolist() == [-1, -1, -1, 0]


def test_an_expert_is_cached_only_when_its_copy_has_landed():
    cache = ExpertCache([4], [2])
    fills = cache.first_fill()
    assert cache.slot_of[0].tolist() == [-1] * 4
    cache.admit(fills[0])
    assert (cache.slot_of[0] >= 0).sum() == 1


def test_a_wanted_expert_takes_the_slot_of_one_that_is_not_and_evicts_it_at_once():
    cache = filled([4], [2])
    cache.note(0, np.array([[0, 3], [3, 0], [3, 2]], np.int32))
    (swap,) = cache.choose_swaps()
    assert swap == Swap(layer=0, slot=1, expert=3)
    assert cache.slot_of[0].tolist() == [0, -1, -1, -1]
    cache.admit(swap)
    assert cache.slot_of[0].tolist() == [0, -1, -1, 1]


def test_experts_that_are_wanted_alike_do_not_take_turns():
    cache = filled([4], [2])
    cache.note(0, np.array([0, 1, 2, 3, 2], np.int32))
    assert cache.choose_swaps() == []


def test_a_slot_on_its_way_is_neither_filled_twice_nor_evicted():
    cache = filled([6], [2])
    cache.note(0, np.array([4] * 9 + [5] * 9, np.int32))
    first = cache.choose_swaps(most=1)
    assert [swap.expert for swap in first] == [4]
    second = cache.choose_swaps()
    assert [swap.expert for swap in second] == [5]
    assert second[0].slot != first[0].slot
    assert cache.choose_swaps() == []


def test_at_most_so_many_swaps_are_chosen_and_those_that_gain_most():
    cache = filled([8, 8], [4, 4])
    cache.note(0, np.array([4, 4, 4], np.int32))
    cache.note(1, np.array([5] * 7 + [6] * 5, np.int32))
    assert [(s.layer, s.expert) for s in cache.choose_swaps(most=2)] == [(1, 5), (1, 6)]


def test_older_use_fades():
    cache = filled([3], [1])
    cache.note(0, np.array([1] * 20, np.int32))
    (swap,) = cache.choose_swaps()
    cache.admit(swap)
    for _ in range(60):
        cache.note(0, np.array([2], np.int32))
        for swap in cache.choose_swaps():
            cache.admit(swap)
    assert cache.slot_of[0].tolist() == [-1, -1, 0]


def test_hits_and_misses_are_counted():
    cache = filled([4], [2])
    cache.note(0, np.array([0, 1, 2, 3, 3], np.int32))
    assert (cache.hits, cache.misses) == (2, 3)


def test_a_layer_with_all_its_experts_is_whole():
    cache = filled([2, 2], [2, 1])
    assert cache.is_whole(0)
    assert not cache.is_whole(1)


@pytest.mark.parametrize("num_bytes", [0, 10, 55, 100, 1000])
def test_slots_never_take_more_than_there_is(num_bytes):
    counts = [np.array([5, 1, 1], np.float32), np.array([1, 1, 1], np.float32)]
    for known in (None, counts):
        slots = slots_for(num_bytes, [10, 20], [3, 3], known)
        assert slots[0] * 10 + slots[1] * 20 <= num_bytes
        assert all(0 <= n <= 3 for n in slots)
    assert slots_for(1000, [10, 20], [3, 3], counts) == [3, 3]


def test_memory_goes_to_the_layer_whose_experts_are_used_most_for_their_size():
    counts = [np.array([9, 1, 0], np.float32), np.array([4, 3, 3], np.float32)]
    assert slots_for(20, [10, 10], [3, 3], counts) == [1, 1]
    assert slots_for(20, [10, 20], [3, 3], counts) == [2, 0]


def test_more_slots_than_experts_are_refused():
    with pytest.raises(ValueError, match="more slots"):
        ExpertCache([2], [3])
