"""Normal priority, whoever starts the app: schedulers start things at login with less.

With low priority for the processor or the disk a model loads many times slower. Raising one's own
priority is allowed on Windows; on Linux often only to root, and then the log says what it will cost.
"""

from __future__ import annotations

import logging
import sys

import psutil

logger = logging.getLogger(__name__)


def take_normal_priority(process: psutil.Process | None = None) -> bool:
    """Give this process, and what it will start, normal priority; whether it has it now."""
    process = process or psutil.Process()
    is_normal = _take_normal_processor(process)
    return _take_normal_disk(process) and is_normal


def _take_normal_processor(process: psutil.Process) -> bool:
    try:
        found = process.nice()
        if sys.platform == "win32":
            low = (psutil.IDLE_PRIORITY_CLASS, psutil.BELOW_NORMAL_PRIORITY_CLASS)
            if found in low:
                process.nice(psutil.NORMAL_PRIORITY_CLASS)
        elif found > 0:
            process.nice(0)
    except (psutil.Error, OSError) as error:
        logger.warning("this program was started with low priority and must keep it: %s", error)
        return False
    return True


def _take_normal_disk(process: psutil.Process) -> bool:
    try:
        found = process.ionice()
        if sys.platform == "win32":
            if found in (psutil.IOPRIO_VERYLOW, psutil.IOPRIO_LOW):
                process.ionice(psutil.IOPRIO_NORMAL)
        elif sys.platform == "linux" and found.ioclass == psutil.IOPRIO_CLASS_IDLE:
            process.ionice(psutil.IOPRIO_CLASS_NONE)
    except (psutil.Error, OSError, AttributeError) as error:
        logger.warning("this program was started with low priority for disks: %s", error)
        return False
    return True
