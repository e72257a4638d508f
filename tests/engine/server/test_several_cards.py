"""The real server on emulated cards: two of unequal size answer as one does."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.slow

CARDS = {"STRATUM_EMULATED_CARDS": "1500,1200"}  # MiB
FLAGS = ("--ops", "cuda", "--vram-reserve-mib", "0", "--context", "512", "--prompt-chunk", "64")


def test_two_cards_of_unequal_size_answer_as_one_does(start_server):
    answers = []
    for gpus, build in (("0", "(cuda sm_89)"), ("0,1", "(cuda sm_89 on 2 cards)")):
        server = start_server(None, *FLAGS, "--gpus", gpus, environment=CARDS)
        reply = server.chat(
            "Define: river", temperature=0, max_tokens=4, reasoning_effort="none"
        ).json()
        answers.append((reply["choices"][0]["message"]["content"], reply["usage"]))
        assert build in server.http.get("/props").json()["build_info"]
        log = server.log()
        server.stop()
    assert answers[0][0]
    assert answers[1] == answers[0]
    shares = re.findall(r"Graphics card (\d) \(Emulated card \d\): layers? (\d.*?),", log)
    assert {number for number, _ in shares} == {"0", "1"}
    assert shares[0][1].startswith("0")
    assert shares[1][1].endswith("3")


def test_a_card_that_is_not_there_ends_the_loading_with_a_sentence(start_server):
    server = start_server(None, *FLAGS, "--gpus", "0,2", environment=CARDS, wait=False)
    reply = server.chat("hello")
    assert reply.status_code == 503
    assert "The setting gpus names the card 2, which this PC does not have" in reply.text
    assert "0 is Emulated card 0" in reply.text
