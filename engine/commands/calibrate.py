"""`engine calibrate --config FILE`: find the settings that make decoding faster on this machine.

Winners are written into the config file as explicit keys, and kept in the data folder per machine and
model. With `--json` standard output holds one JSON object at the end, and standard error one JSON
object per line while it works (docs/how-it-works/calibration.md). Ctrl-C, or SIGTERM, ends it and
changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine.commands import Subparsers
from engine.core.calibration import (
    Calibration,
    Finding,
    SettingValue,
    calibrated_settings,
    calibration_key_here,
    explicit_settings,
    read_calibrations,
    save_calibration,
    write_settings,
)
from engine.core.cgroup import cpu_limit
from engine.core.config import OpsName
from engine.core.config_file import load_config
from engine.core.draft_head_file import draft_head_path
from engine.core.errors import EngineError, InputError
from engine.core.gguf_header import find_shards, read_model_header
from engine.core.gpu import probe_gpus
from engine.core.machine import probe_machine
from engine.core.model_sizes import model_config_of
from engine.core.processor import warn_of_processor
from engine.core.settings import live_engine_record, load_settings
from engine.core.sockets import count_sockets
from engine.core.topology import read_cores

if TYPE_CHECKING:  # `--help` and wrong flags must answer at once
    from engine.calibrate import Planned, Round, Skipped
    from engine.core.config import RunConfig
    from engine.worker.messages import Progress

EXIT_CANCELLED = 130


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "calibrate", help="find the settings that make decoding faster on this machine"
    )
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="run config to tune"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object; progress as lines on standard error"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="measure and show, but change nothing"
    )
    parser.add_argument(
        "--script", type=Path, metavar="FILE.json", help="measure a scripted worker (for tests)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Calibrate; 0, or 130 when it was cancelled.

    Raises:
        EngineError: the config or the model cannot be used, or a server is running.
    """
    printer = _Printer(as_json=arguments.json)
    task = _prepare(arguments)
    printer.plan(task)
    try:
        findings = asyncio.run(_measure(task, printer)) if task.planned else []
    except (KeyboardInterrupt, asyncio.CancelledError):
        _drop_strangers(task)
        printer.cancelled(task)
        return EXIT_CANCELLED
    except EngineError as error:
        _drop_strangers(task)
        raise EngineError(
            f"Calibration failed: {error.message} {task.unchanged}",
            code="calibration_failed",
            params={"reason": error.message, "reason_code": error.code},
        ) from error
    winners = {f.key: f.value for f in findings if f.is_kept and f.value is not None}
    if not task.is_dry:
        _keep(task, winners, findings)
    printer.finished(task, winners, findings)
    return 0


@dataclass(slots=True)
class _Task:
    """One calibration.

    Attributes:
        path: the config file.
        base: the config without what an earlier calibration wrote.
        ours: what an earlier calibration wrote into the file.
        is_known: that calibration was of this machine and model.
    """

    path: Path
    base: RunConfig
    data_dir: Path
    key: str
    command: Sequence[str] | None
    is_dry: bool
    ours: dict[str, SettingValue] = field(default_factory=dict)
    is_known: bool = False
    planned: list[Planned] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def unchanged(self) -> str:
        """What is in the config when nothing was measured to the end."""
        if self.ours and (self.is_known or self.is_dry):
            return "The settings of the last calibration stay."
        return "The default settings stay."


def _prepare(arguments: argparse.Namespace) -> _Task:
    from engine.calibrate import Situation, plan_steps  # noqa: PLC0415
    from engine.calibrate_steps import STEPS  # noqa: PLC0415
    from engine.worker.client import scripted_command  # noqa: PLC0415

    config = load_config(arguments.config)
    data_dir = load_settings().data_dir
    record = live_engine_record(data_dir)
    if record is not None and arguments.script is None:
        raise InputError(
            f"Stratum's server is running (process {record.pid}); it would disturb the measurement. "
            "Stop it and start the calibration again.",
            code="engine_running",
            params={"pid": record.pid, "port": record.port},
        )
    if config.upstream is None:
        find_shards(config.model_path)
        warn_of_processor(config)
    machine = probe_machine()
    ours = calibrated_settings(config, data_dir)
    base = _without(config, ours)
    key = calibration_key_here(base)
    known = read_calibrations(data_dir).get(key)
    situation = Situation(
        base,
        machine,
        read_cores(),
        count_sockets(),
        cpu_limit(),
        has_draft_head=_has_draft_head(base),
        has_card=_has_card(base),
    )
    planned, skipped = plan_steps(STEPS, situation, _by_hand(base))
    return _Task(
        path=arguments.config,
        base=base,
        data_dir=data_dir,
        key=key,
        command=None if arguments.script is None else scripted_command(arguments.script),
        is_dry=arguments.dry_run,
        ours=ours,
        is_known=known is not None and ours.items() <= known.settings.items(),
        planned=planned,
        skipped=skipped,
    )


def _has_draft_head(config: RunConfig) -> bool:
    """Whether drafts of the model's own can be made, by the names of files and tensors alone."""
    if config.upstream is not None or config.spec_mtp == 0:
        return False
    header = read_model_header(config.model_path)
    return model_config_of(header).num_mtp_layers > 0 or draft_head_path(config, header) is not None


def _has_card(config: RunConfig) -> bool:
    """Whether a graphics card will compute, as far as can be seen without loading the model.

    One that was not checked on this PC yet is checked now, as the first start would do.
    """
    from engine.device.select import usable_cards  # noqa: PLC0415
    from engine.worker.card_choice import wanted_gpus  # noqa: PLC0415
    from engine.worker.card_gate import allowed_cards  # noqa: PLC0415

    if config.upstream is not None or config.ops not in {OpsName.AUTO, OpsName.CUDA}:
        return False
    if config.ops is OpsName.AUTO:
        report = probe_gpus()
        try:
            wanted = wanted_gpus(config, report.cards)
        except EngineError:  # a card is named that is not there: loading says so
            return False
        return bool(allowed_cards(config, wanted, report.driver).passed)
    try:
        return bool(usable_cards())
    except EngineError:  # no card, too old a card, no packages
        return False


def _without(config: RunConfig, keys: Mapping[str, SettingValue]) -> RunConfig:
    data = {key: getattr(config, key) for key in config.model_fields_set - keys.keys()}
    return type(config).model_validate({**data, **(config.model_extra or {})})


def _by_hand(base: RunConfig) -> dict[str, SettingValue]:
    """Settings that the person chose; one that equals the default chose nothing."""
    return {
        key: value
        for key, value in explicit_settings(base).items()
        if value != type(base).model_fields[key].default
    }


async def _measure(task: _Task, printer: _Printer) -> list[Finding]:
    from engine.calibrate import Calibrator  # noqa: PLC0415
    from engine.calibrate_worker import WorkerSpeedometer, measured_prompts  # noqa: PLC0415

    prompts, stop_ids = measured_prompts(task.base.model_path)
    speedometer = WorkerSpeedometer(
        task.base.model_copy(update={"save_sessions": False}),
        prompts,
        stop_ids,
        command=task.command,
        on_load=printer.loading,
    )
    loop = asyncio.get_running_loop()
    this = asyncio.current_task()
    with contextlib.suppress(NotImplementedError, AttributeError):  # Windows has none
        loop.add_signal_handler(signal.SIGTERM, this.cancel if this is not None else loop.stop)
    try:
        return await Calibrator(task.planned, speedometer, printer.observe).run()
    finally:
        await speedometer.close()


def _drop_strangers(task: _Task) -> None:
    """Put defaults in the place of what a calibration of another machine or model has left."""
    if task.ours and not task.is_known and not task.is_dry:
        write_settings(task.path, dict.fromkeys(task.ours))


def _keep(task: _Task, winners: Mapping[str, SettingValue], findings: Sequence[Finding]) -> None:
    changes: dict[str, SettingValue | None] = dict.fromkeys(task.ours)
    write_settings(task.path, {**changes, **winners})
    if findings:
        now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        calibration = Calibration(measured_at=now, settings=dict(winners), findings=tuple(findings))
        save_calibration(task.data_dir, task.key, calibration)


class _Printer:
    """Progress and result, for people or as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._began_at = time.monotonic()
        self._done = self._total = 0

    def _event(self, kind: str, name: str, line: str, **fields: object) -> None:
        event: dict[str, object] = {"event": kind, "done": self._done, "total": self._total}
        event |= {"name": name, "line": line, **fields}
        print(json.dumps(event, ensure_ascii=False), file=sys.stderr, flush=True)

    def plan(self, task: _Task) -> None:
        """What will be measured."""
        self._total = sum(entry.num_rounds for entry in task.planned)
        lines = [f"{skipped.key}: not measured, {skipped.reason}" for skipped in task.skipped]
        for entry in task.planned:
            values = ", ".join(str(value) for value in entry.candidates.others)
            default = entry.candidates.default
            lines.append(f"{entry.step.key}: {default} is the default; to be tried: {values}")
        if self._as_json:
            steps = [
                {
                    "key": entry.step.key,
                    "title": entry.step.title,
                    "default": entry.candidates.default,
                    "values": list(entry.candidates.others),
                }
                for entry in task.planned
            ]
            self._event("plan", "", "; ".join(lines), steps=steps, skipped=_skipped(task))
            return
        if task.planned:
            lines.append(f"At most {self._total} rounds. Ctrl-C ends it and changes nothing.")
        print("\n".join(lines), flush=True)

    def loading(self, settings: Mapping[str, SettingValue], progress: Progress) -> None:
        """The model is being loaded."""
        if self._as_json:
            self._event(
                "load",
                next(reversed(list(settings)), ""),
                "",
                settings=dict(settings),
                done_bytes=progress.done_bytes,
                total_bytes=progress.total_bytes,
            )

    def observe(self, what: Round | Finding) -> None:
        """A round has been measured, or a step is over."""
        if isinstance(what, Finding):
            if self._as_json:
                self._event("step", what.key, _verdict(what), **_plain(what))
            else:
                print(_verdict(what), flush=True)
            return
        self._done, self._total = what.done, what.total
        elapsed_s = time.monotonic() - self._began_at
        left_s = elapsed_s / what.done * (what.total - what.done)
        rate = None if what.tokens_per_s is None else round(what.tokens_per_s, 2)
        words = f"failed: {what.error}" if rate is None else f"{rate:.2f} tokens/s"
        line = f"{what.key} {what.value}: {words}"
        if self._as_json:
            self._event(
                "round",
                what.key,
                line,
                key=what.key,
                value=what.value,
                duel=what.is_duel,
                tokens_per_s=rate,
                left_s=round(left_s, 1),
                error=what.error,
            )
        else:
            left = f"(about {_in_words(left_s)} left)"
            print(f"[{what.done}/{what.total}] {line} {left}", flush=True)

    def cancelled(self, task: _Task) -> None:
        """It was stopped."""
        sentence = f"Calibration was stopped. {task.unchanged}"
        if self._as_json:
            self._event("cancelled", "", sentence)
            report = {"ok": False, "cancelled": True, "message": sentence, "settings": {}}
            print(json.dumps(report, ensure_ascii=False))
        else:
            print(sentence, flush=True)

    def finished(
        self, task: _Task, winners: Mapping[str, SettingValue], findings: Sequence[Finding]
    ) -> None:
        """The result."""
        if self._as_json:
            report = {
                "ok": True,
                "cancelled": False,
                "config": str(task.path),
                "key": task.key,
                "changed": not task.is_dry and dict(winners) != task.ours,
                "settings": dict(winners),
                "findings": [_plain(finding) for finding in findings],
                "skipped": _skipped(task),
                "took_s": round(time.monotonic() - self._began_at, 1),
            }
            print(json.dumps(report, ensure_ascii=False))
            return
        if winners:
            words = ", ".join(f"{key} = {value}" for key, value in winners.items())
            done = "would be written to" if task.is_dry else "is now in"
            print(f"{words} {done} {task.path}.")
        elif findings:
            print("The defaults are best here; nothing is set.")
        else:
            print("There is nothing to measure on this machine; the defaults are used.")


def _verdict(finding: Finding) -> str:
    if finding.value is None or finding.tokens_per_s is None:
        return f"{finding.key}: nothing is faster than the default, {finding.default}"
    words = (
        f"{finding.key} {finding.value}: {finding.tokens_per_s:.2f} tokens/s against "
        f"{finding.default_tokens_per_s:.2f} with {finding.default} ({finding.gain:+.1%})"
    )
    return f"{words}: kept" if finding.is_kept else f"{words}: not more than 3 %, the default stays"


def _plain(finding: Finding) -> dict[str, object]:
    data = finding.model_dump(mode="json")
    for name in ("default_tokens_per_s", "tokens_per_s", "gain"):
        value = data[name]
        data[name] = round(value, 4) if isinstance(value, float) else value
    return data


def _skipped(task: _Task) -> list[dict[str, str]]:
    return [{"key": s.key, "title": s.title, "reason": s.reason} for s in task.skipped]


def _in_words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
