"""With the bundled model itself: questions, thinking levels, continuing."""

import pytest

from app.history.records import MessageState
from engine.core.config import Effort


@pytest.fixture(scope="module")
def server(start_server):
    return start_server()


def test_the_bundled_model_answers(chats):
    controller = chats.new()
    answer = chats.ask(controller, "What is the capital of France?")
    assert answer.state is MessageState.COMPLETE
    assert answer.text
    assert answer.stats.generated_per_s > 0
    second = chats.ask(controller, "And of Italy?")
    assert second.stats.cached_tokens > 0
    assert chats.service.facts.is_known


def test_a_cut_answer_of_the_model_is_continued(chats):
    controller = chats.new(effort=Effort.NONE, max_tokens=2)
    answer = chats.ask(controller, "Count from one to ten in words.")
    assert answer.state is MessageState.CUT
    assert controller.continue_answer(answer.id)
    longer = chats.wait_idle(controller)
    assert longer.text.startswith(answer.text)
    assert len(longer.text) > len(answer.text)
    assert longer.stats.generated_tokens > answer.stats.generated_tokens
