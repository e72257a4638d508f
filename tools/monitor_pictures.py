"""Takes pictures of the monitor and of each page of the settings, in both languages and both themes.

    python -m tools.monitor_pictures                       # docs/images, all that is kept there
    python -m tools.monitor_pictures OUT --language zh --dark

The engine with the bundled model really runs; the large model in the list is made up. ImageMagick's
`convert` makes the files small where it is there.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools.small_pictures import make_small

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
READY = re.compile(r"ready at (http://[^ ]*:\d+)")
SIZE = (1060, 860)


def main() -> int:
    """Take them; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", help="folder; default: what docs/ keeps")
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    if options.out is None:
        for language, theme in itertools.product(("en", "zh"), ((), ("--dark",))):
            subprocess.run(
                [
                    *(sys.executable, "-m", "tools.monitor_pictures", str(IMAGES)),
                    *("--language", language),
                    *theme,
                ],
                cwd=ROOT,
                check=True,
            )
        return 0
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "anna")
        os.environ["STRATUM_HOME"] = str(home)
        _take(out, home / "data", options.language, is_dark=options.dark)
    return 0


def _take(out: Path, data_dir: Path, language: str, *, is_dark: bool) -> None:
    from PySide6.QtTest import QTest  # noqa: PLC0415  # after the environment is set
    from PySide6.QtWidgets import QApplication  # noqa: PLC0415

    from app.app_settings import AppSettings, Theme, app_settings_path  # noqa: PLC0415
    from app.i18n.translate import Translations  # noqa: PLC0415
    from app.monitor.monitor_view import MonitorView  # noqa: PLC0415
    from app.settings import network, network_page  # noqa: PLC0415
    from app.settings.diagnostics_page import DiagnosticsPage  # noqa: PLC0415
    from app.settings.network_page import NetworkPage  # noqa: PLC0415
    from app.settings.settings_view import PageName, SettingsView  # noqa: PLC0415
    from engine.core.files import write_json  # noqa: PLC0415
    from engine.core.language import Language  # noqa: PLC0415
    from tests.app.monitor.live import LiveSupervisor, make_context  # noqa: PLC0415

    app = QApplication([])
    settings = AppSettings(theme=Theme.DARK if is_dark else Theme.LIGHT)
    write_json(app_settings_path(), settings.model_dump(mode="json"))
    translations = Translations()
    translations.speak(Language(language))
    network.lan_addresses = lambda: ["192.168.1.23"]
    network.make_key = network_page.make_key = lambda: "sk-stratum-0123456789abcdefghij"
    config = _make_up_models(data_dir)
    suffix = f"-{language}-{'dark' if is_dark else 'light'}"
    with _engine(config) as (url, pid):
        supervisor = LiveSupervisor(config)
        supervisor.watch(url, pid)
        context = make_context(app, supervisor)
        view = MonitorView(context)
        _show(view)
        for number in range(4):
            _ask(supervisor, f"Write a story of a ship, number {number}", 60)
        asking = threading.Thread(
            target=_ask, args=(supervisor, "Write a very long story of a ship. " * 40, 6000)
        )
        asking.start()
        begin = time.monotonic()
        while time.monotonic() - begin < 12:
            supervisor.look()
            QTest.qWait(500)
            if not asking.is_alive():
                asking = threading.Thread(
                    target=_ask, args=(supervisor, "Go on with the story. " * 90, 6000)
                )
                asking.start()
        view.slow.button.click()
        while not view.slow.button.isEnabled() and time.monotonic() - begin < 120:
            supervisor.look()
            QTest.qWait(300)
        _save(view, out / f"app-monitor{suffix}.png")
        view.hide()
        window = SettingsView(context)
        _show(window)
        for name in PageName:
            page = window.open_page(name)
            if isinstance(page, NetworkPage) and not page.open.isChecked():
                page.open.click()
            if isinstance(page, DiagnosticsPage):
                page.collect()
                while page.bundle is None and time.monotonic() - begin < 300:
                    QTest.qWait(200)
                page.list.setCurrentRow(3)
            QTest.qWait(6000 if name is PageName.RUN else 1500)
            _save(window, out / f"app-settings-{name.value}{suffix}.png")
        window.hide()
        asking.join()
        supervisor.http.close()


def _make_up_models(data_dir: Path) -> Path:
    """A folder that looks as if a large model were there; the bundled one's run config."""
    from engine.core.catalog_file import load_catalog  # noqa: PLC0415
    from engine.core.files import write_json  # noqa: PLC0415

    catalog = load_catalog()
    model = next(model for model in catalog.models if not model.is_bundled)
    folder = data_dir / "models" / model.id
    folder.mkdir(parents=True)
    (folder / "M-00001-of-00002.gguf").write_bytes(b"x")
    file = {"kind": "model", "path": "M-00001-of-00002.gguf", "bytes": 47_000_000_000}
    manifest = {"format": 1, "id": model.id, "title": catalog.title_of(model), "revision": ""}
    write_json(folder / "model.json", {**manifest, "files": [{**file, "sha256": "0" * 64}]})
    write_json(data_dir / "configs" / f"{model.id}.json", {"format": 1, "model_id": model.id})
    config = data_dir / "configs" / f"{catalog.bundled.id}.json"
    servers = {
        "files": {"command": sys.executable, "args": [str(ROOT / "tests" / "no-such-server.py")]},
        "tickets": {"url": "https://tickets.example/mcp", "disabled": True},
    }
    write_json(config, {"format": 1, "model_id": catalog.bundled.id, "mcp_servers": servers})
    return config


@contextmanager
def _engine(config: Path) -> Iterator[tuple[str, int]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "serve", "--config", str(config), "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        line = process.stdout.readline().decode() if process.stdout is not None else ""
        found = READY.search(line)
        if found is None:
            raise SystemExit(f"the engine did not start: {line}")
        yield found[1], process.pid
    finally:
        process.terminate()
        process.wait()


def _ask(supervisor: object, text: str, max_tokens: int) -> None:
    from app.engine_http import EngineHttp  # noqa: PLC0415

    http = getattr(supervisor, "http", None)
    if isinstance(http, EngineHttp):
        messages = [{"role": "user", "content": text}]
        http.post(
            "/v1/chat/completions",
            {"messages": messages, "max_tokens": max_tokens},
            read_timeout_s=300.0,
        )


def _show(widget: QWidget) -> None:
    from PySide6.QtTest import QTest  # noqa: PLC0415

    widget.resize(*SIZE)
    widget.show()
    QTest.qWaitForWindowExposed(widget)


def _hide_places(widget: QWidget) -> None:
    """Pictures name no folders of the machine that they were taken on."""
    from PySide6.QtWidgets import QLabel, QPlainTextEdit  # noqa: PLC0415

    places = ((os.environ["STRATUM_HOME"], "~/stratum"), (str(ROOT), "~/Stratum"))
    for label in widget.findChildren(QLabel):
        for place, shown in places:
            if place in label.text():
                label.setText(label.text().replace(place, shown))
    for text in widget.findChildren(QPlainTextEdit):
        for place, shown in places:
            if place in text.toPlainText():
                text.setPlainText(text.toPlainText().replace(place, shown))


def _save(widget: QWidget, path: Path) -> None:
    _hide_places(widget)
    widget.grab().save(str(path))
    make_small(path)


if __name__ == "__main__":
    sys.exit(main())
