"""The file of a corpus: built, mapped, drafted from, refused when it does not fit."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from engine.core.errors import ResourceError
from engine.decode.draft.ngram import NgramDrafter
from engine.decode.draft.ngram_file import (
    HEADER_BYTES,
    LEAST_TOTAL,
    NgramFile,
    NgramFileError,
    build_ngram_file,
)

VOCABULARY = [f"token {i}" for i in range(200)]


@pytest.fixture(scope="module")
def corpus():
    draw = np.random.default_rng(4)
    # Zipf-like, so that pairs have one successor, some, and many.
    return np.minimum(draw.zipf(1.3, 30_000) - 1, len(VOCABULARY) - 1).astype(np.int32)


@pytest.fixture(scope="module")
def path(corpus, tmp_path_factory):
    path = tmp_path_factory.mktemp("ngrams") / "größe 中文.ngrams"
    build_ngram_file(corpus, VOCABULARY, path)
    return path


def test_drafts_are_the_sure_successors_of_pairs(corpus, path):
    followers = defaultdict(Counter)
    for a, b, c in zip(corpus[:-2], corpus[1:-1], corpus[2:], strict=True):
        followers[int(a), int(b)][int(c)] += 1
    num_sure = 0
    with NgramFile.open(path, VOCABULARY) as file:
        for (a, b), counts in followers.items():
            drafter = NgramDrafter(file=file, use_own=False)
            drafter.append([a, b])
            total, (token, top) = sum(counts.values()), counts.most_common(1)[0]
            is_sure = total >= LEAST_TOTAL and 100 * top >= 66 * total
            assert drafter.draft(1) == ([token] if is_sure else [])
            num_sure += is_sure
        assert num_sure > 50
        assert file.num_corpus_tokens == len(corpus)
        assert file.num_bytes == path.stat().st_size


def test_chunks_of_a_corpus_are_counted_together(corpus, path, tmp_path, monkeypatch):
    monkeypatch.setattr("engine.decode.draft.ngram_file.CHUNK_TOKENS", 1000)
    other = tmp_path / "other"
    build_ngram_file(corpus, VOCABULARY, other)
    assert other.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_a_corpus_of_next_to_nothing_makes_a_file_that_drafts_nothing(tmp_path, length):
    path = tmp_path / "small"
    build_ngram_file(np.arange(length, dtype=np.int32), VOCABULARY, path)
    with NgramFile.open(path, VOCABULARY) as file:
        drafter = NgramDrafter(file=file, use_own=False)
        drafter.append([0, 1])
        assert drafter.draft(3) == []


def refused(path, vocabulary=VOCABULARY):
    with pytest.raises(NgramFileError) as caught:
        NgramFile.open(path, vocabulary)
    return caught.value.message


def test_another_vocabulary_is_refused(path):
    assert "another vocabulary" in refused(path, [*VOCABULARY[:-1], "x"])
    assert "another vocabulary" in refused(path, VOCABULARY[:-1])


@pytest.mark.parametrize("kept", [0, 7, HEADER_BYTES - 1, HEADER_BYTES, 5000])
def test_a_truncated_file_is_refused(path, tmp_path, kept):
    cut = tmp_path / "cut"
    cut.write_bytes(path.read_bytes()[:kept])
    assert str(cut) in refused(cut)


def test_a_longer_a_newer_and_a_damaged_file_are_refused(path, tmp_path):
    content = bytearray(path.read_bytes())
    other = tmp_path / "other"
    other.write_bytes(content + b"x")
    assert "bytes where" in refused(other)
    content[8] = 2
    other.write_bytes(content)
    assert "format 2" in refused(other)
    content[8], content[50] = 1, content[50] ^ 1
    other.write_bytes(content)
    assert "damaged" in refused(other)
    assert "cannot be read" in refused(tmp_path / "none")


def test_successors_that_point_outside_are_not_drafted(path, tmp_path):
    """The body is not checked when it is opened; what it says must do no harm."""
    content = bytearray(path.read_bytes())
    with NgramFile.open(path, VOCABULARY) as file:
        slots = np.frombuffer(content, np.uint8, file.num_slots * 20, HEADER_BYTES).copy()
    slots.view("<u4").reshape(-1, 5)[:, 4] = 0xFFFFFFF0
    content[HEADER_BYTES : HEADER_BYTES + len(slots)] = slots.tobytes()
    other = tmp_path / "wild"
    other.write_bytes(content)
    with NgramFile.open(other, VOCABULARY) as file:
        for pair in ([0, 0], [0, 1], [1, 0], [2, 0]):
            drafter = NgramDrafter(file=file, use_own=False)
            drafter.append(pair)
            assert all(not 0 <= token < len(VOCABULARY) for token in drafter.draft(1))


def test_a_file_that_cannot_be_written_leaves_the_old_one(path, tmp_path, monkeypatch):
    old = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ResourceError, match="free the disk"):
        build_ngram_file(np.zeros(10, np.int32), VOCABULARY, path)
    assert path.read_bytes() == old
    assert [p.name for p in path.parent.iterdir()] == [path.name]
