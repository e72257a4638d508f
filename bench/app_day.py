"""A sped-up day of use: no message is lost, and neither memory nor handles grow.

    python -m bench.app_day [--rounds 60] [--json FILE]

The whole app offscreen (shell, window, all views) with its supervisor and a real engine process that plays
a script; `app_day_rounds.py` says what is done. After every round, with an empty conversation open, the
process is looked at. The first third of the rounds warms up. A count has grown when its least of the last
third is above its most of the second, or its median by more than comes and goes. Exit status 1 when something grew or a message differs from what was sent or arrived.

Before each look Qt's cache of drawn parts of buttons is emptied: at this pace it fills to its 10 MB, whatever
else happens, and would hide a leak of that size.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import psutil
from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler
from PySide6.QtGui import QPixmapCache
from PySide6.QtWidgets import QApplication
from shiboken6 import Shiboken

from app.app_settings import AppSettingsStore, app_settings_path
from app.chat.service import ChatService
from app.context import AppContext, Requests
from app.history.records import Role
from app.i18n.translate import Translations
from app.look.look import Look
from app.person_settings import PersonSettings
from app.shell import Shell
from app.supervisor.awake import Wakefulness
from app.supervisor.control import Surroundings
from app.supervisor.events import Patience
from app.supervisor.launch import serve_command
from app.supervisor.sleep_watch import SleepWatch
from app.supervisor.supervisor import Supervisor
from app.tray.notifications import Notifier
from bench.app_day_rounds import SCRIPT, Day, Ledger
from engine.core.keep_awake import NoKeepAwake
from engine.core.language import Language
from engine.core.settings import settings_path

MAX_GROWTH_MB = 15.0
MAX_GROWTH_SHARE = 0.05
# Connections come and go by one or two, wrappers by ten.
MAX_MORE = 2
MAX_MORE_SHARE = 0.005


@dataclass(frozen=True, slots=True)
class Sample:
    """The app's process after a round.

    Attributes:
        rss_mb: memory.
        handles: open files, sockets and pipes (Windows: all handles).
        threads: of the process.
        objects: Qt's objects below all windows and the application.
        timers: of these, timers.
        wrappers: Qt's things that Python holds.
    """

    rss_mb: float
    handles: int
    threads: int
    objects: int
    timers: int
    wrappers: int


COUNTS = ("handles", "threads", "objects", "timers", "wrappers")


def take_sample(app: QApplication) -> Sample:
    """Look at this process."""
    QPixmapCache.clear()
    gc.collect()
    process = psutil.Process()
    kinds = object_kinds(app)
    return Sample(
        rss_mb=process.memory_info().rss / 1e6,
        handles=process.num_handles() if sys.platform == "win32" else process.num_fds(),
        threads=process.num_threads(),
        objects=sum(kinds.values()),
        timers=kinds["QTimer"],
        wrappers=len(Shiboken.getAllValidWrappers()),
    )


def object_kinds(app: QApplication) -> Counter[str]:
    """Qt's objects below all windows and the application, by class.

    Qt itself prints them: `findChildren` would make a Python object of each, and PySide keeps 64 bytes for
    each of these when Qt deletes its own.
    """
    kinds: Counter[str] = Counter()

    def count(_type: QtMsgType, _context: QMessageLogContext, line: str) -> None:
        kinds[line.strip().partition("::")[0]] += 1

    before = qInstallMessageHandler(count)
    try:
        for root in (app, *(w for w in app.topLevelWidgets() if w.parent() is None)):
            root.dumpObjectTree()
    finally:
        qInstallMessageHandler(before)
    return kinds


def wrapper_kinds() -> Counter[str]:
    """What Python holds of Qt, by class: to find what grew."""
    return Counter(type(item).__name__ for item in Shiboken.getAllValidWrappers())


def growth_faults(samples: list[Sample]) -> list[str]:
    """What has grown, a sentence each."""
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[-third:]
    faults = []
    before, after = rss_before_and_after(samples)
    if after - before > max(MAX_GROWTH_MB, MAX_GROWTH_SHARE * before):
        faults.append(f"Memory grew from {before:.0f} to {after:.0f} MB.")
    for name in COUNTS:
        then, now = ([getattr(sample, name) for sample in part] for part in (middle, last))
        usual, new = statistics.median(then), statistics.median(now)
        if min(now) > max(then) or new - usual > max(MAX_MORE, MAX_MORE_SHARE * usual):
            faults.append(f"The number of {name} grew from {usual:.0f} to {new:.0f}.")
    return faults


def rss_before_and_after(samples: list[Sample]) -> tuple[float, float]:
    """Memory at the end of the warm-up and at the end: medians of three rounds."""
    third = len(samples) // 3
    start = samples[third - 1 : third + 2]
    return (
        statistics.median(sample.rss_mb for sample in start),
        statistics.median(sample.rss_mb for sample in samples[-3:]),
    )


def make_context(app: QApplication, home: Path) -> AppContext:
    """The app's parts as `app/main.py` makes them, with an engine that plays the script."""
    config, script = home / "configs" / "tiny.json", home / "script.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"format": 1, "port": 0}), encoding="utf-8")
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    settings = PersonSettings(settings_path(), app)
    data_dir = settings.value.data_dir
    store = AppSettingsStore(app_settings_path(), app)
    store.put(store.value.model_copy(update={"language": Language.ENGLISH}))
    supervisor = Supervisor(
        data_dir,
        config,
        app,
        surroundings=Surroundings(
            command=lambda path: [
                *serve_command(path),
                *("--script", str(script), "--repeat-stop-tokens", "0"),
            ],
            # An engine that is killed so often would be given up after a few times.
            patience=Patience(backoff_s=(0.1, 0.2), crash_window_s=1.0),
            wakefulness=Wakefulness(NoKeepAwake()),
        ),
        make_sleep_watch=SleepWatch,
    )
    opened: list[ChatService] = []

    def open_chats() -> ChatService:
        if not opened:
            opened.append(ChatService(data_dir, supervisor.http, app))
            opened[0].follow(supervisor)
        return opened[0]

    return AppContext(
        data_dir=data_dir,
        settings=settings,
        app_settings=store,
        supervisor=supervisor,
        look=Look(app, store.value.theme),
        notifier=Notifier(store, app),
        requests=Requests(app),
        open_chats=open_chats,
        close_chats=lambda: opened[0].close() if opened else None,
    )


def run(app: QApplication, home: Path, num_rounds: int) -> tuple[list[Sample], list[str], str]:
    """Live the day; samples, faults, and a line about what was done."""
    context = make_context(app, home)
    shell = Shell(app, context, Translations())
    ledger = Ledger()
    day = Day(shell, context, ledger)
    is_over = threading.Event()
    context.supervisor.stopped.connect(is_over.set)
    samples: list[Sample] = []
    begin = time.monotonic()
    kinds: Counter[str] = Counter()
    try:
        day.begin()
        for number in range(num_rounds):
            day.round(number)
            samples.append(take_sample(app))
            if number == num_rounds // 2:
                kinds = wrapper_kinds()
        more = wrapper_kinds() - kinds
    finally:
        shell.quit()
        day.waiting.until(is_over.is_set, "the engine's end")
    faults = growth_faults(samples)
    if faults:
        faults.append(f"More than in the middle: {dict(more.most_common(12))}.")
    faults += ledger.faults(context.data_dir / "history.db")
    said = (
        f"{num_rounds} rounds in {time.monotonic() - begin:.0f} s: "
        f"{ledger.count(Role.USER)} questions, {ledger.count(Role.ASSISTANT)} answers, "
        f"{day.num_kills} killed engines"
    )
    return samples, faults, said


def main() -> int:
    """Run and print the figures; 1 when something grew or was lost."""
    parser = argparse.ArgumentParser(description="A sped-up day of use of the app.")
    parser.add_argument("--rounds", type=int, default=60, help="at least 9")
    parser.add_argument("--json", type=Path, help="where to write every sample")
    options = parser.parse_args()
    if options.rounds < 9:
        parser.error("--rounds: fewer than 9 rounds show no growth")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, prefix="day ü ") as name:
        os.environ["STRATUM_HOME"] = name
        app = QApplication([])
        app.setQuitOnLastWindowClosed(False)
        samples, faults, said = run(app, Path(name), options.rounds)
    if options.json is not None:
        content = json.dumps([asdict(sample) for sample in samples], indent=1)
        options.json.write_text(content, encoding="utf-8")
    print(said)
    before, after = rss_before_and_after(samples)
    print(f"memory: {before:.1f} MB after a third, {after:.1f} MB at the end")
    third = len(samples) // 3
    for label in COUNTS:
        values = [getattr(sample, label) for sample in samples]
        middle, last = values[third : 2 * third], values[-third:]
        print(f"{label}: {min(middle)} to {max(middle)}, then {min(last)} to {max(last)}")
    for fault in faults:
        print(f"FAULT: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
