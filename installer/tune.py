"""Runs `engine calibrate` as a child process and reports what it says.

run = TuneRun(config_path)
result = run.run(on_progress)        # blocks; run.stop() from any thread
"""

from __future__ import annotations

from pathlib import Path

from engine.core.catalog_file import PROGRAM_DIR
from installer.engine_run import EngineRun, RunProgress, parse_progress
from installer.errors import InstallError, StoppedError

__all__ = ["TuneError", "TuneProgress", "TuneRun", "is_tuning_available", "parse_progress"]

TuneProgress = RunProgress

_COMMAND_FILE = PROGRAM_DIR / "engine" / "commands" / "calibrate.py"


class TuneError(InstallError):
    """The measurement failed; the settings stay as they were."""

    code = "tuning_failed"


def is_tuning_available() -> bool:
    """Whether this engine can measure itself."""
    return _COMMAND_FILE.is_file()


class TuneRun(EngineRun):
    """One measurement."""

    def __init__(self, config: Path, command: tuple[str, ...] | None = None) -> None:
        """Prepare it.

        Args:
            config: the run config to tune.
            command: how the engine's command line is started; None: this Python.
        """
        super().__init__(("calibrate", "--config", str(config), "--json"), command)

    def stopped(self) -> StoppedError:
        """Nothing was changed."""
        return StoppedError("The measurement was stopped. The settings stay as they were.")

    def failed(self, reason: str) -> InstallError:
        """Nothing was changed."""
        return TuneError(
            f"The measurement failed ({reason}). Stratum runs with its own estimates; measure "
            "again later if you like.",
            params={"reason": reason},
        )

    def without_report(self) -> InstallError:
        """Nothing was changed."""
        return TuneError(
            "The measurement ended without a report. Stratum runs with its own estimates; measure "
            "again later if you like.",
            params={"reason": "no report"},
        )
