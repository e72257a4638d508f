"""Makes a picture of a window small: a palette is enough for what is mostly flat."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_NUM_COLOURS = "200"


def make_small(path: Path) -> None:
    """Give a PNG file a palette, where ImageMagick's `convert` is there."""
    convert = shutil.which("convert")
    if convert is not None:
        subprocess.run(
            [convert, str(path), "-strip", "+dither", "-colors", _NUM_COLOURS, f"png8:{path}"],
            check=False,
        )
