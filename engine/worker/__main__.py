"""`python -m engine.worker [--script FILE.json]`: what the front starts; not for people."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from pathlib import Path

from engine.core.ascii_folders import use_ascii_folders
from engine.core.errors import EngineError
from engine.core.settings import load_settings
from engine.worker.blas_threads import limit_blas_threads


def main() -> int:
    """Serve one front until it asks to quit or goes away."""
    parser = argparse.ArgumentParser(prog="python -m engine.worker", description=__doc__)
    parser.add_argument("--script", type=Path, help="play this script instead of a model")
    arguments = parser.parse_args()

    limit_blas_threads()
    with contextlib.suppress(EngineError):  # unusable settings are said by whoever needs them
        use_ascii_folders(load_settings().data_dir / "cache")
    from engine.worker.channel import open_channel  # noqa: PLC0415  # may import numpy

    channel = open_channel()
    logging.basicConfig(
        level=_log_level(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    if arguments.script is not None:
        from engine.worker.script_player import run_scripted_worker  # noqa: PLC0415

        return run_scripted_worker(channel, arguments.script)

    from engine.worker.process import run_worker  # noqa: PLC0415  # imports numpy

    return run_worker(channel)


def _log_level() -> int:
    """The level that `STRATUM_LOG` names; a word that is none costs no worker."""
    level = logging.getLevelNamesMapping().get(os.environ.get("STRATUM_LOG", "INFO").upper())
    return logging.INFO if level is None else level


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # daemon threads and native pools must not hold up the end
