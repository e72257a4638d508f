"""Whether this processor can run the fast kernels, asked before anything is loaded.

The kernel library looks for itself (engine/kernels/host/cpu.cpp); this asks the system, so that the
commands can say it in a moment, and without the library.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from engine.core.config import OpsName, RunConfig
from engine.core.cpu_features import probe_cpu_features
from engine.core.errors import ConfigError
from engine.core.operating_system import architecture, is_x86_64

logger = logging.getLogger(__name__)

_CPUINFO = Path("/proc/cpuinfo")
_NEEDED_FLAGS = frozenset({"avx2", "fma", "f16c"})

SLOW_WAY = (
    "A large model takes minutes for each word so: use a machine with a processor from about 2015 "
    "or later."
)


def missing_feature() -> str:
    """What the fast kernels need and this processor has not, in words; empty when nothing."""
    machine = architecture().lower()
    if not is_x86_64(machine):
        return f"is no x86-64 processor (it is {machine or 'of an unknown kind'})"
    return "" if _has_avx2() else "has no AVX2"


def processor_notice(ops: OpsName) -> str:
    """A sentence for a processor on which everything will be slow; empty when all is well.

    Raises:
        ConfigError: the fast operations were asked for by name and cannot run.
    """
    missing = "" if ops is OpsName.REFERENCE else missing_feature()
    if not missing:
        return ""
    sentence = f"This processor {missing}, which the fast CPU kernels need."
    if ops is OpsName.HOST:
        raise ConfigError(
            f"{sentence} Take --ops reference, which is slow but works. {SLOW_WAY}",
            code="cpu_too_old",
        )
    return f"{sentence} The slow reference is used, as with --ops reference. {SLOW_WAY}"


def warn_of_processor(config: RunConfig) -> None:
    """Log the notice for this config, before anything is loaded.

    Raises:
        ConfigError: the fast operations were asked for by name and cannot run.
    """
    notice = processor_notice(config.ops)
    if notice:
        logger.warning("%s", notice)


def _has_avx2() -> bool:
    """Whether the system says so; True where it says nothing (the library then decides)."""
    if sys.platform == "win32":  # whose own flag is wrong on some processors
        return probe_cpu_features()[0].avx2
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    for line in text.splitlines():
        name, _, flags = line.partition(":")
        if name.strip() == "flags":
            return set(flags.split()) >= _NEEDED_FLAGS
    return True
