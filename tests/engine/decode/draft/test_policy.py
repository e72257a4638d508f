"""When drafts pay."""

import pytest

from engine.decode.draft.costs import ModelBytes, PassCosts
from engine.decode.draft.policy import (
    EXPLORE_EVERY,
    EXPLORED,
    HEAD_IDLE,
    HEAD_TRIAL,
    HEAD_TRIED_EVERY,
    LONG_BLOCK,
    SHORT_BLOCK,
    Counts,
    DraftPolicy,
    expected_tokens,
)

DENSE = ModelBytes(dense=1e9, experts=0.0, num_experts=0, num_used=0)
# Nearly all bytes are experts', of which a window of n rows touches n times as many.
SPARSE = ModelBytes(dense=0.05e9, experts=1e9, num_experts=512, num_used=10)


def policy(model=DENSE, times=()):
    costs = PassCosts(model)
    for num_rows, seconds in times:
        measured(costs, num_rows, seconds)
    return DraftPolicy(costs)


def measured(costs, num_rows, seconds):
    """Twice: the first pass of a kind prepares what the others use."""
    costs.note(num_rows, 100 * seconds)
    costs.note(num_rows, seconds)


def measured_head(shared, seconds):
    """Twice, for the same reason."""
    shared.note_head(1, 100 * seconds)
    shared.note_head(1, seconds)


def trained(request, num_matched, share, windows=200, drafts=4):
    right = 0.0
    for _ in range(windows):
        right += share * drafts
        request.note_lookup(num_matched, drafts, min(drafts, int(right)))
        right -= min(drafts, int(right))
    return request


def test_experts_of_a_window_are_counted_once_each():
    assert SPARSE.touched(1) == pytest.approx(1.05e9)
    assert SPARSE.touched(4) == pytest.approx(0.05e9 + 1e9 * 3.88, rel=0.01)
    assert DENSE.touched(16) == DENSE.touched(1)


def test_measured_times_replace_what_was_foreseen_and_scale_what_lies_between():
    costs = PassCosts(DENSE)
    measured(costs, 1, 0.010)
    assert costs.of(4) == pytest.approx(0.010 * (1 + 0.05 * 3))
    measured(costs, 8, 0.040)
    assert costs.of(8) == pytest.approx(0.040)
    assert costs.of(1) == pytest.approx(0.010)
    assert 0.010 < costs.of(4) < 0.040


def test_a_single_slow_pass_does_not_turn_drafts_off():
    costs = PassCosts(DENSE)
    for _ in range(10):
        costs.note(5, 0.010)
    costs.note(5, 10.0)
    assert costs.of(5) < 0.015


def test_long_matches_are_drafted_at_once_where_rows_are_cheap():
    assert policy().for_request().lookup_length(12, 15) == SHORT_BLOCK


def test_blocks_grow_after_two_full_ones_and_shrink_again_three_windows_after_a_wrong_draft():
    request = policy().for_request()
    request.note_lookup(12, 5, 5)
    assert request.lookup_length(12, 15) == SHORT_BLOCK
    request.note_lookup(12, 5, 5)
    lengths = []
    for _ in range(4):
        lengths.append(request.lookup_length(12, 15))
        request.note_lookup(12, 15, 14)
    assert lengths == [LONG_BLOCK, LONG_BLOCK, LONG_BLOCK, SHORT_BLOCK]


def test_drafts_that_are_wrong_are_given_up_and_tried_again_now_and_then():
    request = trained(policy(times=[(1, 0.010), (3, 0.013)]).for_request(), 4, 0.0)
    lengths = [request.lookup_length(4, 15) for _ in range(3 * EXPLORE_EVERY)]
    assert sum(length > 0 for length in lengths) == 3
    assert max(lengths) == 2


def test_what_was_learned_from_one_request_serves_the_next():
    shared = policy()
    trained(shared.for_request(), 4, 0.0)
    assert shared.for_request().lookup_length(4, 15) == 0


def test_where_rows_are_dear_only_sure_matches_are_drafted():
    request = policy(SPARSE).for_request()
    assert request.lookup_length(4, 15) == 0
    good = trained(policy(SPARSE).for_request(), 12, 0.9)
    assert good.lookup_length(12, 15) == 0  # 16 rows cost 14 times one
    half_dense = ModelBytes(1e9, 1e9, 512, 10)
    assert trained(policy(half_dense).for_request(), 12, 1.0).lookup_length(12, 15) > 0


def test_the_head_drafts_no_longer_than_its_drafts_are_worth():
    shared = policy(times=[(1, 0.010), (2, 0.011), (3, 0.012), (4, 0.013)])
    measured_head(shared, 0.001)
    assert shared.for_request().head_length(3) == 2
    dear = policy(times=[(1, 0.010), (2, 0.018), (3, 0.026), (4, 0.034)])
    measured_head(dear, 0.001)
    assert dear.for_request().head_length(3) == 0


def test_requests_that_share_the_heads_passes_share_their_time():
    """Four together gain four times what one does, and the head computes for all of them at once."""
    times = [(4, 0.020), (5, 0.021), (6, 0.022), (7, 0.023), (8, 0.024)]
    shared = policy(times=[(1, 0.010), (2, 0.011), (3, 0.012), *times])
    measured_head(shared, 0.006)
    assert shared.for_request().head_length(3) == 0
    assert shared.for_request().head_length(3, other_rows=3, num_sharing=1) == 0
    assert shared.for_request().head_length(3, other_rows=3, num_sharing=4) > 0


def test_a_step_without_drafts_is_known_by_that_of_several_requests_too():
    costs = PassCosts(DENSE)
    for _ in range(2):  # the first of its kind does not count
        costs.note(6, 0.012, 3)
    assert not costs.is_known  # with drafts, or tokens that were given
    for _ in range(2):
        costs.note(3, 0.010, 3)
    assert costs.is_known


def test_a_time_of_nothing_is_not_believed():
    """Else all that is compared with it would be divided by zero."""
    costs = PassCosts(DENSE)
    for seconds in (0.010, 0.0, -0.010, 0.010, 0.0, -0.010):
        costs.note(1, seconds)
    assert costs.of(1) == pytest.approx(0.010)


def test_counts_forget():
    counts = Counts(memory=32)
    for _ in range(50):
        counts.note(4, 4)
    for _ in range(50):
        counts.note(4, 0)
    assert counts.right / counts.tried < 0.01


@pytest.mark.parametrize(("probability", "tokens"), [(0.0, 1.0), (1.0, 16.0), (0.5, 2.0)])
def test_tokens_of_a_window_are_a_geometric_sum(probability, tokens):
    assert expected_tokens(probability, 15) == pytest.approx(tokens, abs=1e-4)


def head_windows(request, count, right):
    """Windows of a request, with what the head should draft in each; it is right or never."""
    lengths = []
    for _ in range(count):
        length = request.head_length(3)
        lengths.append(length)
        if length:
            request.note_head(length, length if right else 0)
    return lengths


def test_a_head_that_does_not_pay_rests_soon_and_is_tried_again_briefly():
    shared = policy(times=[(1, 0.010), (2, 0.011), (3, 0.012), (4, 0.013)])
    measured_head(shared, 0.002)
    assert shared.for_request().begin_head(100)  # it may pay, nothing was counted yet
    while (request := shared.for_request()).begin_head(100):
        head_windows(request, 40, right=False)
        assert not request.uses_head
    shared.num_without_head = 0
    began = []
    for i in range(2 * HEAD_TRIED_EVERY):
        request = shared.for_request()
        if request.begin_head(100):
            began.append(i)
            assert head_windows(request, HEAD_TRIAL + HEAD_IDLE, right=False) == (
                [EXPLORED] * HEAD_TRIAL + [0] * HEAD_IDLE
            )
            assert not request.uses_head
    assert began == [HEAD_TRIED_EVERY - 1, 2 * HEAD_TRIED_EVERY - 1]


def test_a_head_that_pays_by_now_is_found_by_a_trial():
    shared = policy(times=[(1, 0.010), (2, 0.011), (3, 0.012), (4, 0.013)])
    measured_head(shared, 0.002)
    head_windows(shared.for_request(), 30, right=False)
    for _ in range(40 * HEAD_TRIED_EVERY):
        request = shared.for_request()
        if request.begin_head(100):
            head_windows(request, 40, right=True)
    assert shared.for_request().begin_head(100)
    assert shared.for_request().head_length(3) > 0


def test_a_long_prompt_is_not_read_by_the_head_for_a_trial():
    shared = policy(times=[(1, 0.010), (2, 0.018), (3, 0.026)])
    measured_head(shared, 0.02)
    assert not any(shared.for_request().begin_head(100_000) for _ in range(3 * HEAD_TRIED_EVERY))
