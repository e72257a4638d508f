"""Loads thousands of models whose header is sound but whose content is wild, under a memory limit.

    python -m tests.support.model_fuzz OPS SEED COUNT

Mutants of whole files (`gguf_fuzz`) are mostly refused by the header's checks; here metadata values
and tensor shapes are changed behind these checks, so that the model's own are reached. One JSON
object on stdout: `outcomes` (kind -> how many) and `findings` (sentences).
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.core.errors import EngineError
from engine.gguf.reader import Tensor
from engine.model.trunk import Model
from engine.ops.base import Ops
from engine.ops.select import make_ops
from tests.support.address_space import limit_address_space
from tests.support.golden import forward, golden_limits, model_file

_CASES = ("full", "odd", "nople", "quant-Q2_0")
_LIMIT_BYTES = 1 << 30
_SECONDS_EACH = 10
_LIMITS = golden_limits(max_rows=4, max_sequences=1, context=32)
_EXTREMES = (
    -1, 0, 1, 2, 3, 5, 7, 8, 16, 31, 32, 33, 63, 64, 96, 127, 128, 255, 256, 1000, 1023, 1024, 4096,
    65_535, 65_536, (1 << 24), (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62,
    (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0.0, 0.5, -1.5, 1e-30, 1e30, float("nan"), float("inf"),
    True, False, "", "yarn", "qwen4exp", None, [], [0], [1, 2, 3], ["a"], [[1]],
)  # fmt: skip


@dataclass
class WildFile:
    """What `Model.load` reads of a file."""

    metadata: dict[str, object]
    tensors: dict[str, Tensor]


def make_wild(seed: int, index: int) -> tuple[WildFile, str]:
    """Mutant number `index`, and what was done to it."""
    rng = random.Random(f"{seed}:{index}")  # noqa: S311  a seeded row of numbers, no secret
    case = rng.choice(_CASES)
    good = model_file(case)
    wild = WildFile(dict(good.metadata), dict(good.tensors))
    steps = [case]
    kinds = (_set_key, _set_key, _set_element, _reshape, _replace)
    steps += [rng.choice(kinds)(wild, rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return wild, "; ".join(steps)


def _keys(wild: WildFile) -> list[str]:
    return sorted(k for k in wild.metadata if not k.startswith("tokenizer."))


def _set_key(wild: WildFile, rng: random.Random) -> str:
    key = rng.choice(_keys(wild))
    old = wild.metadata[key]
    value = rng.choice(_EXTREMES)
    if isinstance(old, int) and rng.random() < 0.5:
        value = rng.choice((old * 2, old // 2, old + 1, old - 1))
    if value is None:
        del wild.metadata[key]
    else:
        wild.metadata[key] = value
    return f"{key}: {str(old)[:30]} -> {value}"


def _set_element(wild: WildFile, rng: random.Random) -> str:
    lists = [k for k in _keys(wild) if isinstance(wild.metadata[k], list | tuple)]
    lists += [k for k in _keys(wild) if type(wild.metadata[k]).__name__ == "array"]
    if not lists:
        return "nothing"
    key = rng.choice(lists)
    values = list(wild.metadata[key])  # type: ignore[call-overload]
    if values and rng.random() < 0.8:
        values[rng.randrange(len(values))] = rng.choice(_EXTREMES)
    else:
        values = values[: len(values) // 2] if rng.random() < 0.5 else values * 2
    wild.metadata[key] = values
    return f"{key} -> {str(values)[:60]}"


def _reshape(wild: WildFile, rng: random.Random) -> str:
    name = rng.choice(sorted(wild.tensors))
    old = wild.tensors[name]
    shape = rng.choice(
        (old.shape[::-1], (*old.shape[:-1], 1, old.shape[-1]), (1, *old.shape), old.shape[1:])
    )
    if not shape or shape[-1] % old.type.block_values:
        return "nothing"
    num_bytes = int(np.prod(shape)) // old.type.block_values * old.type.block_bytes
    if num_bytes > len(old.data):
        return "nothing"
    wild.tensors[name] = Tensor(name, old.type, tuple(shape), old.data[:num_bytes])
    return f"{name}: {old.shape} -> {shape}"


def _replace(wild: WildFile, rng: random.Random) -> str:
    name, other = rng.choice(sorted(wild.tensors)), rng.choice(sorted(wild.tensors))
    if rng.random() < 0.3:
        del wild.tensors[name]
        return f"{name} removed"
    wild.tensors[name] = wild.tensors[other]
    return f"{name} is {other}"


def run_in_child(ops_name: str, seed: int, count: int) -> dict[str, object]:
    """Try `count` mutants in a process of its own; its report."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.model_fuzz", ops_name, str(seed), str(count)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    if done.returncode:
        return {"outcomes": {}, "findings": [f"exit status {done.returncode}: {done.stderr}"]}
    report: dict[str, object] = json.loads(done.stdout)
    return report


def _main(ops_name: str, seed: int, count: int) -> None:
    outcomes: Counter[str] = Counter()
    findings: list[str] = []
    for case in _CASES:
        model_file(case)
    ops = make_ops(ops_name, _LIMITS.for_ops())
    limit_address_space(_LIMIT_BYTES)
    for index in range(count):
        wild, story = make_wild(seed, index)
        faulthandler.dump_traceback_later(_SECONDS_EACH, exit=True)
        outcome = _try(wild, ops)
        faulthandler.cancel_dump_traceback_later()
        outcomes[outcome.split(":")[0]] += 1
        if outcome.startswith("finding"):
            findings.append(f"{outcome} ({story})")
    sys.stdout.write(json.dumps({"outcomes": outcomes, "findings": findings[:20]}))


def _try(wild: WildFile, ops: Ops) -> str:
    try:
        model = Model.load(wild, ops, _LIMITS)  # type: ignore[arg-type]
        with np.errstate(all="ignore"):
            forward(model, model.new_sequence(), [0, 1 % model.config.vocab_size, 0])
    except EngineError as error:
        if error.exit_status != 2 or not error.message.endswith("."):
            return f"finding: {error.message}"
        return "refused"
    except BaseException as error:  # noqa: BLE001  every other exception is what we look for
        return f"finding: {type(error).__name__}: {error}"
    return "accepted"


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
