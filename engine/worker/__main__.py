"""`python -m engine.worker [--script FILE.json]`: what the front starts; not for people."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from engine.worker.blas_threads import limit_blas_threads


def main() -> int:
    """Serve one front until it asks to quit or goes away."""
    parser = argparse.ArgumentParser(prog="python -m engine.worker", description=__doc__)
    parser.add_argument("--script", type=Path, help="play this script instead of a model")
    arguments = parser.parse_args()

    limit_blas_threads()
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
