"""A real engine process for the tests of the chat: the bundled model, or a script."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from engine.core.config import BUNDLED_MODEL

REPOSITORY = Path(__file__).resolve().parents[3]
READY = re.compile(r"ready at http://[^ ]*:(\d+)")


class Engine:
    """One `engine serve` process on a free port."""

    def __init__(self, folder: Path, script: dict[str, object] | None, *flags: str) -> None:
        command = [sys.executable, "-m", "engine", "serve", "--port", "0"]
        if script is None:
            command += ["--model", str(BUNDLED_MODEL)]
        else:
            path = folder / "script.json"
            path.write_text(json.dumps({"format": 1, **script}), encoding="utf-8")
            command += ["--script", str(path), "--repeat-stop-tokens", "0"]
        self.log_path = folder / "engine.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *flags],
                cwd=REPOSITORY,
                env={**os.environ, "STRATUM_HOME": str(folder / "home")},
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        found = READY.search(line)
        if found is None:
            self.process.kill()
            raise AssertionError(f"the engine did not start: {line!r} {self.log_path.read_text()}")
        self.url = f"http://127.0.0.1:{found[1]}"
        # Nobody reads what it prints later on; a full pipe would hold it up.
        self._reader = threading.Thread(target=self.process.stdout.read, daemon=True)
        self._reader.start()
        deadline = time.monotonic() + 60
        while not self._is_loaded():
            assert time.monotonic() < deadline, self.log_path.read_text()
            time.sleep(0.05)

    def _is_loaded(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as reply:  # noqa: S310
                return reply.status == 200
        except OSError:
            return False

    def stop(self) -> None:
        """End it, and wait until it is gone."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM if os.name != "nt" else signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(10)
        if self.process.stdout is not None:
            self.process.stdout.close()
