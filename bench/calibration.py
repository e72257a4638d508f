"""Does calibration find the best thread count? `python -m bench.calibration [--model FILE]`.

Runs `engine calibrate --dry-run`, then measures every thread count there is, three times in turns, and
says how near the choice comes to the best of them. Exit status 1 when it is more than 3 % behind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from engine.calibrate import MIN_GAIN, Trial
from engine.calibrate_worker import WorkerSpeedometer, measured_prompts
from engine.core.config import RunConfig
from engine.core.topology import default_threads_here, read_cores

ROUNDS = 3
TOKENS = 128


async def sweep(config: RunConfig, counts: list[int]) -> dict[int, float]:
    """Tokens per second for each thread count: the median over rounds in turns."""
    prompts, stop_ids = measured_prompts(config.model_path)
    speedometer = WorkerSpeedometer(config, prompts, stop_ids)
    rates: dict[int, list[float]] = {count: [] for count in counts}
    try:
        for turn in range(ROUNDS):
            for count in counts if turn % 2 == 0 else reversed(counts):
                rates[count] += await speedometer.measure(Trial({"threads": count}), TOKENS)
    finally:
        await speedometer.close()
    return {count: statistics.median(found) for count, found in rates.items()}


def chosen_threads(config: RunConfig) -> int:
    """What `engine calibrate` chooses."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        content = {"format": 1, "model": str(config.model_path.resolve())}
        path.write_text(json.dumps(content), encoding="utf-8")
        words = ["calibrate", "--config", str(path), "--dry-run", "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "engine", *words],
            stdout=subprocess.PIPE,
            check=True,
            env={**os.environ, "STRATUM_HOME": folder},  # a running server would be in its way
        )
    settings = json.loads(done.stdout)["settings"]
    return int(settings.get("threads", default_threads_here()))


def main() -> int:
    """Compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=None, help="default: the bundled model")
    config = RunConfig(model=parser.parse_args().model)
    chosen = chosen_threads(config)
    counts = list(range(1, len(read_cores()) + 1))
    rates = asyncio.run(sweep(config, counts))
    best = max(rates, key=lambda count: rates[count])
    behind = 1 - rates[chosen] / rates[best]
    for count, rate in rates.items():
        marks = " (chosen)" * (count == chosen) + " (best)" * (count == best)
        print(f"{count:4d} threads {rate:9.2f} tokens/s{marks}")
    print(f"The choice is {behind:.1%} behind the best.")
    return 0 if behind <= MIN_GAIN else 1


if __name__ == "__main__":
    sys.exit(main())
