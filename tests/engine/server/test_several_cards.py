"""The real server on emulated cards: two of unequal size answer as one does."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from engine.worker.client import REPOSITORY
from tests.engine.server.conftest import PATIENCE_S

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


def test_a_card_that_is_not_there_ends_the_start_with_a_sentence(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "engine", "serve", "--port", "0", *FLAGS, "--gpus", "0,2"],
        cwd=REPOSITORY,
        env={**os.environ, "STRATUM_HOME": str(tmp_path), **CARDS},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "The setting gpus names the card 2, which this PC does not have" in ended.stderr
    assert "0 is Emulated card 0" in ended.stderr
