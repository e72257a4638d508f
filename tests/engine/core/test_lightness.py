"""`engine.core` is what app and installer import: it must stay light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_no_module_of_core_imports_numpy_qt_or_the_rest_of_the_engine() -> None:
    modules = sorted(
        f"engine.core.{path.stem}" for path in (ROOT / "engine" / "core").glob("[a-z]*.py")
    )
    assert "engine.core.placement" in modules
    script = (
        f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        "heavy = [m for m in sys.modules if m.split('.')[0] in "
        "{'numpy', 'PySide6', 'fastapi', 'starlette', 'tokenizers', 'cupy'}"
        " or (m.startswith('engine.') and not m.startswith('engine.core'))]\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"
