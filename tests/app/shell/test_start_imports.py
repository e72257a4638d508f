"""What a start imports: nothing that only a view needs, or the window comes late."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ["numpy", "pyqtgraph", "pygments", "markdown_it", "pypdf", "segno", "engine.core.catalog"]


def test_no_heavy_package_is_imported_before_the_window_is_there():
    code = (
        f"import app.main, json, sys; print(json.dumps([n for n in {HEAVY} if n in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, timeout=120
    )
    assert json.loads(done.stdout) == []


def test_the_app_imports_nothing_of_the_engine_but_its_core():
    code = (
        "import app.main, json, sys; print(json.dumps(sorted(n for n in sys.modules"
        " if n.startswith('engine.') and not n.startswith('engine.core'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, timeout=120
    )
    assert json.loads(done.stdout) == []
