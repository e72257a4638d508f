"""Run many mutants through one function, in a process of its own under limits.

    python -m tests.support.gguf_fuzz '{"action": "engine.core.gguf_header:read_model_header",
        "models": [["a.gguf"], ["b-00001-of-00002.gguf", "b-00002-of-00002.gguf"]],
        "seed": 1, "start": 0, "count": 5000, "header_only": true, "limit_bytes": 1073741824}'

The function gets a path; it may return or raise `EngineError`. Anything else is a finding: another
exception, a message that is not one sentence, a `MemoryError` (nothing above `limit_bytes` can be
allocated), more than `seconds_each` for one file (a stack trace on stderr and exit status 1), a
crash. One JSON object on stdout tells what happened.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.core.errors import EngineError
from tests.support.address_space import limit_address_space
from tests.support.gguf_mutator import load_seed, mutate, write

ROOT = Path(__file__).resolve().parents[2]
_MAX_FINDINGS = 20


def fuzz(
    action: str,
    models: Sequence[Sequence[Path]],
    *,
    count: int,
    seed: int = 1,
    start: int = 0,
    header_only: bool = True,
    limit_bytes: int = 1 << 30,
    seconds_each: float = 10,
) -> dict[str, object]:
    """Run the mutants `start` to `start + count` in a child process and return its report.

    The report: `outcomes` (error code or "accepted" -> how many), `findings` (sentences),
    `slowest_s`, `slowest` (what was done to that file), `peak_bytes` of address space over what
    the process had before.
    """
    order = {
        "action": action,
        "models": [[str(path) for path in paths] for paths in models],
        "seed": seed,
        "start": start,
        "count": count,
        "header_only": header_only,
        "limit_bytes": limit_bytes,
        "seconds_each": seconds_each,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.gguf_fuzz", json.dumps(order)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60 + count * seconds_each,
        check=False,
        # Every BLAS or OpenMP thread would reserve address space that counts against the limit.
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        return {"outcomes": {}, "findings": [f"exit status {done.returncode}: {done.stderr}"]}
    report: dict[str, object] = json.loads(done.stdout)
    return report


def _main(order: dict) -> None:
    module, name = order["action"].split(":")
    action: Callable[[Path], object] = getattr(importlib.import_module(module), name)
    seeds = [
        load_seed([Path(path) for path in paths], header_only=order["header_only"])
        for paths in order["models"]
    ]
    outcomes: Counter[str] = Counter()
    findings: list[str] = []
    slowest: tuple[float, str] = (0.0, "")
    with tempfile.TemporaryDirectory() as folder:
        limit_address_space(order["limit_bytes"])
        for index in range(order["start"], order["start"] + order["count"]):
            mutant = mutate(seeds, order["seed"], index)
            path = write(mutant, Path(folder))
            story = f"mutant {index}: {'; '.join(mutant.steps)}"
            faulthandler.dump_traceback_later(order["seconds_each"], exit=True)
            begin = time.perf_counter()
            outcome, finding = _try(action, path)
            seconds = time.perf_counter() - begin
            faulthandler.cancel_dump_traceback_later()
            slowest = max(slowest, (seconds, story))
            outcomes[outcome] += 1
            if finding and len(findings) < _MAX_FINDINGS:
                findings.append(f"{finding} ({story})")
    report = {
        "outcomes": dict(outcomes.most_common()),
        "findings": findings,
        "slowest_s": slowest[0],
        "slowest": slowest[1],
    }
    sys.stdout.write(json.dumps(report))


def _try(action: Callable[[Path], object], path: Path) -> tuple[str, str]:
    """What came of one file: an outcome to count, and a finding or nothing."""
    try:
        result = action(path)
    except EngineError as error:
        message = error.message
        if error.exit_status != 2:
            return error.code, f"exit status {error.exit_status}: {message}"
        bare = re.sub(r'"[^"]*"', "", message)  # names of keys and tensors may hold anything
        if not message.endswith(".") or ". " in bare or not message.isprintable():
            return error.code, f"not one sentence: {message!r}"
        return error.code, ""
    except BaseException as error:  # noqa: BLE001  every other exception is what we look for
        return type(error).__name__, f"{type(error).__name__}: {error}"
    close = getattr(result, "close", None)
    if close is not None:
        close()
    return "accepted", ""


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
