"""Reading WordNet's files, on a dictionary of a few words."""

from pathlib import Path

import pytest

from tools.train_tiny.wordnet import Meaning, read_meanings

DATA_NOUN = """\
  1 This line is part of a licence text and no synset.
00000100 03 n 02 dog 0 domestic_dog 0 001 @ 00000200 n 0000 | a member of the genus Canis; "the dog barked all night"
00000200 03 n 01 canine 0 000 | any of various mammals with claws
00000300 03 n 01 Rome 0 000 | capital of Italy and its largest city
00000400 03 n 01 cad 0 000 | an offensive name for a man
"""
INDEX_NOUN = """\
  1 This line is part of a licence text.
dog n 1 1 @ 1 1 00000100
canine n 1 0 1 0 00000200
rome n 1 0 1 1 00000300
cad n 1 0 1 1 00000400
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"data.{part}").write_text(DATA_NOUN if part == "noun" else "")
        (tmp_path / f"index.{part}").write_text(INDEX_NOUN if part == "noun" else "")
    (tmp_path / "cntlist.rev").write_text("dog%1:05:00:: 1 42\n")
    return tmp_path


def _meanings(folder: Path) -> dict[str, Meaning]:
    return {m.word: m for m in read_meanings(folder)}


def test_a_word_comes_with_gloss_example_synonym_and_kind(folder: Path) -> None:
    dog = _meanings(folder)["dog"]
    assert dog == Meaning(
        word="dog",
        part="noun",
        gloss="a member of the genus Canis",
        examples=("the dog barked all night",),
        synonyms=("domestic dog",),
        kind_of="canine",
        count=42,
    )


def test_a_word_that_no_tagged_text_holds_is_not_usual(folder: Path) -> None:
    assert not _meanings(folder)["canine"].is_usual


def test_names_and_offensive_words_are_left_out(folder: Path) -> None:
    assert set(_meanings(folder)) == {"dog", "canine"}


def test_long_glosses_are_left_out(folder: Path) -> None:
    assert {m.word for m in read_meanings(folder, max_gloss_chars=30)} == {"dog"}
