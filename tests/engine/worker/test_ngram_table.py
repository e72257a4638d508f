"""Loading in every mode of the n-gram table, and what a disk that fails does to requests."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from engine.core.config import NgramMode, OpsName, RunConfig
from engine.core.disk_reads import NGRAM_TABLE
from engine.core.drive_speed import DriveSpeed
from engine.core.errors import ModelFileError, ResourceError
from engine.core.gguf_header import ModelHeader, read_model_header
from engine.core.ngram_mode import NgramPlan
from engine.core.ngram_numbers import TABLE_NAME
from engine.decode.generate import generate
from engine.gguf.reader import Tensor
from engine.memory import ngram_table_modes
from engine.memory.ngram_table import NgramTable
from engine.memory.ngram_table_modes import measure_table_drive, open_ngram_table
from engine.sequence.scheduler import Event, Scheduler
from engine.worker.loading import load_model
from engine.worker.messages import Done, SamplingParams, Start, Tokens

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
FULL = GOLDEN / "full.gguf"
OPS = (OpsName.REFERENCE, OpsName.HOST)


def config_for(mode: NgramMode, ops: OpsName = OpsName.HOST, path: Path = FULL) -> RunConfig:
    return RunConfig(model=path, context=128, ops=ops, ngram_mode=mode, prompt_chunk=16)


def table_place(path: Path) -> tuple[int, int]:
    """First byte and size of the table."""
    header = read_model_header(path)
    shard, info = header.tensors[TABLE_NAME]
    return header.shards[shard].data_start + info.offset, info.num_bytes


@pytest.mark.parametrize("ops", OPS)
def test_answers_are_the_same_in_every_mode_and_the_disk_is_counted(ops: OpsName):
    answers, disks = {}, {}
    for mode in (NgramMode.MAPPED, NgramMode.RAM, NgramMode.DIRECT, NgramMode.AUTO):
        loaded = load_model(config_for(mode, ops))
        try:
            generation = generate(
                loaded.model,
                range(3, 60),
                SamplingParams(temperature=0),
                20,
                (),
                loaded.limits,
                loaded.drafting,
                disk_reads=loaded.disk_reads,
            )
            answers[mode] = [token.token_id for token in generation]
            assert generation.done is not None
            timings = generation.done.timings
            disks[mode] = {one.tier: one for one in (*timings.disk_prompt, *timings.disk_answer)}
        finally:
            loaded.close()
    assert len({tuple(answer) for answer in answers.values()}) == 1
    tier = disks[NgramMode.DIRECT][NGRAM_TABLE]
    assert tier.reads + tier.hits > 0
    assert tier.waited_ms >= 0
    assert all(NGRAM_TABLE not in disks[mode] for mode in answers if mode is not NgramMode.DIRECT)


def test_when_memory_is_low_the_row_cache_gives_back_and_answers_stay_the_same():
    answers = []
    for gives_back in (False, True):
        config = config_for(NgramMode.DIRECT).model_copy(update={"ngram_cache_rows": 30_000})
        loaded = load_model(config)
        rows = loaded.model.ngram_rows
        assert rows is not None
        # A file's table is small; as many rows of room as the setting says is what matters here.
        released = []
        answer = []
        for token in generate(
            *(loaded.model, range(3, 60), SamplingParams(temperature=0), 12, (), loaded.limits),
        ):
            answer.append(token.token_id)
            if gives_back and not released:
                released.append(loaded.caches.release())
        loaded.close()
        answers.append(answer)
        assert all("rows of the n-gram table" in one for one in released)
    assert answers[0] == answers[1]


def test_a_failing_disk_ends_that_request_with_a_sentence_and_others_are_answered(tmp_path: Path):
    path = tmp_path / "full.gguf"
    shutil.copyfile(FULL, path)
    first, _ = table_place(path)
    content = path.read_bytes()
    shown: list[Event] = []
    loaded = load_model(config_for(NgramMode.DIRECT))
    # The same table, in a file that can be cut without taking mapped weights away.
    _, info = read_model_header(path).tensors[TABLE_NAME]
    num_rows, columns = info.shape
    table = NgramTable(path, first, num_rows, columns, info.type, cache_rows=16)
    with_tables = [layer.weights.ple for layer in loaded.model.trunk_layers if layer.weights.ple]
    assert with_tables
    for weights in with_tables:
        weights.table = loaded.ops.row_table(table)
    scheduler = Scheduler(loaded.model, loaded.limits, shown.append)
    try:
        os.truncate(path, first)
        scheduler.submit(start("bad"))
        run(scheduler)
        done = [event for event in shown if isinstance(event, Done)]
        assert [(event.request_id, event.reason) for event in done] == [("bad", "error")]
        assert "n-gram table in" in done[0].message
        assert "cannot be read at byte" in done[0].message
        path.write_bytes(content)
        scheduler.submit(start("good"))
        scheduler.submit(start("cancelled"))
        scheduler.step()
        scheduler.cancel("cancelled")
        run(scheduler)
        ends = {event.request_id: event.reason for event in shown if isinstance(event, Done)}
        assert ends == {"bad": "error", "good": "length", "cancelled": "cancelled"}
        assert sum(len(e.token_ids) for e in shown if isinstance(e, Tokens)) >= 5
    finally:
        loaded.close()
        table.close()


def start(name: str) -> Start:
    return Start(
        name,
        prompt=tuple(range(3, 60)),
        max_tokens=5,
        stop_ids=(),
        sampling=SamplingParams(temperature=0),
    )


def run(scheduler: Scheduler) -> None:
    while scheduler.has_work:
        scheduler.step()


def header_of_big_table(monkeypatch: pytest.MonkeyPatch) -> ModelHeader:
    monkeypatch.setattr(ngram_table_modes, "_MEASURED_BYTES", 1)
    return read_model_header(FULL)


def test_a_slow_drive_is_warned_about_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    header = header_of_big_table(monkeypatch)
    slow = DriveSpeed(6e-3, 1e8, is_unbuffered=True)
    caplog.set_level(logging.INFO)
    for mode, words in ((NgramMode.DIRECT, "Move the model to an SSD"), (NgramMode.RAM, "kept in")):
        caplog.clear()
        plan = NgramPlan(mode, 1 << 30, 0, "", is_slow=mode is NgramMode.DIRECT)
        table = open_ngram_table(header, plan, RunConfig(), slow)
        if isinstance(table, NgramTable):
            table.close()
        warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert len(warnings) == 1
        assert words in warnings[0]
        assert "6.0 ms" in warnings[0]
    caplog.clear()
    fast = DriveSpeed(1e-4, 1e9, is_unbuffered=True)
    assert (
        open_ngram_table(header, NgramPlan(NgramMode.MAPPED, 0, 0, ""), RunConfig(), fast) is None
    )
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]


def test_the_drive_is_measured_where_it_matters(monkeypatch: pytest.MonkeyPatch):
    assert measure_table_drive(read_model_header(FULL), RunConfig()) is None  # a small table
    header = header_of_big_table(monkeypatch)
    found = measure_table_drive(header, RunConfig())
    assert found is not None
    assert found.random_read_s > 0
    assert measure_table_drive(header, RunConfig(ngram_mode=NgramMode.RAM)) is None
    assert measure_table_drive(read_model_header(GOLDEN / "nople.gguf"), RunConfig()) is None


def test_a_machine_that_cannot_have_a_reader_gets_the_mapped_table(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def refuse() -> None:
        raise ResourceError("There is no library here.")

    header = read_model_header(FULL)
    assert open_ngram_table(header, None, RunConfig()) is None
    monkeypatch.setattr("engine.memory.ngram_table.load_library", refuse)
    plan = NgramPlan(NgramMode.DIRECT, 0, 0, "")
    assert open_ngram_table(header, plan, RunConfig()) is None
    assert "mapped into memory instead: There is no library here." in caplog.text


def test_a_table_in_memory_is_the_files_and_a_cut_file_is_a_sentence(tmp_path: Path):
    path = tmp_path / "full.gguf"
    shutil.copyfile(FULL, path)
    header = read_model_header(path)
    first, num_bytes = table_place(path)
    plan = NgramPlan(NgramMode.RAM, num_bytes, num_bytes, "")
    tensor = open_ngram_table(header, plan, RunConfig())
    assert isinstance(tensor, Tensor)
    assert tensor.data.tobytes() == path.read_bytes()[first : first + num_bytes]
    os.truncate(path, first + num_bytes // 2)
    with pytest.raises(ModelFileError, match=r"cannot be read at byte \d+ \(it ends there\)"):
        open_ngram_table(header, plan, RunConfig())
    path.unlink()
    with pytest.raises(ModelFileError, match="No such file"):
        open_ngram_table(header, plan, RunConfig())
