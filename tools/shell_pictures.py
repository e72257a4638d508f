"""Takes the pictures of the sign and its menu: `python -m tools.shell_pictures [OUT]`.

Needs a desktop that nobody sees (Xvfb, openbox, tint2, xdotool, imagemagick); the engine is the real one with
the bundled model.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.desktop import Desktop, end, missing, wait_until
from tools.small_pictures import make_small

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
# Language, theme.
SETS = tuple(itertools.product(("en", "zh"), ("light", "dark")))
_SETTLED_S = 1.5


def main() -> int:
    """Take them; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", default=IMAGES)
    out = parser.parse_args().out.absolute()
    if missing():
        print(f"shell_pictures: {', '.join(missing())} not installed", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    _take_signs(out / "app-signs.png")
    for language, theme in SETS:
        with tempfile.TemporaryDirectory() as name, Desktop.open(Path(name) / "desktop") as desktop:
            _take(desktop, Path(name) / "home", out, language, theme)
    return 0


def _take(desktop: Desktop, home: Path, out: Path, language: str, theme: str) -> None:
    end_of_name = f"{language}-{theme}.png"
    configs = home / "data" / "configs"
    configs.mkdir(parents=True)
    model = next((ROOT / "assets" / "models").rglob("*.gguf"))
    for model_id in ("tiny", "qwen3.8-flash-next-iq3"):
        content = {"format": 1, "model": str(model), "model_id": model_id, "port": 8080}
        (configs / f"{model_id}.json").write_text(json.dumps(content), "utf-8")
    settings = {"data_dir": str(home / "data"), "active_config": str(configs / "tiny.json")}
    (home / "settings.json").write_text(json.dumps({"format": 1, **settings}), "utf-8")
    switches = {"format": 1, "language": language, "theme": theme}
    (home / "app.json").write_text(json.dumps(switches), "utf-8")
    log = home / "data" / "logs" / "app.log"
    program = desktop.start(
        [sys.executable, "-m", "app"], cwd=ROOT, environment={"STRATUM_HOME": str(home)}
    )
    try:
        desktop.window("^Stratum$")
        wait_until(lambda: log.exists() and "engine: ready" in log.read_text("utf-8"), "the model")
        wait_until(desktop.sign_place, "the sign")
        time.sleep(_SETTLED_S)
        place = desktop.sign_place()
        if place is not None:
            desktop.click(*place, button=3)
            time.sleep(_SETTLED_S)
            _crop(desktop.picture(out / f"app-tray-{end_of_name}"), "290x292+1310+908")
    finally:
        end(program)


def _take_signs(path: Path) -> None:
    """All signs in two sizes, on a light and on a dark panel."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtCore import QSize  # noqa: PLC0415  # after the platform is chosen
    from PySide6.QtGui import QColor, QGuiApplication, QPainter, QPixmap  # noqa: PLC0415

    from app.tray.state_icon import ARC_STEPS, Sign, sign_icon  # noqa: PLC0415

    app = QGuiApplication(sys.argv[:1])
    shown = [(Sign.STOPPED, 0), (Sign.LOADING, 0), (Sign.LOADING, ARC_STEPS * 2 // 3)]
    shown += [(sign, 0) for sign in (Sign.UNLOADED, Sign.READY, Sign.ANSWERING, Sign.ERROR)]
    picture = QPixmap(100 * len(shown), 176)
    painter = QPainter(picture)
    for row, ground in enumerate(("#f4f5f6", "#202020")):
        painter.fillRect(0, 88 * row, picture.width(), 88, QColor(ground))
        for column, (sign, step) in enumerate(shown):
            icon = sign_icon(sign, step)
            painter.drawPixmap(100 * column + 8, 88 * row + 12, icon.pixmap(QSize(64, 64)))
            painter.drawPixmap(100 * column + 78, 88 * row + 60, icon.pixmap(QSize(16, 16)))
    painter.end()
    picture.save(str(path))
    del app


def _crop(path: Path, geometry: str) -> None:
    subprocess.run(["convert", str(path), "-crop", geometry, "+repage", str(path)], check=True)
    make_small(path)


if __name__ == "__main__":
    sys.exit(main())
