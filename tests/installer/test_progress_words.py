"""Progress in words: the bar is honest, and every phase has its sentence."""

from __future__ import annotations

import pytest

from engine.core.language import Language
from installer.download.progress import DownloadProgress, Phase
from installer.i18n.texts import Texts
from installer.progress_words import progress_words


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("phase", Phase)
def test_every_phase_has_a_sentence(language, phase):
    words = progress_words(DownloadProgress(phase, file="a.gguf"), Texts(language))
    assert words.what
    assert "{" not in words.what


def test_the_bar_shows_bytes_that_arrived_and_nothing_else():
    progress = DownloadProgress(Phase.VERIFYING, "a.gguf", 9, 10, bytes_done=250, bytes_total=1000)
    words = progress_words(progress, Texts(Language.ENGLISH))
    assert words.share == 0.25
    assert words.figures == "250 B of 1 KB · 90 %"


def test_speed_and_time_are_said_only_while_bytes_arrive():
    texts = Texts(Language.ENGLISH)
    running = DownloadProgress(
        Phase.DOWNLOADING, "a", 0, 0, 10**9, 4 * 10**9, bytes_per_s=5e7, eta_s=60.0
    )
    assert progress_words(running, texts).figures == "1 GB of 4 GB · 50 MB/s · about 1 min left"
    paused = DownloadProgress(Phase.PAUSED, "a", 0, 0, 10**9, 4 * 10**9, eta_s=60.0)
    assert progress_words(paused, texts).figures == "1 GB of 4 GB"


def test_a_wait_says_why_and_how_long():
    waiting = DownloadProgress(
        Phase.WAITING, wait_s=8.2, reason="hub_busy", attempt=2, max_attempts=12
    )
    said = progress_words(waiting, Texts(Language.ENGLISH)).what
    assert said == "The server asks us to wait. Next try in 8 s (2 of 12)."


def test_an_unknown_reason_to_wait_is_said_in_general():
    waiting = DownloadProgress(Phase.WAITING, wait_s=1, reason="of_a_later_version", attempt=1)
    assert "Something went wrong" in progress_words(waiting, Texts(Language.ENGLISH)).what


def test_where_nothing_is_fetched_the_file_that_is_read_moves_the_bar():
    progress = DownloadProgress(Phase.CHECKING, "a.gguf", 3, 4)
    assert progress_words(progress, Texts(Language.ENGLISH)).share == 0.75


def test_before_anything_is_known_the_bar_only_moves():
    assert progress_words(DownloadProgress(Phase.LISTING), Texts(Language.ENGLISH)).share is None
