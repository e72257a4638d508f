"""What of a window becomes part of the answer."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from engine.core.errors import EngineError
from engine.decode.verify import verify
from engine.sequence.running_request import Chosen


@dataclass
class Scripted:
    """Chooses what stands in a script: at each call tokens, and a reason or None."""

    script: list[tuple[tuple[int, ...], str | None]]
    seen: list[int] = field(default_factory=list)  # rows, by their first logit

    def choose(self, logits):
        self.seen.append(int(logits[0]))
        if not self.script:
            raise EngineError("no number")
        tokens, reason = self.script.pop(0)
        return Chosen(tokens, (), reason)


def rows(num_drafts):
    return np.arange(num_drafts + 1, dtype=np.float32)[:, None] * np.ones((1, 4), np.float32)


def verified(script, drafts):
    request = Scripted(script)
    return verify(request, rows(len(drafts)), drafts), request.seen


def test_without_drafts_one_token_is_chosen():
    result, seen = verified([((5,), None)], [])
    assert (result.num_accepted, result.token_ids, seen) == (0, (5,), [0])


def test_right_drafts_are_accepted_and_one_more_token_comes_with_them():
    result, seen = verified([((5,), None), ((6,), None), ((7,), None)], [5, 6])
    assert (result.num_accepted, result.token_ids, seen) == (2, (5, 6, 7), [0, 1, 2])


def test_the_first_wrong_draft_ends_the_window_with_the_chosen_token():
    result, seen = verified([((5,), None), ((9,), None)], [5, 6, 7])
    assert (result.num_accepted, result.token_ids, seen) == (1, (5, 9), [0, 1])


def test_nothing_follows_the_end_of_an_answer_though_drafts_go_on():
    result, seen = verified([((5,), None), ((2,), "stop")], [5, 2, 7])
    assert (result.num_accepted, result.token_ids, result.reason) == (2, (5, 2), "stop")
    assert seen == [0, 1]


def test_forced_tokens_that_agree_with_drafts_are_accepted_too():
    result, seen = verified([((5, 6, 7), None), ((8,), None)], [5, 6, 7])
    assert (result.num_accepted, result.token_ids, seen) == (3, (5, 6, 7, 8), [0, 3])


def test_forced_tokens_that_differ_from_drafts_end_the_window():
    result, _ = verified([((5, 6, 9), None)], [5, 6, 7])
    assert (result.num_accepted, result.token_ids) == (2, (5, 6, 9))


def test_a_token_that_is_not_kept_accepts_nothing():
    result, _ = verified([((), None)], [5])
    assert (result.num_accepted, result.token_ids) == (0, ())


def test_a_fault_behind_accepted_drafts_leaves_the_last_one_to_be_computed_again():
    result, _ = verified([((5,), None), ((6,), None)], [5, 6])
    assert (result.num_accepted, result.token_ids, result.reason) == (1, (5, 6), None)


def test_a_fault_at_once_is_the_requests_fault():
    with pytest.raises(EngineError, match="no number"):
        verified([], [5])
