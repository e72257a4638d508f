"""Where the program is. The core knows it too, but reads the list of models for it, at each start."""

from __future__ import annotations

from pathlib import Path

PROGRAM_DIR = Path(__file__).resolve().parents[1]
