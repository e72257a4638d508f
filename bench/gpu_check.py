"""Check and measure an NVIDIA card: `python bench/gpu_check.py`, under 8 minutes.

Needs numpy, a CuPy (for CUDA 12 or 13) and the kernel library that comes with the engine; nothing else.
Stages, correctness first; after each of them what is known by then is written as JSON (to `--json FILE`,
or to `gpu_check.json` in the folder that `$OUT` names):

    card         what it is; every kernel compiled and loaded
    operations   each of them against the reference
    memory       bandwidth of the card's memory, of the bus and of RAM
    products     distinct matrices of more than 500 MB in each format, for 1, 2, 4, 8 and 16 rows: bytes
                 a second, and the share of the floor (the larger of bytes / bandwidth and integer
                 multiply-adds / rate)
    choice       the largest logits of a window on the card, against all of them over the bus
    model        a synthetic model of the real shapes with what cards of 12, 16 and 24 GB would hold of its
                 experts: tokens a second, hit rate, and where a layer's time goes

`--emulated` takes the emulated card and sizes that it can do: that is how this file is tested.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.gpu_choice import ChoiceSizes, measure_choice
from bench.gpu_model import ModelSizes, measure_model
from bench.gpu_products import ProductSizes, measure_memory, measure_products
from engine.core.errors import EngineError
from engine.device.base import Device
from engine.device.select import open_card, open_emulated
from engine.ops.self_test_card import card_self_test

Report = dict[str, Any]
FORMAT = 1


def main() -> int:
    """Run the stages; 0 when every operation is right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the report goes")
    parser.add_argument("--index", type=int, help="CUDA's number of the card; default: the best")
    parser.add_argument("--stages", help="names with commas; default: all")
    parser.add_argument("--emulated", action="store_true", help="the emulated card, small sizes")
    parser.add_argument("--budget-s", type=float, default=420.0, help="stop beginning stages then")
    options = parser.parse_args()
    out = options.json or Path(os.environ.get("OUT", ".")) / "gpu_check.json"
    check = Check(out, options.budget_s)
    wanted = options.stages.split(",") if options.stages else None

    def opened() -> Device:
        return open_emulated(1 << 30) if options.emulated else open_card(options.index)

    products = ProductSizes.small() if options.emulated else ProductSizes()
    choice = ChoiceSizes.small() if options.emulated else ChoiceSizes()
    sizes = ModelSizes.small() if options.emulated else ModelSizes()
    stages: list[tuple[str, Callable[[], object]]] = [
        ("card", lambda: _card(opened())),
        ("operations", lambda: _operations(opened())),
        ("memory", lambda: measure_memory(opened(), products)),
        (
            "products",
            lambda: measure_products(
                opened(), products, check.report.get("memory"), check.progress
            ),
        ),
        ("choice", lambda: measure_choice(opened(), choice, check.progress)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        stages.append(("model", lambda: measure_model(opened, Path(folder), sizes, check.progress)))
        for name, run in stages:
            if wanted is None or name in wanted:
                check.stage(name, run)
    return check.finish()


class Check:
    """The report as it grows.

    Attributes:
        report: what is known by now.
    """

    def __init__(self, path: Path, budget_s: float) -> None:
        self.report: Report = {"format": FORMAT, "program": "gpu_check"}
        self._path = path
        self._ends_at = time.monotonic() + budget_s
        self._failed: list[str] = []

    def progress(self, line: str) -> None:
        """Say what was found."""
        print(f"  {line}", flush=True)

    def stage(self, name: str, run: Callable[[], object]) -> None:
        """Run one stage, and keep what it says or why it failed."""
        if time.monotonic() > self._ends_at:
            self.report[name] = {"error": "there was no time left"}
            self.progress(f"{name}: no time left")
            return
        print(f"{name}:", flush=True)
        began_at = time.monotonic()
        try:
            self.report[name] = run()
        except (EngineError, ArithmeticError, OSError, RuntimeError, ValueError) as error:
            self._failed.append(name)
            self.report[name] = {"error": f"{type(error).__name__}: {error}"}
            self.progress(f"failed: {error}")
        self.report.setdefault("seconds", {})[name] = round(time.monotonic() - began_at, 1)
        self._write()

    def finish(self) -> int:
        """Write the end; the exit status."""
        wrong = [check["name"] for check in _checks(self.report) if not check["ok"]]
        self.report["wrong_operations"] = wrong
        self.report["failed_stages"] = self._failed
        self._write()
        print(f"{len(wrong)} operations are wrong; stages that failed: {self._failed or 'none'}")
        print(f"The report is in {self._path}.")
        return 1 if wrong or self._failed else 0

    def _write(self) -> None:
        temporary = self._path.with_suffix(".part")
        temporary.write_text(json.dumps(self.report, indent=1), encoding="utf-8")
        temporary.replace(self._path)


def _checks(report: Report) -> list[Report]:
    found = report.get("operations")
    return found if isinstance(found, list) else []


def _card(device: Device) -> Report:
    began_at = time.perf_counter()
    device.load_kernels()
    info = device.info
    report = {
        "name": info.name,
        "capability": list(info.capability),
        "multiprocessors": info.num_multiprocessors,
        "total_bytes": info.total_bytes,
        "free_bytes": device.free_bytes(),
        "copy_engines": info.copy_engines,
        "kernels_loaded_s": round(time.perf_counter() - began_at, 2),
    }
    device.close()
    print(f"  {info.name}, {info.num_multiprocessors} multiprocessors, kernels loaded", flush=True)
    return report


def _operations(device: Device) -> list[Report]:
    checks = [
        {"name": check.name, "error": check.max_error, "bound": check.bound, "ok": check.ok}
        for check in card_self_test(device)
    ]
    right = sum(bool(check["ok"]) for check in checks)
    print(f"  {right} of {len(checks)} agree with the reference", flush=True)
    return checks


if __name__ == "__main__":
    sys.exit(main())
