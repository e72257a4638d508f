"""Do two engines on one machine get in each other's way? Decodes alone, then two at once.

    python bench/two_engines.py --model FILE.gguf --seconds 3 --rounds 5

Each engine is a process of its own with the default number of threads (or `--threads`), so two of
them want twice the cores that there are. Alone and together alternate, the medians count. The sum of
two should be near what one does alone: both share the same memory and cores, and time lost between
them shows as a smaller sum.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

PROMPT_TOKENS = 16


def main() -> int:
    """Measure and print; 0."""
    parser = argparse.ArgumentParser(description="Two engines on one machine.")
    parser.add_argument("--model", type=Path, default=ROOT / "assets/models/stratum-tiny.gguf")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one decode")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="of each engine; 0 = its default")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return decode_on_command(arguments.model, arguments.threads, arguments.seconds)
    report = compare(arguments)
    if arguments.json:
        print(json.dumps(report))
    else:
        for key, value in report.items():
            print(f"{key:<28} {value}")
    return 0


def compare(arguments: argparse.Namespace) -> dict[str, float | str]:
    """Tokens per second of one engine alone, and of two at once."""
    command = [sys.executable, __file__, "--child", "--model", str(arguments.model)]
    command += ["--threads", str(arguments.threads), "--seconds", str(arguments.seconds)]
    engines = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        threads = min(answer(engine) for engine in engines)  # the same for both
        alone: list[float] = []
        together: list[list[float]] = []
        for index in range(arguments.rounds):
            alone.append(float(run(engines[index % 2 : index % 2 + 1])[0]))
            together.append([float(rate) for rate in run(engines)])
    finally:
        for engine in engines:
            engine.communicate("quit\n")
    one = statistics.median(alone)
    both = statistics.median(map(sum, together))
    return {
        "model": arguments.model.name,
        "threads of each": threads,
        "alone, tokens/s": round(one, 1),
        "two at once, sum, tokens/s": round(both, 1),
        "sum / alone": round(both / one, 3),
        "slower / faster of the two": round(
            statistics.median(min(rates) / max(rates) for rates in together), 3
        ),
    }


def run(engines: list[subprocess.Popen[str]]) -> list[str]:
    """Let these engines decode at the same time."""
    for engine in engines:
        if engine.stdin is not None:
            engine.stdin.write("go\n")
            engine.stdin.flush()
    return [answer(engine) for engine in engines]


def answer(engine: subprocess.Popen[str]) -> str:
    """The next line of an engine."""
    line = engine.stdout.readline().strip() if engine.stdout is not None else ""
    if not line:
        raise SystemExit("An engine ended early.")
    return line


def decode_on_command(path: Path, threads: int, seconds: float) -> int:
    """One engine: load, then decode for a while at each line of standard input."""
    from engine.worker.blas_threads import limit_blas_threads  # noqa: PLC0415  # before numpy

    limit_blas_threads()
    from engine.core.config import RunConfig  # noqa: PLC0415
    from engine.sequence.batch import Batch, BatchEntry  # noqa: PLC0415
    from engine.worker.loading import load_model  # noqa: PLC0415

    loaded = load_model(RunConfig(model=path, threads=threads, context=4096), parallel=1)
    model = loaded.model
    print(getattr(loaded.ops, "num_threads", 1), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        sequence = model.new_sequence()
        result = model.forward(Batch([BatchEntry(sequence, list(range(1, PROMPT_TOKENS + 1)))]))
        sequence.commit(PROMPT_TOKENS)
        count, began_at = 0, time.perf_counter()
        while (now := time.perf_counter()) - began_at < seconds and sequence.length < 4000:
            token = int(result.logits[0].argmax())
            result = model.forward(Batch([BatchEntry(sequence, [token])]))
            sequence.commit(1)
            count += 1
        sequence.release()
        print(count / (now - began_at), flush=True)
    loaded.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
