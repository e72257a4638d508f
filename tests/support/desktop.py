"""A desktop of X11 that nobody sees: a screen, a window manager, and a panel with a place for signs.

    with Desktop.open(folder) as desktop:
        program = desktop.start([sys.executable, "-m", "app"], cwd=ROOT)
        desktop.window("Stratum")           # waits for it
        desktop.click(x, y, button=3)

The panel starts before the program does, else a sign docks late. Needs Xvfb, openbox, tint2 and xdotool;
`missing()` names what is not there.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("Xvfb", "openbox", "tint2", "xdotool", "xwininfo", "import")
PATIENCE_S = 60.0
SCREEN = "1600x1200x24"


def missing() -> list[str]:
    """What a desktop needs and this machine has not."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def wait_until(is_true: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for something; `what` says in the failure what did not happen."""
    deadline = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < deadline, f"{what} did not happen within {patience_s:.0f} s"
        time.sleep(0.1)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, hard if need be."""
    process.terminate()
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=60)


@dataclass(slots=True)
class Desktop:
    """One.

    Attributes:
        display: its name, such as `:1`.
        folder: where its programs' own files go.
    """

    display: str
    folder: Path
    _panel: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path, *, with_panel: bool = True) -> Iterator[Desktop]:
        """Start one; all that was started here has ended afterwards."""
        folder.mkdir(parents=True, exist_ok=True)
        number = folder / "display"
        with contextlib.ExitStack() as stack:
            with number.open("wb") as file:
                xvfb = subprocess.Popen(
                    ["Xvfb", "-displayfd", "1", "-screen", "0", SCREEN, "-nolisten", "tcp"],
                    stdout=file,
                    stderr=subprocess.DEVNULL,
                )
            stack.callback(end, xvfb)
            wait_until(lambda: number.read_text().strip() != "", "Xvfb's start")
            desktop = cls(f":{number.read_text().strip()}", folder)
            manager = desktop.start(["openbox"])
            stack.callback(end, manager)
            root_property = ["xprop", "-root", "_NET_SUPPORTING_WM_CHECK"]
            wait_until(lambda: "window id" in desktop.output(root_property), "openbox's start")
            if with_panel:
                desktop.start_panel()
            try:
                yield desktop
            finally:
                desktop.stop_panel()

    @property
    def environment(self) -> dict[str, str]:
        """For programs on it. No session bus: one that is started by itself would outlive the test."""
        return {
            **os.environ,
            "DISPLAY": self.display,
            "QT_QPA_PLATFORM": "xcb",
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={self.folder}/no-bus",
            "XDG_RUNTIME_DIR": str(self.folder),
            "PYTHONUTF8": "1",
        }

    def start(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program on it; its output goes to a file in the folder."""
        with (self.folder / f"{Path(command[0]).name}.out").open("ab") as output:
            return subprocess.Popen(
                list(command),
                cwd=cwd,
                env={**self.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def output(self, command: Sequence[str]) -> str:
        """What a program prints; empty when it fails."""
        done = subprocess.run(
            list(command),
            env=self.environment,
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""

    # -- the panel ---------------------------------------------------------------------------------

    def start_panel(self) -> None:
        """Start the panel and wait until it takes signs."""
        self._panel = self.start(["tint2"])
        wait_until(self.has_panel, "tint2's start")

    def stop_panel(self) -> None:
        """Kill the panel, as a crash does."""
        if self._panel is not None:
            end(self._panel)
            self._panel = None

    def has_panel(self) -> bool:
        """Whether somebody takes signs."""
        return "tint2" in self.output(["xwininfo", "-root", "-tree"])

    # -- windows -----------------------------------------------------------------------------------

    def windows(self, name: str) -> list[str]:
        """Visible windows by a regular expression of their title, as numbers."""
        found = self.output(["xdotool", "search", "--onlyvisible", "--name", name])
        return found.split()

    def window(self, name: str) -> str:
        """A visible window by its title, once it is there."""
        wait_until(lambda: self.windows(name), f"a window named {name}")
        return self.windows(name)[0]

    def active_name(self) -> str:
        """The title of the window that has the keyboard."""
        return self.output(["xdotool", "getactivewindow", "getwindowname"]).strip()

    def sign_place(self) -> tuple[int, int] | None:
        """Where the one sign in the panel is (its middle); None while there is none."""
        lines = self.output(["xwininfo", "-root", "-tree"]).splitlines()
        panel = next((number for number, line in enumerate(lines) if '"tint2"' in line), None)
        if panel is None:
            return None
        depth = _indent(lines[panel])
        for line in itertools.takewhile(lambda line: _indent(line) > depth, lines[panel + 1 :]):
            # A square of at most the panel's height; its place on the screen comes last.
            found = re.search(r"\s(\d+)x(\d+)\+-?\d+\+-?\d+\s+\+(-?\d+)\+(-?\d+)", line)
            if found is not None:
                width, height, x, y = (int(number) for number in found.groups())
                if width == height and 8 <= width <= 64:
                    return x + width // 2, y + height // 2
        return None

    def click(self, x: int, y: int, button: int = 1) -> None:
        """Click somewhere."""
        move = ["mousemove", str(x), str(y), "click", str(button)]
        subprocess.run(["xdotool", *move], env=self.environment, check=True)

    def press(self, keys: str) -> None:
        """Press keys, such as `ctrl+q`."""
        subprocess.run(["xdotool", "key", keys], env=self.environment, check=True)

    def picture(self, path: Path) -> Path:
        """Keep a picture of the whole screen."""
        subprocess.run(["import", "-window", "root", str(path)], env=self.environment, check=True)
        return path


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
