"""The modes of the experts on a real model: the same answers, whatever is kept, asked for or counted."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.core.config import BUNDLED_MODEL, RunConfig
from engine.core.errors import ModelFileError
from engine.core.gguf_header import read_model_header
from engine.core.machine import probe_machine
from engine.core.placement import place_on_cpu
from engine.core.weight_groups import Tier, read_every_token
from engine.decode.generate import generate
from engine.ops.cuda import CudaOps
from engine.ops.cuda_settings import CudaSettings
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from engine.worker import expert_tier
from engine.worker.loading import load_model
from engine.worker.messages import SamplingParams
from tests.support.experts_last import write_with_experts_last
from tests.support.plain_device import PlainDevice
from tests.support.plain_launches import plain_launches

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
PROMPT = [(31 * i + 7) % 4000 for i in range(70)]


def load(**settings):
    config = RunConfig.model_validate({"model": BUNDLED_MODEL, "context": 256, **settings})
    return load_model(config, parallel=1)


def logits_of(loaded, vocab_size=4000):
    """Of a prompt longer than what is recorded, and of single tokens and a window after it."""
    sequence = loaded.model.new_sequence()
    prompt = [token_id % vocab_size for token_id in PROMPT]
    parts = []
    try:
        for start, stop in ((0, 64), (64, 65), (65, 66), (66, 70)):
            entry = BatchEntry(sequence, prompt[start:stop], LogitsWanted.ALL)
            parts.append(loaded.model.forward(Batch([entry])).logits.copy())
            sequence.commit(stop - start)
    finally:
        sequence.release()
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def plain_logits():
    loaded = load()
    try:
        return logits_of(loaded)
    finally:
        loaded.close()


@pytest.mark.parametrize("copies", [False, True], ids=["locked if allowed", "copied"])
@pytest.mark.parametrize(
    "settings",
    [
        {"expert_mode": "mapped", "expert_look_ahead": "on"},
        {"expert_mode": "budget", "expert_ram_mib": 2, "expert_look_ahead": "on"},
        {"expert_mode": "budget", "expert_ram_mib": 0, "expert_look_ahead": "on"},
        {"expert_mode": "resident"},
        {"ops": "reference", "expert_look_ahead": "on"},
    ],
    ids=["mapped", "budget", "no budget", "resident", "reference"],
)
def test_every_mode_computes_the_same_logits_to_the_bit(
    plain_logits, monkeypatch, tmp_path, settings, copies
):
    if copies and os.name == "nt":
        pytest.skip("Windows locks")
    if copies:
        monkeypatch.setattr(expert_tier, "can_lock", lambda _: False)
    loaded = load(**settings, expert_profile=tmp_path / "experts.json")
    try:
        computed = logits_of(loaded)
        kept = loaded.experts.kept
        if settings.get("expert_mode") == "resident":
            assert kept.is_copy or kept.problem or kept.num_bytes > 0
        if copies and settings.get("expert_ram_mib"):
            assert kept.is_copy
            assert 1 << 20 < kept.num_bytes < 3 << 20
        if settings.get("expert_look_ahead") == "on":
            assert loaded.experts.reader.guess_precision is not None
    finally:
        loaded.close()
    if settings.get("ops") == "reference":
        plain = load(ops="reference")
        try:
            assert np.array_equal(computed, logits_of(plain))
        finally:
            plain.close()
    else:
        assert np.array_equal(computed, plain_logits)


def test_a_model_beyond_memory_is_looked_ahead_for_and_says_what_it_read(
    plain_logits, monkeypatch, caplog
):
    """Half of the experts have room, by a machine that says so."""
    caplog.set_level(logging.INFO)
    config = RunConfig(model=BUNDLED_MODEL, context=256, parallel=1, session_cache_mib=0)
    header = read_model_header(BUNDLED_MODEL)
    roomy = place_on_cpu(probe_machine(), header, config)
    expert_bytes = roomy.experts.ram_bytes + roomy.experts.disk_bytes
    free = roomy.needed_bytes - expert_bytes // 2
    machine = replace(probe_machine(), ram_available_bytes=free)
    monkeypatch.setattr("engine.worker.loading.probe_machine", lambda: machine)
    loaded = load_model(config, parallel=1)
    try:
        assert np.array_equal(logits_of(loaded), plain_logits)
        generation = generate(
            loaded.model,
            PROMPT[:20],
            SamplingParams(temperature=0),
            5,
            (),
            loaded.limits,
            disk_reads=loaded.disk_reads,
        )
        assert len(list(generation)) == 5
    finally:
        loaded.close()
    timings = generation.done.timings
    (read,) = [one for one in timings.disk_answer if one.tier == "experts"]
    per_pass = 4 * 2 * 3  # layers, experts of a token, matrices
    if sys.platform.startswith("linux"):
        assert read.reads + read.hits == 4 * per_pass
    assert "plan: Experts, disk" in caplog.text
    assert "kept in memory" in caplog.text


def test_what_is_kept_is_what_the_plan_says_the_draft_head_included(monkeypatch):
    header = read_model_header(BUNDLED_MODEL)
    names = read_every_token(header)
    assert {"blk.4.ffn_up_exps.weight", "blk.4.ffn_up_shexp.weight", "output.weight"} <= names
    assert not names & {"blk.3.ffn_up_exps.weight", "per_layer_token_embd.weight"}
    config = RunConfig(model=BUNDLED_MODEL, context=256, parallel=1, session_cache_mib=0)
    roomy = place_on_cpu(probe_machine(), header, config)
    tight = replace(probe_machine(), ram_available_bytes=roomy.needed_bytes - (2 << 20))
    monkeypatch.setattr("engine.worker.loading.probe_machine", lambda: tight)
    loaded = load_model(config, parallel=1)
    loaded.close()
    planned = sum(
        part.num_bytes
        for part in loaded.placement.parts
        if part.tier is Tier.RAM and part.name in {"Other", "MTP layer"}
    )
    kept = loaded.experts.kept
    assert kept.problem or planned <= kept.num_bytes < planned + len(names) * 2 * 4096


@pytest.mark.parametrize("copies", [False, True], ids=["locked if allowed", "copied"])
def test_a_draft_head_in_a_file_of_its_own_is_kept_too_and_placed(monkeypatch, caplog, copies):
    if copies and os.name == "nt":
        pytest.skip("Windows locks")
    if copies:
        monkeypatch.setattr(expert_tier, "can_lock", lambda _: False)
    caplog.set_level(logging.INFO)
    path = GOLDEN / "full.gguf"
    settings = {"model": path, "context": 256, "parallel": 1, "session_cache_mib": 0}
    config = RunConfig.model_validate({**settings, "mtp_file": GOLDEN / "full-mtp.gguf"})
    header, head = read_model_header(path), read_model_header(config.mtp_file)
    roomy = place_on_cpu(probe_machine(), header, config, draft_head=head)
    tight = replace(probe_machine(), ram_available_bytes=roomy.needed_bytes - (64 << 10))
    monkeypatch.setattr("engine.worker.loading.probe_machine", lambda: tight)
    loaded = load_model(config, parallel=1)
    try:
        assert loaded.model.mtp is not None
        assert loaded.placement.experts.keeps_rest
        pages = next(part for part in loaded.placement.parts if part.name == "KV pages")
        assert pages.num_bytes == loaded.placement.kv_pages * loaded.model.store.page_bytes
        computed = logits_of(loaded, vocab_size=384)
    finally:
        loaded.close()
    names = read_every_token(header)
    planned = sum(header.tensors[name][1].num_bytes for name in names)
    planned += sum(info.num_bytes for _, info in head.tensors.values())
    kept = loaded.experts.kept
    assert kept.is_copy == copies
    assert kept.problem or planned <= kept.num_bytes < planned + (len(names) + 40) * 2 * 4096
    monkeypatch.undo()
    plain = load_model(RunConfig.model_validate(settings), parallel=1)
    try:
        assert np.array_equal(computed, logits_of(plain, vocab_size=384))
    finally:
        plain.close()


def test_with_a_card_the_disk_is_asked_for_what_the_card_does_not_hold(monkeypatch):
    asked = []
    real = expert_tier.ExpertReader.will_read

    def will_read(self, layer_idx, expert_ids):
        asked.append((layer_idx, expert_ids.copy()))
        real(self, layer_idx, expert_ids)

    monkeypatch.setattr(expert_tier.ExpertReader, "will_read", will_read)

    def card(name, limits, settings=None):
        return CudaOps(limits, PlainDevice(1 << 28), CudaSettings(cache_bytes=0), plain_launches)

    monkeypatch.setattr("engine.worker.card_loading.make_ops", card)
    loaded = load(expert_look_ahead="on")
    try:
        logits_of(loaded)
        (tier,) = [one for one in loaded.disk_reads() if one.tier == "experts"]
    finally:
        loaded.close()
    assert {layer for layer, _ in asked} == {0, 1, 2, 3}
    if sys.platform.startswith("linux"):
        assert tier.reads + tier.hits > 0


def test_counts_are_learned_and_saved_and_decide_what_a_budget_keeps(tmp_path, monkeypatch):
    path = tmp_path / "Profil" / "experts.json"
    loaded = load(expert_profile=path, expert_profile_learn=True)
    try:
        logits_of(loaded)
        assert loaded.saves
        loaded.save()
    finally:
        loaded.close()
    counts = loaded.experts.counts.counts
    assert counts.sum() == 70 * 4 * 2  # tokens, layers, experts of a token
    asked = []
    real = expert_tier.keep_ranges

    def keep(file, ranges, progress, pages):
        asked.extend(ranges)
        return real(file, ranges, progress, pages)

    monkeypatch.setattr(expert_tier, "keep_ranges", keep)
    loaded = load(
        expert_mode="budget", expert_ram_mib=1, expert_profile=path, expert_profile_learn=True
    )
    try:
        addresses = {start for start, _ in asked}
        experts = expert_tier.ExpertMap.of(loaded._files[0], loaded.header, 4)
        layer, expert = np.unravel_index(counts.argmax(), counts.shape)
        assert {start for start, _ in experts.ranges(int(layer), [int(expert)])} <= addresses
        assert len(asked) == 3 * ((1 << 20) // int(experts.expert_bytes[0]))
        assert loaded.experts.counts.counts.sum() == counts.sum()  # counting goes on from there
    finally:
        loaded.close()


def test_without_the_wish_nothing_is_counted_or_watched(tmp_path):
    loaded = load(expert_profile=tmp_path / "experts.json")
    try:
        assert loaded.experts.reader is None
        assert not loaded.saves
    finally:
        loaded.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can wait for pages")
def test_experts_that_cannot_be_read_are_an_error_and_the_model_goes_on_when_they_are_back(
    tmp_path,
):
    path = tmp_path / "ganz.gguf"
    cut = write_with_experts_last(BUNDLED_MODEL, path)
    content = path.read_bytes()
    loaded = load(model=path, expert_look_ahead="on")
    try:
        before = logits_of(loaded)
        os.truncate(path, cut)
        with pytest.raises(ModelFileError, match=r"ganz\.gguf cannot be read any more"):
            logits_of(loaded)
        with path.open("r+b") as file:
            file.seek(cut)
            file.write(content[cut:])
        assert np.array_equal(logits_of(loaded), before)
    finally:
        loaded.close()
