"""What `inspect` says of a card that computes alone is what loading does with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.commands.inspect_cards import CardReport, card_report
from engine.core.card_bytes import CONTEXT_BYTES
from engine.core.card_record import CardRecord, keep_record, record_key
from engine.core.config import OpsName, RunConfig
from engine.core.drive_speed import DriveKind
from engine.core.emulated_cards import EMULATED_DRIVER
from engine.core.gguf_header import read_model_header
from engine.core.gpu import GpuReport
from engine.core.machine import probe_machine
from engine.core.placement import place_on_cpu
from engine.core.settings import load_settings
from engine.worker.loading import load_model
from tests.support.golden import GOLDEN
from tests.support.plain_cards import GIB, gpu, stand_in
from tests.support.plain_device import PlainDevice

MODEL = GOLDEN / "full.gguf"
PARALLEL = 3


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path))
    return load_settings().data_dir


def config(ops: OpsName, **changes: object) -> RunConfig:
    given = {"context": 64, "prompt_chunk": 32, "parallel": PARALLEL, "vram_reserve_mib": 0}
    return RunConfig(**({"model": MODEL, "ops": ops} | given | changes))


def report_of(of: RunConfig) -> CardReport:
    header = read_model_header(MODEL)
    machine = probe_machine()
    on_cpu = place_on_cpu(machine, header, of, DriveKind.UNKNOWN, None)
    return card_report(of, header, None, machine, on_cpu)


# Context, kernels, graphs and scratch take 748 MiB of any card; a sequence is made to take 600 MiB.
@pytest.mark.parametrize(
    ("ops", "gib", "is_used", "parallel", "words"),
    [
        (OpsName.AUTO, 4.0, True, PARALLEL, "layers 0 to 3, head"),
        (OpsName.AUTO, 2.0, True, 1, "it computes one request at a time"),
        (OpsName.AUTO, 1.0, False, PARALLEL, "not used, it has too little room for this model"),
        (OpsName.CUDA, 1.0, True, 1, "too little room by its numbers, loading may fail; it comp"),
    ],
)
def test_a_card_is_used_and_serves_as_many_requests_as_inspect_says(
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    ops: OpsName,
    gib: float,
    is_used: bool,
    parallel: int,
    words: str,
) -> None:
    monkeypatch.setattr("engine.core.model_numbers.state_bytes", lambda _: 600 << 20)
    card = gpu(0, gib)
    keep_record(
        home,
        CardRecord(key=record_key(card, EMULATED_DRIVER), card=card.name, is_passed=True),
    )
    said = GpuReport((card,), EMULATED_DRIVER, "emulator")
    monkeypatch.setattr("engine.commands.inspect_cards.probe_gpus", lambda: said)
    report = report_of(config(ops))
    (line,) = report.lines
    assert words in line.words
    assert (line.share is not None) == is_used
    assert report.placement.max_sequences == parallel

    opened = card.vram_total_bytes - CONTEXT_BYTES
    stand_in(monkeypatch, lambda: PlainDevice(opened), gpus=[card])
    loaded = load_model(config(ops))
    loaded.close()
    assert loaded.ops.name == ("cuda" if is_used else "host")
    assert loaded.limits.parallel == parallel
    assert loaded.placement.max_sequences == parallel
    assert ("has too little room for this model" in loaded.card_notice) == (not is_used)
    if is_used:
        assert line.share is not None
        assert line.expert_bytes <= line.share.num_bytes
        assert opened <= GIB or line.share.num_bytes <= card.vram_free_bytes
