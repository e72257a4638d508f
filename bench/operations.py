"""Where does the time of a decoded token go? By operation, with its share of what memory allows.

    python -m bench.operations --model q4_k.gguf --threads 2 --tokens 40

The recorded pass is run call by call with a clock between the calls (about a microsecond each). After
every token as many bytes are read from memory as the token touches; that time is the floor.
"""

from __future__ import annotations

import argparse
import collections
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from engine.bench import TokenReader  # noqa: E402  # needs the path
from engine.core.config import BUNDLED_MODEL, RunConfig  # noqa: E402
from engine.core.model_numbers import numbers_of_header  # noqa: E402
from engine.ops.host_recording import RecordedCalls, RunCalls  # noqa: E402
from engine.sequence.batch import Batch, BatchEntry  # noqa: E402
from engine.worker.loading import load_model  # noqa: E402

CALL_BYTES = 16 + 8 * 16  # of a RecordedCall


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="time the operations of decoded tokens")
    parser.add_argument("--model", type=Path, default=BUNDLED_MODEL)
    parser.add_argument("--threads", type=int, default=0, metavar="N")
    parser.add_argument("--prompt-tokens", type=int, default=64, metavar="N")
    parser.add_argument("--tokens", type=int, default=40, metavar="N")
    arguments = parser.parse_args(words)
    context = arguments.prompt_tokens + arguments.tokens + 64
    config = RunConfig(model=arguments.model, threads=arguments.threads, context=context)
    loaded = load_model(config, parallel=1)
    model = loaded.model
    reader = TokenReader(loaded, numbers_of_header(loaded.header, config).active_bytes)
    sequence = model.new_sequence()
    rng = np.random.default_rng(1)
    vocab_size = loaded.limits.vocab_size
    for token in rng.integers(0, vocab_size, arguments.prompt_tokens).tolist():
        model.forward(Batch([BatchEntry(sequence, [token])]))
        sequence.commit(1)
    seconds: dict[str, float] = collections.defaultdict(float)
    calls: collections.Counter[str] = collections.Counter()

    def run(self: RecordedCalls, first: int, stop: int, run_calls: RunCalls) -> tuple[int, str]:
        for index in range(self._starts[first], self._starts[stop]):
            began_at = time.perf_counter()
            status, _ = run_calls(self._address + index * CALL_BYTES, 1)
            seconds[self._names[index]] += time.perf_counter() - began_at
            calls[self._names[index]] += 1
            if status:
                return status, self._names[index]
        return 0, ""

    RecordedCalls.run = run  # type: ignore[method-assign]
    tokens: list[float] = []
    reads: list[float] = []
    for token in rng.integers(0, vocab_size, arguments.tokens).tolist():
        began_at = time.perf_counter()
        model.forward(Batch([BatchEntry(sequence, [token])]))
        sequence.commit(1)
        tokens.append(time.perf_counter() - began_at)
        reader.read()
        reads.append(reader.seconds)
    whole = sum(tokens)
    print(f"{arguments.model.name}: a token {statistics.median(tokens) * 1000:.2f} ms, ", end="")
    print(f"its bytes alone {statistics.median(reads) * 1000:.2f} ms ({sum(reads) / whole:.0%})")
    print("| operation | calls | ms a token | share |\n| --- | ---: | ---: | ---: |")
    count = len(tokens)
    for name, total in sorted(seconds.items(), key=lambda item: -item[1]):
        each = calls[name] / count
        print(f"| {name} | {each:.0f} | {total / count * 1000:.3f} | {total / whole:.1%} |")
    rest = whole - sum(seconds.values())
    print(f"| between them | | {rest / count * 1000:.3f} | {rest / whole:.1%} |")
    loaded.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
