"""Settings that are paths."""

from __future__ import annotations

import contextlib
import os.path
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator


def _without_nul(path: Path) -> Path:
    if "\0" in str(path):  # no system has such a path; asking for it raises ValueError
        raise ValueError("a path cannot hold a NUL character")
    return path


UsablePath = Annotated[Path, AfterValidator(_without_nul)]


def whole_path(path: Path | str) -> Path:
    """What a person typed as a path from the root on: `~` and `..` taken out, links left alone."""
    whole = Path(path)
    with contextlib.suppress(RuntimeError):  # ~somebody who does not exist here: a name like others
        whole = whole.expanduser()
    return Path(os.path.abspath(whole))  # noqa: PTH100  # pathlib has nothing that keeps links
