"""Thousands of damaged headers: each is read or refused in one sentence, quickly, in little memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.gguf.writer import GgufWriter
from tests.support.gguf_fuzz import fuzz
from tests.support.gguf_mutator import load_seed, mutate

GOLDEN = Path(__file__).parents[2] / "golden"
READ_HEADER = "engine.core.gguf_header:read_model_header"
LOOK_AT_STRINGS = "tests.support.gguf_actions:read_all_strings"
OPEN_FILE = "tests.support.gguf_actions:open_and_decode"


def _write(path: Path, *, num_tensors: int, **arguments) -> list[Path]:
    writer = GgufWriter(path, "qwen4exp", **arguments)
    writer.add_metadata("tokenizer.ggml.tokens", ["a", "b", "Ġé", ""])
    writer.add_metadata("qwen4exp.attention.recurrent_layers", [True, False])
    writer.add_metadata("qwen4exp.ple.layer_multipliers", [1 << 60, 3])
    writer.add_metadata("qwen4exp.rope.freq_base", 1e7)
    types = [GgmlType.F32, GgmlType.F16, GgmlType.Q8_0, GgmlType.Q4_K, GgmlType.Q2_0]
    for i in range(num_tensors):
        values = np.ones((2, 256) if i % 2 else (2, 1, 256), np.float32)
        writer.add_tensor(f"blk.{i}.weight", values, types[i % len(types)])
    return writer.write()


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[list[Path]]:
    """Small models of one and of several files, and the golden ones."""
    folder = tmp_path_factory.mktemp("seeds")
    version_2 = _write(folder / "version2.gguf", num_tensors=3)
    data = bytearray(version_2[0].read_bytes())
    data[4] = 2
    version_2[0].write_bytes(data)
    split = {"num_shards": 3, "first_shard_empty": True}
    return [
        _write(folder / "small.gguf", num_tensors=5),
        version_2,
        _write(folder / "none.gguf", num_tensors=0),
        _write(folder / "aligned.gguf", num_tensors=3, alignment=256),
        _write(folder / "split.gguf", num_tensors=6, **split),
        _write(folder / "two.gguf", num_tensors=4, num_shards=2),
        *([GOLDEN / f"{name}.gguf"] for name in ("full-mtp", "quant-Q2_0", "odd")),
    ]


def _check(report: dict, count: int) -> None:
    assert report["findings"] == []
    outcomes = report["outcomes"]
    assert sum(outcomes.values()) == count
    # The mutants are of use only if they reach many checks and are not all refused at once.
    assert len(outcomes) >= 10, outcomes
    assert count * 0.02 < outcomes["accepted"] < count * 0.5, outcomes
    # Milliseconds; what a header could make endless is what is looked for.
    assert report["slowest_s"] < 60, report["slowest"]


def test_5000_mutated_headers_are_read_or_refused_in_one_sentence(models):
    _check(fuzz(READ_HEADER, models, count=5000, seed=1), 5000)


def test_400_mutated_string_lists_are_decoded_or_refused(models):
    _check(fuzz(LOOK_AT_STRINGS, models[:6], count=400, seed=2), 400)


def test_400_mutated_files_are_mapped_and_decoded_or_refused(models):
    _check(fuzz(OPEN_FILE, models[:6], count=400, seed=3, header_only=False), 400)


def test_the_fuzz_run_sees_a_crash_a_hang_and_a_bad_message(models):
    def findings(action: str, **arguments) -> str:
        report = fuzz(f"tests.support.gguf_actions:{action}", models, count=2, **arguments)
        return " ".join(report["findings"])

    assert "ZeroDivisionError" in findings("divide_by_zero")
    assert "not one sentence" in findings("speak_two_sentences")
    assert "exit status" in findings("hang", seconds_each=0.5)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limit exists on Linux only")
def test_the_fuzz_run_sees_a_large_allocation(models):
    report = fuzz("tests.support.gguf_actions:allocate_a_gigabyte", models, count=1)
    assert "MemoryError" in report["findings"][0]


def test_mutants_are_the_same_for_the_same_seed(models):
    seeds = [load_seed(paths) for paths in models]
    assert mutate(seeds, 1, 17) == mutate(seeds, 1, 17)
    assert mutate(seeds, 1, 17) != mutate(seeds, 2, 17)
