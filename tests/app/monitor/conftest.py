"""The same parts as for the settings, and a real engine with the bundled model."""

from __future__ import annotations

from tests.app.settings.conftest import (  # noqa: F401  # fixtures
    collect_ignore_glob,
    config_path,
    context,
    home,
    start_server,
    supervisor,
    wait,
)
