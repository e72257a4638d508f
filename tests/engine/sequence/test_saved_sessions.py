"""Saved conversations: what is written comes back bit for bit, and nothing else does."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from engine.model.trunk import Model
from engine.sequence.batch import Batch, BatchEntry
from engine.sequence.saved_sessions import SavedSessionsError, read_sessions, save_sessions
from engine.sequence.session_visit import Visit
from engine.sequence.sessions import CheckpointKind, Sessions
from tests.support.golden import arrays, load_golden

BIG = 1 << 30
KEY = "a-key"


def tokens_of(case: str, count: int, seed: int = 0) -> list[int]:
    tokens = arrays(case)["tokens"].tolist()
    return [int(t) for t in np.roll(tokens, seed)[:count]]


def new(
    case: str = "full", budget: int = BIG, ops_name: str = "host", **changes: int
) -> tuple[Model, Sessions]:
    model = load_golden(case, ops_name, **changes)
    return model, Sessions(model.store.pages, budget, model.store.page_bytes)


def talk(model: Model, sessions: Sessions, prompt: list[int], shared: int, turn: int) -> np.ndarray:
    """Read a prompt and leave it warm; the logits of its last token."""
    visit = Visit(sessions, tuple(prompt), shared, turn)
    state = model.new_sequence()
    visit.resume(state)
    logits = np.empty(0)
    while state.length < len(prompt):
        stop = min(visit.next_stop(state.length), state.length + 64)
        result = model.forward(Batch([BatchEntry(state, prompt[state.length : stop])]))
        logits = result.logits[0].copy()
        state.commit(stop - state.length)
        visit.note(state)
    visit.end(state, prompt)
    state.release()
    return logits


def pages_are_all_accounted_for(model: Model, sessions: Sessions) -> bool:
    pool = model.store.pages
    held = len(sessions.held_pages)
    sessions.clear()
    return held > 0 and pool.num_free == pool.num_pages


@pytest.mark.parametrize("ops_name", ["host", "plain"])
@pytest.mark.parametrize("case", ["full", "nople", "odd"])
def test_what_was_saved_goes_on_bit_for_bit(case: str, ops_name: str, tmp_path: Path):
    model, sessions = new(case, ops_name=ops_name)
    prompts = [tokens_of(case, 90, seed) for seed in (0, 17)]
    for prompt in prompts:
        talk(model, sessions, prompt, 20, 85)
    path = tmp_path / "sub folder ü" / "a.sessions"
    saved = save_sessions(path, KEY, sessions, model.store, BIG)
    assert saved.checkpoints == len(sessions.tree) == 6
    assert abs(saved.num_bytes - path.stat().st_size) < 10

    other, again = new(case, ops_name=ops_name)
    assert read_sessions(path, KEY, again, other.store).checkpoints == 6
    assert again.figures.tokens == sessions.figures.tokens
    assert again.figures.num_bytes == sessions.figures.num_bytes
    assert sum(place.value.kind is CheckpointKind.SYSTEM for place in again.tree) == 2
    for prompt in prompts:
        longer = [*prompt, 5, 6, 7]
        warm = talk(model, sessions, longer, 20, 92)
        np.testing.assert_array_equal(talk(other, again, longer, 20, 92), warm)
    assert pages_are_all_accounted_for(other, again)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
def test_pages_in_host_memory_are_saved_too_and_read_to_wherever_there_is_room(tmp_path: Path):
    path = tmp_path / "saved"
    prompt = tokens_of("full", 70)
    answers = []
    for near in (1, 3, None):
        model, sessions = new("full", ops_name="plain", kv_type="i8", kv_near_pages=near)
        if path.exists():
            read_sessions(path, KEY, sessions, model.store)
            assert len(sessions.tree.tokens_of(sessions.by_worth()[0])) > 60
        answers.append(talk(model, sessions, prompt, 64 if path.exists() else 0, 1))
        save_sessions(path, KEY, sessions, model.store, BIG)
        assert pages_are_all_accounted_for(model, sessions)
    np.testing.assert_array_equal(answers[1], answers[2])


def test_nobody_else_may_read_the_file(tmp_path: Path):
    saved_bytes(tmp_path)
    assert (tmp_path / "whole").stat().st_mode & 0o077 == 0


def test_the_most_valuable_is_written_when_not_all_fits(tmp_path: Path):
    model, sessions = new()
    for seed in range(3):
        talk(model, sessions, tokens_of("full", 80, seed * 7), 0, 75)
    one = next(iter(sessions.tree)).value.checkpoint.num_bytes
    path = tmp_path / "a.sessions"
    limit = 3 * (one + 3 * model.store.page_bytes)
    count = save_sessions(path, KEY, sessions, model.store, limit)
    assert 1 <= count.checkpoints < 6
    assert path.stat().st_size <= limit + 4000  # the header
    other, again = new()
    read_sessions(path, KEY, again, other.store)
    newest = tokens_of("full", 80, 14)
    visit = Visit(again, (*newest, 1))
    visit.resume(other.new_sequence())
    assert visit.num_cached == 80


def test_only_what_fits_into_memory_is_read(tmp_path: Path):
    model, sessions = new()
    for seed in range(3):
        talk(model, sessions, tokens_of("full", 80, seed * 7), 0, 75)
    path = tmp_path / "a.sessions"
    save_sessions(path, KEY, sessions, model.store, BIG)
    one = next(iter(sessions.tree)).value.checkpoint.num_bytes
    other, few = new(budget=2 * one)
    assert read_sessions(path, KEY, few, other.store).checkpoints == 2
    assert pages_are_all_accounted_for(other, few)
    short, pages = new(kv_pages=4)
    assert 1 <= read_sessions(path, KEY, pages, short.store).checkpoints < 6
    assert pages_are_all_accounted_for(short, pages)
    smaller, none = new(context=64)
    assert read_sessions(path, KEY, none, smaller.store).checkpoints == 0


def test_nothing_warm_writes_no_file(tmp_path: Path):
    model, sessions = new()
    save_sessions(tmp_path / "a", KEY, sessions, model.store, BIG)
    assert list(tmp_path.iterdir()) == []


def saved_bytes(tmp_path: Path) -> bytes:
    model, sessions = new()
    talk(model, sessions, tokens_of("full", 70), 10, 65)
    path = tmp_path / "whole"
    save_sessions(path, KEY, sessions, model.store, BIG)
    return path.read_bytes()


def assert_refused(tmp_path: Path, data: bytes, key: str = KEY, case: str = "full") -> str:
    model, sessions = new(case)
    path = tmp_path / "changed"
    path.write_bytes(data)
    with pytest.raises(SavedSessionsError) as caught:
        read_sessions(path, key, sessions, model.store)
    assert len(sessions.tree) == 0
    assert model.store.pages.num_free == model.store.pages.num_pages
    return caught.value.message


def test_a_file_of_another_model_or_format_is_not_used(tmp_path: Path):
    data = saved_bytes(tmp_path)
    assert "another model" in assert_refused(tmp_path, data, key="b-key")
    assert "another model" in assert_refused(tmp_path, data, case="nople")
    assert "not a file of saved" in assert_refused(tmp_path, b"GGUF" + data)
    assert "not a file of saved" in assert_refused(tmp_path, b"")


def test_a_newer_format_is_not_used(tmp_path: Path):
    data = saved_bytes(tmp_path)
    start = data.index(b"{")
    (length,) = struct.unpack_from("<I", data, start - 8)
    header = data[start : start + length].replace(b'"format":1', b'"format":2')
    changed = data[: start - 8] + struct.pack("<II", length, zlib.crc32(header)) + header
    assert "format 2" in assert_refused(tmp_path, changed + data[start + length :])


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_or_cut_file_is_not_used(tmp_path: Path, seed: int):
    data = saved_bytes(tmp_path)
    rng = np.random.default_rng(seed)
    assert_refused(tmp_path, data[: rng.integers(len(data))])
    changed = bytearray(data)
    changed[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    assert_refused(tmp_path, bytes(changed))


def test_a_file_whose_length_is_not_what_its_header_says_is_refused_before_it_is_read(
    tmp_path: Path,
):
    data = saved_bytes(tmp_path)
    assert "another length" in assert_refused(tmp_path, data + b"\0")
    assert "another length" in assert_refused(tmp_path, data[:-1])


def test_a_missing_file_is_an_error_of_its_own_kind(tmp_path: Path):
    model, sessions = new()
    with pytest.raises(SavedSessionsError, match="cannot be read"):
        read_sessions(tmp_path / "none", KEY, sessions, model.store)
