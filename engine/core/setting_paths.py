"""Settings that are paths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator


def _without_nul(path: Path) -> Path:
    if "\0" in str(path):  # no system has such a path; asking for it raises ValueError
        raise ValueError("a path cannot hold a NUL character")
    return path


UsablePath = Annotated[Path, AfterValidator(_without_nul)]
