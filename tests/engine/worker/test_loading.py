"""Loading by config, and the fingerprint of what was loaded."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.config import KvType, OpsName, RunConfig
from engine.core.draft_head_file import read_draft_head
from engine.core.errors import ModelFileError, ResourceError
from engine.core.gguf_header import read_model_header
from engine.core.machine import probe_machine
from engine.core.placement import place_on_cpu
from engine.decode.generate import generate
from engine.worker.loading import fingerprint, load_model
from engine.worker.messages import SamplingParams

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def test_a_fingerprint_changes_with_file_operations_and_number_format_and_needs_no_file(
    tmp_path: Path,
):
    first, second = (tmp_path / f"{case}.gguf" for case in ("nople", "odd"))
    for path in (first, second):
        shutil.copy(GOLDEN / path.name, path)
    headers = [read_model_header(path) for path in (first, second)]
    first.unlink()
    second.unlink()
    config = RunConfig()
    prints = [
        fingerprint(headers[0], config, "host avx2"),
        fingerprint(headers[0], config, "host avx512"),
        fingerprint(headers[0], config.model_copy(update={"kv_type": KvType.F32}), "host avx2"),
        fingerprint(headers[0], config.model_copy(update={"requant": True}), "host avx2"),
        fingerprint(headers[1], config, "host avx2"),
    ]
    assert len(set(prints)) == 5
    assert fingerprint(headers[0], config, "host avx2") == prints[0]


def test_a_file_that_vanishes_after_its_header_was_read_is_one_sentence(tmp_path: Path):
    path = tmp_path / "mödel.gguf"
    shutil.copy(GOLDEN / "nople.gguf", path)
    header = read_model_header(path)
    path.unlink()
    config = RunConfig(model=path, context=64)
    with pytest.raises(ModelFileError, match=r"mödel\.gguf cannot be mapped"):
        load_model(config, header=header)


def test_a_cold_file_is_read_ahead_with_progress_and_a_tight_machine_does_not(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("engine.gguf.read_ahead._is_cached", lambda *_: False)
    steps: list[tuple[str, int, int]] = []
    config = RunConfig(model=GOLDEN / "full.gguf", context=64, ops=OpsName.REFERENCE)
    load_model(config, lambda *step: steps.append(step)).close()
    file_steps = [step for step in steps if step[0] == "file"]
    total = file_steps[-1][2]
    assert file_steps[-1] == ("file", total, total)
    assert total < max(step[2] for step in steps)  # the tables stay on the disk
    steps.clear()
    alone = config.model_copy(update={"parallel": 1, "session_cache_mib": 0})
    header = read_model_header(config.model_path)
    head = read_draft_head(config, header)
    assert head is not None  # it lies beside the model
    placement = place_on_cpu(probe_machine(), header, alone, draft_head=head)
    tight = replace(probe_machine(), ram_available_bytes=placement.private_bytes)
    monkeypatch.setattr("engine.worker.loading.probe_machine", lambda: tight)
    load_model(config, lambda *step: steps.append(step), parallel=1).close()
    assert {step[0] for step in steps} == {"weights"}


def test_a_machine_that_would_swap_is_refused_with_the_sizes_and_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
):
    full = replace(probe_machine(), ram_available_bytes=100 << 20)
    monkeypatch.setattr("engine.worker.loading.probe_machine", lambda: full)
    config = RunConfig(model=GOLDEN / "full.gguf", context=64)
    with pytest.raises(ResourceError, match=r"100\.0 MiB are free .* Close other programs"):
        load_model(config)


@pytest.mark.parametrize(("more", "pins"), [(3, False), (3, True), (0, True)])
def test_more_threads_than_processors_run_with_a_notice(
    caplog: pytest.LogCaptureFixture, more: int, pins: bool
):
    threads = probe_machine().logical_cores + more
    path = GOLDEN / "nople.gguf"
    config = RunConfig(model=path, context=64, threads=threads, ops=OpsName.HOST, pin_threads=pins)
    loaded = load_model(config, parallel=1)
    try:
        assert loaded.ops.num_threads == threads  # type: ignore[attr-defined]
        assert (f"threads is {threads}, but this process may use only" in caplog.text) == (more > 0)
        answer = generate(
            loaded.model, [1, 2], SamplingParams(temperature=0), 3, (), limits=loaded.limits
        )
        assert len(list(answer)) > 0
    finally:
        loaded.close()


class RefusingLocker:
    """A system without the permission."""

    def prepare(self, num_bytes):
        """Give nothing."""

    def lock(self, address, num_bytes):
        """Refuse."""
        raise OSError(1, "Operation not permitted")

    def unlock(self, address, num_bytes):
        """There is nothing to undo."""


def test_without_the_permission_to_lock_memory_a_notice_comes_and_the_model_runs(
    monkeypatch, caplog
):
    monkeypatch.setattr("engine.gguf.memory_lock.system_locker", RefusingLocker)
    config = RunConfig(model=GOLDEN / "nople.gguf", context=64, lock_memory=True)
    loaded = load_model(config, parallel=1)
    try:
        answer = generate(
            loaded.model, [1, 2, 3], SamplingParams(temperature=0), 2, (), loaded.limits
        )
        assert len(list(answer)) == 2
    finally:
        loaded.close()
    assert "Operation not permitted" in caplog.text
    assert "runs without" in caplog.text


def test_what_every_token_reads_is_locked_with_progress(monkeypatch):
    locked = []

    class NotingLocker(RefusingLocker):
        def lock(self, address, num_bytes):
            locked.append(num_bytes)

    monkeypatch.setattr("engine.gguf.memory_lock.system_locker", NotingLocker)
    config = RunConfig(model=GOLDEN / "full.gguf", context=64, lock_memory=True)
    steps = []
    loaded = load_model(config, lambda *step: steps.append(step), parallel=1)
    try:
        table = sum(
            info.num_bytes
            for name, (_, info) in loaded.header.tensors.items()
            if name == "per_layer_token_embd.weight"
        )
        head = read_model_header(GOLDEN / "full-mtp.gguf")  # which lies beside the model
        everything = sum(
            info.num_bytes
            for header in (loaded.header, head)
            for _, info in header.tensors.values()
        )
    finally:
        loaded.close()
    assert everything - 2 * table < sum(locked) <= everything - table + (64 << 10)
    assert ("lock", sum(locked), sum(locked)) in steps
