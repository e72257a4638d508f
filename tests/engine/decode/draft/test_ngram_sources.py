"""Counts of earlier requests: kept, read again, and never in the way."""

import pytest

from engine.core.errors import ResourceError
from engine.decode.draft.ngram_sources import NgramSources

VOCABULARY = [f"token {i}" for i in range(50)]
TOKENS = [1, 2, 3, 9] * 6


def sources(path, vocabulary=VOCABULARY):
    return NgramSources(vocabulary, learned_path=path)


def learned(path):
    made = sources(path)
    drafter = made.drafter()
    drafter.append(TOKENS)
    made.learn(drafter)
    made.save()


def drafted(made):
    drafter = made.drafter()
    drafter.append([7, 1, 2, 3])
    return drafter.draft(2)


def test_what_a_request_held_is_drafted_for_the_next_and_after_a_restart(tmp_path):
    path = tmp_path / "ordner ü" / "counts"
    learned(path)
    assert drafted(sources(path))[:1] == [9]


def test_nothing_is_learned_or_written_without_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = NgramSources(VOCABULARY)
    drafter = made.drafter()
    drafter.append(TOKENS)
    made.learn(drafter)
    made.save()
    assert drafted(made) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "newer", "other"])
def test_counts_that_cannot_be_used_are_said_and_begin_anew(tmp_path, damage, caplog):
    path = tmp_path / "counts"
    learned(path)
    content = bytearray(path.read_bytes())
    vocabulary = VOCABULARY
    if damage == "cut":
        content = content[:-5]
    elif damage == "flipped":
        content[-3] ^= 4
    elif damage == "empty":
        content = bytearray()
    elif damage == "newer":
        content[9] = 2
    else:
        vocabulary = [*VOCABULARY[:-1], "another"]
    path.write_bytes(content)
    made = sources(path, vocabulary)
    assert "begin anew" in caplog.text
    assert drafted(made) == []


def test_a_failed_write_leaves_the_old_counts(tmp_path, monkeypatch):
    path = tmp_path / "counts"
    learned(path)
    old = path.read_bytes()
    made = sources(path)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ResourceError, match="former ones are kept"):
        made.save()
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["counts"]
