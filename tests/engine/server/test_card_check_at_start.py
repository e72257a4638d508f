"""The real server with `ops` = `auto` and a card: checked at the first start, remembered after it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.core.card_record import CardRecord, keep_record, read_records, record_key
from engine.core.config import BUNDLED_MODEL
from engine.core.emulated_cards import EMULATED_DRIVER, EMULATED_VARIABLE
from engine.core.gguf_header import read_model_header
from engine.core.gpu import probe_gpus
from engine.text.tokenizer import Tokenizer
from engine.worker.client import REPOSITORY
from tests.engine.server.conftest import PATIENCE_S

pytestmark = pytest.mark.slow

MIB = "1500"
FLAGS = ("--vram-reserve-mib", "0", "--context", "512", "--prompt-chunk", "64")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {EMULATED_VARIABLE: MIB, "STRATUM_HOME": str(tmp_path)}


def status_and_answer(server) -> tuple[dict[str, object], str]:
    reply = server.chat("Define: river", temperature=0, max_tokens=8, reasoning_effort="none")
    answer = json.dumps(reply.json()["choices"])
    return server.http.get("/status").json(), answer


def test_a_card_is_checked_at_the_first_start_and_used_from_then_on(
    start_server, environment, tmp_path
):
    answers = []
    for times in (1, 0):
        server = start_server(None, *FLAGS, environment=environment)
        status, answer = status_and_answer(server)
        assert status["ops"] == "cuda sm_89"
        assert status["card_notice"] is None
        assert server.http.get("/props").json()["card_notice"] is None
        assert server.log().count("checking the graphics card") == times
        answers.append(answer)
        server.stop()
    (record,) = read_records(tmp_path / "data")
    assert (record.is_passed, record.card) == (True, "Emulated card 0")
    server = start_server(None, *FLAGS, "--ops", "host", environment=environment)
    assert status_and_answer(server)[1] == answers[0] == answers[1]


def test_a_card_that_failed_leaves_the_work_to_the_processor_and_the_status_says_why(
    start_server, environment, tmp_path, monkeypatch
):
    monkeypatch.setenv(EMULATED_VARIABLE, MIB)
    (card,) = probe_gpus().cards
    sentence = f"{card.name} is not used: its check got no answer for 120 seconds; restart the PC."
    keep_record(
        tmp_path / "data",
        CardRecord(
            key=record_key(card, EMULATED_DRIVER),
            card=card.name,
            is_passed=False,
            code="card_hangs",
            sentence=sentence,
        ),
    )
    server = start_server(None, *FLAGS, environment=environment)
    status, answer = status_and_answer(server)
    assert status["ops"].startswith("host ")
    assert status["card_notice"] == sentence
    assert server.http.get("/props").json()["card_notice"] == sentence
    assert sentence in server.log()
    assert answer


def test_a_card_that_failed_is_used_when_it_is_asked_for_by_name(
    start_server, environment, tmp_path, monkeypatch
):
    monkeypatch.setenv(EMULATED_VARIABLE, MIB)
    (card,) = probe_gpus().cards
    record = CardRecord(
        key=record_key(card, EMULATED_DRIVER),
        card=card.name,
        is_passed=False,
        sentence="It failed.",
    )
    keep_record(tmp_path / "data", record)
    server = start_server(None, *FLAGS, "--ops", "cuda", environment=environment)
    status, _ = status_and_answer(server)
    assert status["ops"] == "cuda sm_89"
    assert "is used because it was asked for by name, though its check failed" in server.log()


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_a_card_on_which_the_worker_crashes_twice_is_left_out_until_it_is_checked_again(
    start_server, environment, tmp_path, monkeypatch
):
    monkeypatch.setenv(EMULATED_VARIABLE, MIB)
    (card,) = probe_gpus().cards
    key = record_key(card, EMULATED_DRIVER)
    keep_record(tmp_path / "data", CardRecord(key=key, card=card.name, is_passed=True))
    server = start_server(None, *FLAGS, environment=environment)
    eos_ids = Tokenizer.from_metadata(read_model_header(BUNDLED_MODEL).metadata).eos_ids
    never_ends = {str(token_id): -100 for token_id in eos_ids}
    front = psutil.Process(server.process.pid)
    for _ in range(2):
        server.wait_for(lambda status: status["ops"] == "cuda sm_89")
        server.raw_chat("Tell me a story.", stream=True, logit_bias=never_ends)
        server.wait_for(lambda status: (status["running"] or {}).get("generated", 0) > 1)
        (worker,) = front.children()
        worker.send_signal(signal.SIGSEGV)
        server.wait_for(lambda _, old=worker: front.children() not in ([], [old]))
    server.wait_for(lambda status: status["ops"])
    status, answer = status_and_answer(server)
    assert status["ops"].startswith("host ")
    assert status["card_notice"].startswith(
        "Emulated card 0 is not used: the model process ended unexpectedly 2 times within 10 minutes"
    )
    assert answer
    server.stop()
    checked = subprocess.run(
        [sys.executable, "-m", "engine", "card-check"],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert "agree with the reference" in checked.stdout
    (record,) = read_records(tmp_path / "data")
    assert record.is_passed
