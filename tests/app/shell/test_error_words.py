"""Errors are said in the person's language by their code, and never worse than in English."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.error_words import error_words
from app.i18n.translate import Translations
from engine.core.errors import EngineError, ResourceError
from engine.core.language import Language

FULL = ResourceError(
    "/data/x cannot be written (No space left). Free some space.",
    code="file_not_writable",
    params={"path": "/data/x"},
)


@pytest.fixture
def translations(qapp) -> Iterator[Translations]:
    made = Translations()
    yield made
    made.speak(Language.ENGLISH)


def test_english_is_the_errors_own_sentence(translations):
    translations.speak(Language.ENGLISH)
    assert error_words(FULL) == FULL.message


def test_chinese_is_found_by_the_code(translations):
    translations.speak(Language.CHINESE)
    assert error_words(FULL).startswith("无法写入 /data/x。")


@pytest.mark.parametrize(
    "error",
    [
        EngineError("Something new.", code="of_a_later_version"),
        EngineError("A folder is full.", code="file_not_writable"),  # without the values
    ],
)
def test_what_has_no_sentence_is_said_in_english(translations, error):
    translations.speak(Language.CHINESE)
    assert error_words(error) == error.message
