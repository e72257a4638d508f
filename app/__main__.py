"""`python -m app`: the sign beside the clock and the window."""

from __future__ import annotations

import sys

from app.main import main

sys.exit(main())
