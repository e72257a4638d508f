"""An answer of 60,000 tokens: the main thread does little at a time, and memory and file stay small."""

import time

import psutil
import pytest

from app.history.records import MessageState

NUM_TOKENS = 60_000
# The bundled tokenizer makes four tokens of each.
PIECES = [f" {number % 997}" for number in range(NUM_TOKENS // 3)]

# The main thread's own work between two turns of the event loop; other programs do not count.
MOST_AT_ONCE_S = 0.5  # of this thread alone; generous, since processors differ
MOST_GROWTH_BYTES = 100 << 20


@pytest.fixture(scope="module")
def server(start_server):
    # A text that the bundled tokenizer splits in many tokens.
    text = "</think>\n\n" + "".join(PIECES)
    script = {"answers": [{"text": text, "group": 4, "times": 0}], "context": 400_000}
    return start_server(script, "--context", "400000")


@pytest.mark.slow
def test_a_very_long_answer_holds_nothing_up(chats, tmp_path):
    controller = chats.new()
    ticks = []
    real = controller._tick

    def timed_tick():
        began_s = time.thread_time()
        real()
        ticks.append(time.thread_time() - began_s)

    controller._timer.timeout.disconnect()
    controller._timer.timeout.connect(timed_tick)
    chats.ask(controller, "warm up")
    ticks.clear()
    before = psutil.Process().memory_info().rss
    answer = chats.ask(controller, "Write a lot")
    growth = psutil.Process().memory_info().rss - before
    assert answer.state is MessageState.COMPLETE
    assert answer.text == "".join(PIECES)
    assert answer.stats.generated_tokens >= NUM_TOKENS
    assert controller.heard["text"].endswith(answer.text)
    assert max(ticks) < MOST_AT_ONCE_S
    assert len(ticks) > 10
    assert growth < MOST_GROWTH_BYTES
    assert chats.service._store.flush()
    store = chats.service._store
    assert store._database._writer.execute("SELECT count(*) FROM pieces").fetchone() == (0,)
    # Linear: the text in the message, in the index, and what the parts left free.
    assert store.path.stat().st_size < 20 * len(answer.text) + (4 << 20)
