"""How fast a model answers that is larger than its memory, in each mode of its experts.

    python -m bench.make_synthetic --preset q2_0 --layers 8 --out /tmp/m.gguf
    python -m bench.expert_modes --model /tmp/m.gguf --share 0.6 --out RESULT.md

Each mode runs in a process of its own, in a control group that may hold that share of the file's size, with
a cold file cache. All must compute the same logits; that is checked. Linux, with the right to make groups.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.memory_group import memory_group
from engine.bench import measure_speed
from engine.core.config import RunConfig
from engine.core.disk_reads import as_object
from engine.core.process_memory import peak_resident_bytes, private_bytes
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from engine.worker.loading import LoadedModel, load_model

Report = dict[str, object]

# Name, and the settings beyond those that all have.
MODES: dict[str, dict[str, object]] = {
    "mapped, the system alone": {"expert_mode": "mapped", "expert_look_ahead": "off"},
    "mapped, look-ahead": {"expert_mode": "mapped"},
    "budget, nothing known": {"expert_mode": "budget"},
    "budget, counts learned": {"expert_mode": "budget", "with_profile": True},
}
UNLIMITED: dict[str, dict[str, object]] = {
    "mapped, all in memory": {"expert_mode": "mapped"},
    "mapped, all in memory, look-ahead on": {"expert_mode": "mapped", "expert_look_ahead": "on"},
    "resident": {"expert_mode": "resident"},
}


def main(words: Sequence[str] | None = None) -> int:
    """Run the modes and write the table; 0, or 1 when logits differ."""
    parser = argparse.ArgumentParser(description="speed of each mode of the experts")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--share", type=float, default=0.6, help="memory, of the file's size")
    parser.add_argument("--prompt-tokens", type=int, default=48)
    parser.add_argument("--gen-tokens", type=int, default=24)
    parser.add_argument("--modes", nargs="*", help="only those whose name holds one of these")
    parser.add_argument("--out", type=Path, help="where the table goes; default: only shown")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.child:
        print(json.dumps(_child(json.loads(arguments.child))))
        return 0
    size = arguments.model.stat().st_size
    profile = arguments.model.with_suffix(".experts.json")
    reports: dict[str, Report] = {}
    for modes, limit in ((MODES, int(size * arguments.share)), (UNLIMITED, None)):
        for name, settings in modes.items():
            if arguments.modes and not any(word in name for word in arguments.modes):
                continue
            job = {
                "model": str(arguments.model),
                "prompt": arguments.prompt_tokens,
                "gen": arguments.gen_tokens,
                "settings": {**settings, "expert_profile": str(profile)},
            }
            reports[name] = _run(job, limit)
            print(f"{name}: {json.dumps(reports[name])}", flush=True)
    table = _table(reports)
    print(table)
    if arguments.out is not None:
        arguments.out.write_text(table, encoding="utf-8")
    return 0 if len({report.get("logits") for report in reports.values()}) <= 1 else 1


def _run(job: dict[str, object], limit_bytes: int | None) -> Report:
    command = [sys.executable, "-m", "bench.expert_modes", "--model", str(job["model"])]
    command += ["--child", json.dumps(job)]
    _drop_cached(Path(str(job["model"])))
    if limit_bytes is None:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        peak = None
    else:
        with memory_group(limit_bytes) as group:
            done = subprocess.run(
                group.inside(command), check=False, capture_output=True, text=True
            )
            peak = group.peak_bytes
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:], "status": done.returncode}
    return {**json.loads(done.stdout.splitlines()[-1]), "limit": limit_bytes, "group_peak": peak}


def _child(job: dict[str, object]) -> Report:
    settings = dict(job["settings"])  # type: ignore[call-overload]  # our own JSON
    if not settings.pop("with_profile", False):
        settings.pop("expert_profile")
        if settings["expert_mode"] == "budget":
            settings["expert_profile"] = "/nonexistent/experts.json"
    else:
        settings["expert_profile_learn"] = True
    config = RunConfig.model_validate(
        {"model": job["model"], "context": 1024, "prompt_chunk": 64, **settings}
    )
    began_at = time.perf_counter()
    loaded = load_model(config, parallel=1)
    load_s = time.perf_counter() - began_at
    load_peak, load_now = peak_resident_bytes(), _resident_bytes()
    try:
        with np.errstate(all="ignore"):
            digest = _logits(loaded)
            prompt, gen = int(str(job["prompt"])), int(str(job["gen"]))
            speeds = [measure_speed(loaded, prompt, gen) for _ in range(2)]
        tier = loaded.experts
        guess = (
            tier.reader.guess_precision if tier is not None and tier.reader is not None else None
        )
        return {
            "logits": digest,
            "load_s": round(load_s, 2),
            "prompt_per_s": round(statistics.median(s.prompt_per_s for s in speeds), 2),
            "decode_per_s": round(speeds[-1].decode_per_s, 2),
            "steps": gen - 1,
            "disk": as_object(speeds[-1].disk, gen - 1),
            "kept": tier.kept.num_bytes if tier is not None else 0,
            "is_copy": tier.kept.is_copy if tier is not None else False,
            "guess": round(guess, 3) if guess is not None else None,
            "private": private_bytes(),
            "load_peak": load_peak,
            "load_now": load_now,
            "peak": peak_resident_bytes(),
        }
    finally:
        loaded.save()
        loaded.close()


def _logits(loaded: LoadedModel) -> str:
    """A digest of the logits after a few prompts of several lengths, exact to the bit."""
    digest = hashlib.sha256()
    for length in (1, 5, 16):
        sequence = loaded.model.new_sequence()
        try:
            for start in (0, length):
                ids = [
                    (31 * i + 7) % loaded.limits.vocab_size for i in range(start, start + length)
                ]
                result = loaded.model.forward(Batch([BatchEntry(sequence, ids, LogitsWanted.ALL)]))
                digest.update(np.ascontiguousarray(result.logits).tobytes())
                sequence.commit(length)
        finally:
            sequence.release()
    return digest.hexdigest()[:16]


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def _drop_cached(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _table(reports: dict[str, Report]) -> str:
    columns = (
        "mode",
        "memory, GB",
        "load, s",
        "prompt, tokens/s",
        "decode, tokens/s",
        "experts read a token, MB",
        "waited a token, ms",
        "page faults a token",
        "kept, GB",
        "guesses right",
        "peak while loading, GB",
        "at the end, GB",
    )
    lines = [f"| {' | '.join(columns)} |", "| --- |" + " ---: |" * (len(columns) - 1)]
    lines += [f"| {' | '.join(_row(name, report))} |" for name, report in reports.items()]
    return "\n".join(lines) + "\n"


def _row(name: str, report: Report) -> list[str]:
    if "error" in report:
        return [name, f"failed: {report['error']}", *[""] * 10]
    disk = report["disk"]
    assert isinstance(disk, dict)  # noqa: S101  # our own report
    experts, pages = disk.get("experts", {}), disk.get("pages", {})
    steps = int(str(report["steps"]))

    def number(value: object, scale: float, digits: int) -> str:
        return "" if value is None else f"{float(str(value)) / scale:.{digits}f}"

    guess = report["guess"]
    return [
        name,
        number(report["limit"], 1e9, 2) or "all",
        f"{report['load_s']}",
        f"{report['prompt_per_s']}",
        f"{report['decode_per_s']}",
        number(experts.get("bytes"), 1e6 * steps, 1),
        number(experts.get("waited_ms_per_token"), 1, 1),
        number(pages.get("reads"), steps, 1),
        number(report["kept"], 1e9, 2) + (" copied" if report["is_copy"] else ""),
        "" if guess is None else f"{float(str(guess)):.0%}",
        number(report["load_peak"], 1e9, 2),
        number(report["peak"], 1e9, 2),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
