"""Texts: both languages have all keys with the same values, and every code has its sentence."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

import installer
from engine.core.errors import EngineError
from engine.core.language import Language, language_of, system_language
from engine.core.note import Note
from installer.download.plan import NOTICE_CODES
from installer.errors import DOWNLOAD_ERROR_CODES
from installer.i18n.texts import TABLES, Texts

ROOT = Path(installer.__file__).parent
ENGLISH, CHINESE = TABLES[Language.ENGLISH], TABLES[Language.CHINESE]


def fields(text: str) -> set[tuple[str, str]]:
    """Names and forms of a text's placeholders."""
    parsed = string.Formatter().parse(text)
    return {(name, spec or "") for _text, name, spec, _conversion in parsed if name is not None}


def sources() -> Iterator[tuple[Path, str]]:
    for path in ROOT.rglob("*.py"):
        if "i18n" not in path.parts:
            yield path, path.read_text("utf-8")


def test_both_languages_have_the_same_keys():
    # An error's English sentence is the error's own, built where its cause is known.
    english = {key for key in ENGLISH if not key.startswith("error.")}
    chinese = {key for key in CHINESE if not key.startswith("error.")}
    assert english == chinese


@pytest.mark.parametrize("key", sorted(set(ENGLISH) & set(CHINESE)))
def test_a_text_has_the_same_values_in_both_languages(key):
    assert fields(ENGLISH[key]) == fields(CHINESE[key])


@pytest.mark.parametrize("code", DOWNLOAD_ERROR_CODES)
def test_every_error_of_a_download_can_be_said_in_chinese(code):
    names = {name for name, _form in fields(CHINESE[f"error.{code}"])}
    assert names <= set(DOWNLOAD_ERROR_CODES[code])


@pytest.mark.parametrize("code", NOTICE_CODES)
@pytest.mark.parametrize("language", Language)
def test_every_notice_of_a_plan_can_be_said(code, language):
    names = {name for name, _form in fields(TABLES[language][f"note.{code}"])}
    assert names <= set(NOTICE_CODES[code])


def test_every_note_that_the_installer_makes_can_be_said():
    core = ROOT.parent / "engine" / "core"
    files = [*ROOT.glob("*.py"), *core.glob("*.py")]
    used = {
        code
        for path in files
        if path.name != "note.py"
        for code in re.findall(r'Note\(\s*"(\w+)"', path.read_text("utf-8"))
    }
    assert len(used) > 30
    assert {f"note.{code}" for code in used} <= set(ENGLISH)


def test_every_key_that_a_page_names_exists():
    missing = []
    for path, text in sources():
        step = f"{path.stem}." if path.parent.name == "pages" else ""
        named = re.findall(r'(?:texts\.say|_say)\(\s*"([a-z_]+\.[a-z_]+)"', text)
        if step:
            named += [step + key for key in re.findall(r'self\.say\(\s*"([a-z_]+)"', text)]
        missing += [(path.name, key) for key in named if key not in ENGLISH]
    assert missing == []


def test_shortcut_letters_of_a_page_do_not_collide():
    """Letters after & within one page, with the window's own Next, Back and Details."""
    for table in (ENGLISH, CHINESE):
        common = {"button.next", "button.back"}
        for step in ("welcome", "pc", "licence", "done"):
            letters = [
                found[1].lower()
                for key, text in table.items()
                if (key in common or key.startswith(f"{step}."))
                and (found := re.search(r"&(\w)", text)) is not None
            ]
            assert len(letters) == len(set(letters)), (step, letters)


@pytest.mark.parametrize(
    ("num_bytes", "size", "memory"),
    [
        (0, "0 B", "0 B"),
        (999, "999 B", "999 B"),
        (1536, "1.5 KB", "1.5 KB"),
        (66_400_000_000, "66.4 GB", "61.8 GB"),
        (64 << 30, "68.7 GB", "64 GB"),
        (2_000_000_000_000, "2,000 GB", "1,863 GB"),
    ],
)
def test_sizes_are_said_as_drives_and_memory_are_sold(num_bytes, size, memory):
    texts = Texts(Language.ENGLISH)
    assert texts.size(num_bytes) == size
    assert texts.memory(num_bytes) == memory


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (59, "59 s"), (61, "1 min"), (7260, "2 h 1 min")]
)
def test_durations_are_rounded_for_people(seconds, words):
    assert Texts(Language.ENGLISH).duration(seconds) == words


def test_an_error_without_a_chinese_sentence_is_said_with_its_own():
    error = EngineError("Something is odd.", code="of_a_later_version")
    assert Texts(Language.CHINESE).error(error) == "Something is odd."


def test_an_error_whose_values_do_not_fit_is_said_with_its_own_sentence(caplog):
    error = EngineError("The drive is short.", code="disk_short", params={"path": "/x"})
    assert Texts(Language.CHINESE).error(error) == "The drive is short."
    assert "does not fit its values" in caplog.text


def test_an_error_is_said_in_chinese_with_its_values():
    error = EngineError(
        "...",
        code="disk_short",
        params={
            "path": "D:\\模型",
            "free_bytes": 41_000_000_000,
            "needed_bytes": 63_000_000_000,
            "missing_bytes": 22_000_000_000,
        },
    )
    said = Texts(Language.CHINESE).error(error)
    assert "D:\\模型" in said
    assert "22 GB" in said


def test_a_note_without_a_sentence_shows_its_code():
    assert Texts(Language.ENGLISH).note(Note("of_a_later_version")) == "of_a_later_version"


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("zh_CN.UTF-8", Language.CHINESE),
        ("zh-Hant-TW", Language.CHINESE),
        ("de_DE.UTF-8", Language.ENGLISH),
        ("C", Language.ENGLISH),
        ("", Language.ENGLISH),
    ],
)
def test_a_locale_gets_the_language_that_its_people_read(tag, language):
    assert language_of(tag) is language


@pytest.mark.skipif("sys.platform == 'win32'", reason="Windows asks the system itself")
def test_the_first_variable_that_is_set_decides_the_language():
    assert system_language({"LANG": "zh_CN.UTF-8"}) is Language.CHINESE
    assert system_language({"LANG": "zh_CN", "LC_ALL": "en_US"}) is Language.ENGLISH
    assert system_language({"LANGUAGE": "zh:en", "LANG": "en_US"}) is Language.CHINESE
    assert system_language({}) is Language.ENGLISH
