r"""Rows of an n-gram table of gigabytes, read from a cold disk: what a token waits, what a prompt gets.

    python -m bench.make_synthetic --preset q8_0 --layers 4 --experts 16 --table-rows-per-head 6000000 \
        --out /tmp/ngram.gguf
    python -m bench.ngram_table --model /tmp/ngram.gguf --out bench/results/DATE-ngram-table.md

Each way of reading begins with a cold cache (the system is told to forget the file) and reads other rows
than those before it: rows of random tokens, so that nearly every one lies in a page of its own, the worst
case. A token asks for its 16 rows, computes for `--compute-ms` and collects them; what it takes beyond
the computing is the latency that reading adds. The drive's own limit is measured with fio, before and behind.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.core.errors import EngineError
from engine.core.gguf_header import read_model_header
from engine.core.model_config import PleConfig
from engine.core.ngram_numbers import TABLE_NAME
from engine.core.placement import model_config_of
from engine.gguf.file_pages import system_pages
from engine.gguf.reader import GgufFile, Tensor
from engine.memory.ngram_table import NgramTable
from engine.model.ple_hash import PleHash

RowArray = npt.NDArray[np.int64]
CHUNK = 256
PAGE = 4096


@dataclass(slots=True)
class Measured:
    """Figures of one way of reading."""

    name: str
    added_ms: list[float]
    prompt_per_s: float
    reads_per_page: float | None
    resident_bytes: int
    file_cache_bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured.

    Attributes:
        tokens: tokens that are decoded one by one.
        compute_s: what a token computes between asking and collecting.
        chunks: chunks of the prompt.
    """

    tokens: int
    compute_s: float
    chunks: int


class Source:
    """Rows of tokens that were never seen before."""

    def __init__(self, ple: PleConfig, vocab_size: int, seed: int) -> None:
        self._hash = PleHash(ple)
        self._vocab_size = vocab_size
        self._draw = np.random.default_rng(seed)

    def rows(self, num_tokens: int) -> RowArray:
        """`[num_tokens, heads]`."""
        ids = self._draw.integers(0, self._vocab_size, num_tokens)
        return self._hash.rows(ids, self._draw.integers(0, self._vocab_size, 2).tolist())


class Table:
    """A table in a file, and where it lies."""

    def __init__(self, path: Path) -> None:
        self.header = read_model_header(path)
        config = model_config_of(self.header)
        if config.ple is None:
            raise EngineError(f"{path} has no n-gram table.")
        self.config, self.ple = config, config.ple
        shard, self.info = self.header.tensors[TABLE_NAME]
        self.path = self.header.paths[shard]
        self.offset = self.header.shards[shard].data_start + self.info.offset
        self.row_bytes = self.info.num_bytes // self.info.shape[0]

    def forget(self) -> None:
        """Have the system drop what it holds of the file."""
        with self.path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def cached_bytes(self) -> int:
        """About how much of the file the system's cache holds."""
        probes, found, buffer = 4000, 0, bytearray(1)
        with self.path.open("rb", buffering=0) as file:
            size = self.path.stat().st_size
            for i in range(probes):
                try:
                    found += os.preadv(file.fileno(), [buffer], size * i // probes, os.RWF_NOWAIT)
                except OSError:  # it would have to be read
                    continue
        return size * found // probes

    def open(self, *, uses_threads: bool, is_buffered: bool) -> NgramTable:
        """A reader."""
        num_rows, columns = self.info.shape
        return NgramTable(
            self.path,
            self.offset,
            num_rows,
            columns,
            self.info.type,
            uses_threads=uses_threads,
            is_buffered=is_buffered,
        )

    def missing_pages(self, asked: Sequence[RowArray]) -> int:
        """Pages of each request's new rows, added up: only rows are kept, so a page may come again."""
        seen: set[int] = set()
        count = 0
        for rows in asked:
            new = np.array(sorted(set(rows.reshape(-1).tolist()) - seen))
            seen.update(new.tolist())
            starts = self.offset + new * self.row_bytes
            both = np.concatenate([starts // PAGE, (starts + self.row_bytes - 1) // PAGE])
            count += len(np.unique(both))
        return count


def resident_bytes() -> int:
    """Memory of this process that is no file."""
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) << 10
    return 0


COLUMNS = (
    *("way", "added per token, median", "of the first 100", "90 %", "99 %", "prompt tokens/s"),
    *("reads per missing page", "own memory", "file cache"),
)


def compute(seconds: float) -> None:
    """Keep a core busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def measure_direct(
    name: str,
    table: Table,
    source: Source,
    plan: Plan,
    *,
    uses_threads: bool = False,
    is_buffered: bool = False,
) -> Measured:
    """Asked for early, collected late."""
    before = resident_bytes()
    table.forget()
    reader = table.open(uses_threads=uses_threads, is_buffered=is_buffered)
    asked: list[RowArray] = []
    added: list[float] = []
    out = np.zeros((CHUNK * 16, table.row_bytes), np.uint8)
    for _ in range(plan.tokens):
        rows = source.rows(1)
        asked.append(rows)
        began = time.perf_counter()
        reader.request(rows)
        asking = time.perf_counter() - began
        compute(plan.compute_s)
        began = time.perf_counter()
        reader.collect(rows, out[: rows.size])
        added.append((asking + time.perf_counter() - began) * 1000)
    chunks = [source.rows(CHUNK) for _ in range(plan.chunks)]
    asked += chunks
    began = time.perf_counter()
    reader.request(chunks[0])
    for i, rows in enumerate(chunks):
        if i + 1 < len(chunks):
            reader.request(chunks[i + 1])
        reader.collect(rows, out)
    took = time.perf_counter() - began
    reads = reader.figures.reads
    resident, cached = resident_bytes() - before, table.cached_bytes()
    reader.close()
    per_page = reads / table.missing_pages(asked)
    return Measured(name, added, CHUNK * plan.chunks / took, per_page, resident, cached)


def measure_mapped(
    name: str, table: Table, source: Source, plan: Plan, *, is_advised: bool = False
) -> Measured:
    """The mapped file: pages come when they are touched.

    `is_advised`: the system is told to read no more than a page for a fault, and asked for the rows'
    pages (`madvise`) before the computing and before a chunk is touched.
    """
    table.forget()
    pages = system_pages()
    with GgufFile.open(table.path) as file:
        tensor: Tensor = file.tensors[TABLE_NAME]
        data = tensor.data.reshape(-1, table.row_bytes)
        address = data.ctypes.data
        if is_advised:
            pages.expect_random([(address, data.nbytes)])

        def ask(rows: RowArray) -> None:
            if is_advised:
                starts = np.unique(address + rows.reshape(-1) * table.row_bytes)
                pages.request([(int(start), table.row_bytes) for start in starts])

        added: list[float] = []
        for _ in range(plan.tokens):
            rows = source.rows(1).reshape(-1)
            began = time.perf_counter()
            ask(rows)
            asking = time.perf_counter() - began
            compute(plan.compute_s)
            began = time.perf_counter()
            data[rows].sum()
            added.append((asking + time.perf_counter() - began) * 1000)
        chunks = [source.rows(CHUNK).reshape(-1) for _ in range(max(1, plan.chunks // 8))]
        began = time.perf_counter()
        for rows in chunks:
            ask(rows)
            data[rows].sum()
        took = time.perf_counter() - began
        del data, tensor
    return Measured(name, added, CHUNK * len(chunks) / took, None, 0, table.cached_bytes())


def drive_limit(path: Path, seconds: int) -> tuple[float, float] | None:
    """Random reads of 4 KiB a second with many in flight, and the median time of one alone."""
    if shutil.which("fio") is None:
        return None
    found: list[tuple[float, float]] = []
    for depth in (128, 1):
        words = ["fio", "--name=r", f"--filename={path}", "--readonly", "--rw=randread", "--bs=4k"]
        words += ["--direct=1", "--ioengine=io_uring", f"--iodepth={depth}", "--time_based"]
        words += [f"--runtime={seconds}", "--output-format=json"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        read = json.loads(done.stdout)["jobs"][0]["read"]
        found.append((read["iops"], read["clat_ns"]["percentile"]["50.000000"] / 1e6))
    return found[0][0], found[1][1]


def report(
    table: Table,
    plan: Plan,
    limits: Sequence[tuple[float, float] | None],
    results: Sequence[Measured],
) -> str:
    """Markdown."""
    lines = [
        f"Table: {table.info.shape[0]:,} rows of {table.row_bytes} bytes, {table.info.num_bytes / 1e9:.1f} GB. "
        f"{plan.tokens} tokens one by one, {plan.compute_s * 1000:g} ms of computing each; a prompt of "
        f"{plan.chunks * CHUNK:,} tokens in chunks of {CHUNK}.",
        "",
    ]
    for when, limit in zip(("before", "behind"), limits, strict=True):
        if limit is not None:
            lines.append(
                f"fio, {when}: {limit[0]:,.0f} random reads of 4 KiB a second with 128 in flight "
                f"({limit[0] / 16:,.0f} tokens/s at 16 rows), {limit[1]:.3f} ms for one alone."
            )
    lines += [
        "",
        f"| {' | '.join(COLUMNS)} |",
        "| --- |" + " ---: |" * (len(COLUMNS) - 1),
    ]
    for one in results:
        median = statistics.median(one.added_ms)
        high, highest = (float(np.percentile(one.added_ms, q)) for q in (90, 99))
        per_page = "" if one.reads_per_page is None else f"{one.reads_per_page:.3f}"
        memory = f"{one.resident_bytes / 1e6:.1f} MB" if one.resident_bytes else ""
        first = statistics.median(one.added_ms[:100])
        lines.append(
            f"| {one.name} | {median:.3f} ms | {first:.3f} ms | {high:.3f} ms | {highest:.3f} ms | "
            f"{one.prompt_per_s:,.0f} | {per_page} | {memory} | {one.file_cache_bytes / 1e9:.1f} GB |"
        )
    return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    parser = argparse.ArgumentParser(description="measure reading of the n-gram table")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE.gguf")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="default: standard output")
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--chunks", type=int, default=160, help="of 256 prompt tokens")
    parser.add_argument("--compute-ms", type=float, default=1.0)
    parser.add_argument("--fio-seconds", type=int, default=4)
    parser.add_argument(
        "--pause-s",
        type=float,
        default=5,
        help="rest between ways, for drives with a budget of reads",
    )
    arguments = parser.parse_args(words)
    table = Table(arguments.model)
    plan = Plan(arguments.tokens, arguments.compute_ms / 1000, arguments.chunks)

    def source(seed: int) -> Source:
        return Source(table.ple, table.config.vocab_size, seed)

    ways: list[Callable[[], Measured]] = [
        lambda: measure_direct("direct, io_uring", table, source(1), plan),
        lambda: measure_direct("direct, threads", table, source(2), plan, uses_threads=True),
        lambda: measure_direct("direct, buffered", table, source(3), plan, is_buffered=True),
        lambda: measure_mapped("mapped", table, source(4), plan),
        lambda: measure_mapped(
            "mapped, page by page, asked for ahead", table, source(5), plan, is_advised=True
        ),
    ]
    before = drive_limit(table.path, arguments.fio_seconds)
    results = []
    for way in ways:
        time.sleep(arguments.pause_s)
        results.append(way())
    time.sleep(arguments.pause_s)
    text = report(table, plan, (before, drive_limit(table.path, arguments.fio_seconds)), results)
    if arguments.out is None:
        print(text)
    else:
        arguments.out.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
