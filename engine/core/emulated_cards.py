"""Graphics cards that are emulated on the processor, in the place of NVIDIA's, for tests of whole processes.

`STRATUM_EMULATED_CARDS`, such as `600,300`, names their sizes in MiB. Only a checkout honours it: what
emulates them is among the tests.
"""

from __future__ import annotations

import os
from pathlib import Path

from engine.core.errors import ConfigError

EMULATED_VARIABLE = "STRATUM_EMULATED_CARDS"
EMULATED_CAPABILITY = (8, 9)
EMULATED_DRIVER = "emulated"

_EMULATOR = Path(__file__).resolve().parents[2] / "tests" / "emulator"


def emulated_sizes() -> list[int]:
    """Bytes of each emulated card; empty where NVIDIA's are meant.

    Raises:
        ConfigError: the variable holds something else than sizes.
    """
    text = os.environ.get(EMULATED_VARIABLE, "").strip()
    if not text or not _EMULATOR.is_dir():
        return []
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise ConfigError(
            f"{EMULATED_VARIABLE} is {text!r}; it must be sizes in MiB, such as 600,300."
        )
    return [int(word) << 20 for word in words]


def emulated_name(index: int) -> str:
    """What an emulated card is called."""
    return f"Emulated card {index}"
