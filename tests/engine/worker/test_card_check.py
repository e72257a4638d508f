"""The check of a card in a process of its own: passed, wrong, hanging, crashing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from engine.core.emulated_cards import EMULATED_DRIVER, EMULATED_VARIABLE
from engine.core.gpu import Gpu, probe_gpus
from engine.worker.card_check import TimeLimits, check_card, child_command
from engine.worker.card_model_check import MOST_KL, mean_kl

CARD = Gpu(0, "RTX 5070", 12 << 30, 11 << 30, (12, 0))
SHORT = TimeLimits(silence_s=1.0, total_s=60.0)


def child(code: str) -> list[str]:
    """A process that runs this code in the place of the check."""
    return [sys.executable, "-c", code]


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    monkeypatch.setenv(EMULATED_VARIABLE, "1000")
    (card,) = probe_gpus().cards
    return card


def test_a_card_that_computes_rightly_passes_and_says_how_far_it_is(emulated: Gpu) -> None:
    steps: list[tuple[int, int]] = []
    record = check_card(emulated, EMULATED_DRIVER, lambda done, total: steps.append((done, total)))
    assert (record.sentence, record.is_passed, record.code) == ("", True, "")
    assert record.num_checks > 50
    assert steps[-1] == (100, 100)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


WRONG_OPERATION = """
import numpy as np, sys
from engine.ops import self_test_card
from engine.ops.check_cases import RowsCase
from engine.ops.cuda import CudaOps
right = CudaOps.rms_norm
def norm(self, x, weight, eps, out):
    right(self, x, weight, eps, out)
    self.synchronize()
    out[...] = out.numpy() * np.float32(1.001)
CudaOps.rms_norm = norm
self_test_card.small_cases = lambda: [RowsCase("rms_norm", 9), RowsCase("fill_streams", 9)]
from engine.worker.card_check_child import main
sys.exit(main(["--index", "0"]))
"""

# Every operation passes alone, but in answers something is wrong: the experts add nothing.
WRONG_MODEL = """
import sys
from engine.ops import self_test_card
from engine.ops.check_cases import RowsCase
from engine.ops.cuda import CudaOps
self_test_card.small_cases = lambda: [RowsCase("fill_streams", 9)]
CudaOps.moe = lambda *arguments: None
from engine.worker.card_check_child import main
sys.exit(main(["--index", "0"]))
"""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (WRONG_OPERATION, ("1 of 3 checks", "rms_norm 9")),
        (WRONG_MODEL, ("1 of 3 checks", "the bundled model")),
    ],
)
def test_a_card_that_computes_wrongly_is_told_with_what_failed_and_the_way_out(
    emulated: Gpu, code: str, words: tuple[str, ...]
) -> None:
    record = check_card(emulated, EMULATED_DRIVER, command=child(code))
    assert (record.is_passed, record.code) == (False, "card_wrong")
    for word in (*words, "Emulated card 0", "engine doctor", "driver"):
        assert word in record.sentence


def test_a_card_without_room_is_told_in_its_own_words_and_not_for_ever(
    emulated: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EMULATED_VARIABLE, "1")
    record = check_card(emulated, EMULATED_DRIVER)
    assert (record.is_passed, record.code) == (False, "gpu_out_of_memory")
    assert record.sentence.startswith("Emulated card 0 is not used: ")
    assert not record.is_lasting


def test_a_check_that_hangs_is_ended_after_its_silence(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    code = (
        f"import os, time; open({str(place)!r}, 'w').write(str(os.getpid())); print('{{}}', flush=True); "
        "time.sleep(600)"
    )
    record = check_card(CARD, "580", limits=SHORT, command=child(code))
    assert (record.is_passed, record.code) == (False, "card_hangs")
    assert "RTX 5070 is not used: its check got no answer for 1 seconds" in record.sentence
    assert record.is_lasting
    assert not psutil.pid_exists(int(place.read_text()))


def test_a_check_that_never_comes_to_its_end_is_ended_too() -> None:
    code = (
        'import time\nwhile True: print(\'{"done": 1, "total": 2}\', flush=True); time.sleep(0.05)'
    )
    limits = TimeLimits(silence_s=60.0, total_s=1.0)
    record = check_card(CARD, "580", limits=limits, command=child(code))
    assert (record.is_passed, record.code) == (False, "card_hangs")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os; os.abort()", "its check crashed" if sys.platform != "win32" else "its check"),
        ("import sys; sys.exit(3)", "its check ended unexpectedly with exit status 3"),
        ("print('no word of ours')", "its check ended unexpectedly with exit status 0"),
    ],
)
def test_a_check_that_crashes_takes_nothing_with_it(code: str, words: str) -> None:
    record = check_card(CARD, "580", command=child(code))
    assert (record.is_passed, record.code) == (False, "card_check_ended")
    assert words in record.sentence
    assert record.is_lasting


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_a_check_that_was_killed_says_nothing_of_the_card_for_the_next_start(name: str) -> None:
    record = check_card(
        CARD, "580", command=child(f"import os, signal; os.kill(os.getpid(), signal.{name})")
    )
    assert (record.is_passed, record.code) == (False, "card_check_killed")
    assert "close other programs, and the next start checks it again" in record.sentence
    assert not record.is_lasting


def test_a_check_that_cannot_be_started_is_a_failed_one() -> None:
    record = check_card(CARD, "580", command=["/no/such/program"])
    assert (record.is_passed, record.code) == (False, "card_check_ended")
    assert "could not be started" in record.sentence


def test_the_process_that_checks_ends_with_the_one_that_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(EMULATED_VARIABLE, "1000")
    process = subprocess.Popen(
        child_command(CARD), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()  # it is at work
    process.stdin.close()
    begin = time.monotonic()
    assert process.wait(timeout=60) != 0
    assert '"passed"' not in process.stdout.read(), f"{time.monotonic() - begin}"
    process.stdout.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there it has no console that Ctrl+C reaches")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_ctrl_c_which_reaches_the_check_too_is_no_failure_of_the_card(
    emulated: Gpu, name: str
) -> None:
    def interrupt(done: int, _total: int) -> None:
        if not sent:
            sent.append(done)
            children = psutil.Process().children()  # other tests' programs may be among them
            (process,) = [one for one in children if "card_check_child" in " ".join(one.cmdline())]
            process.send_signal(getattr(signal, name))

    sent: list[int] = []
    record = check_card(emulated, EMULATED_DRIVER, interrupt)
    assert sent
    assert (record.sentence, record.is_passed) == ("", True)


def test_distributions_that_differ_are_noticed_and_no_number_is_no_agreement() -> None:
    right = np.log(np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], np.float32))
    assert mean_kl(right, right + 3) == pytest.approx(0, abs=1e-6)
    assert mean_kl(right, right[::-1]) > MOST_KL
    assert not mean_kl(right, np.full_like(right, np.nan)) <= MOST_KL
