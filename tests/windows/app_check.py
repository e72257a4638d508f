"""Run by a Windows Python: starts the app, looks at it, starts it a second time, and quits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

program, home = Path(sys.argv[1]), Path(sys.argv[2])
sys.path[:0] = [str(program), *sys.argv[3:]]
os.chdir(program)
os.environ["STRATUM_HOME"] = str(home)
os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["PYTHONPATH"] = os.pathsep.join([str(program), *sys.argv[3:]])

from PySide6.QtCore import QTimer  # noqa: E402  # after the paths are set

from app import main as main_module  # noqa: E402
from app.instance import Request  # noqa: E402
from app.shell import Shell  # noqa: E402
from app.supervisor.state import Phase  # noqa: E402
from app.tray.state_icon import sign_of  # noqa: E402

report: dict[str, object] = {}
seconds: list[subprocess.Popen[bytes]] = []
began = time.monotonic()


class Watched(Shell):
    """The shell, with somebody who looks at it four times a second."""

    def start(self, *, at_login: bool) -> None:
        super().start(at_login=at_login)
        self._looks = QTimer(self)
        self._looks.timeout.connect(self._look)
        self._looks.start(250)

    def obey(self, request: Request) -> None:
        report["asked"] = request.wish.value
        super().obey(request)

    def _look(self) -> None:
        state = self._context.supervisor.state
        if self.window is None or not self.window.isVisible() or state.phase is not Phase.FAILED:
            if time.monotonic() - began > 120:
                report["phase"] = state.phase.value
                self.quit()
            return
        if not seconds:
            report["sign"] = sign_of(state).value
            report["reason"] = state.reason.code.value if state.reason is not None else ""
            report["banner"] = self.window.banner.label.text()
            seconds.append(
                subprocess.Popen([sys.executable, "-m", "app"], stdin=subprocess.DEVNULL)
            )
        elif "asked" in report:
            report["second_ends_with"] = seconds[0].wait(timeout=60)
            self._looks.stop()
            self._context.requests.quit.emit()


main_module.Shell = Watched  # type: ignore[misc]  # the one difference from the real start
report["ends_with"] = main_module.main([])
report["log_has_start"] = "starts" in (home / "data" / "logs" / "app.log").read_text("utf-8")
sys.stdout.write(json.dumps(report))
