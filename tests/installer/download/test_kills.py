"""A download that is killed at random moments ends right, and fetches next to nothing twice.

By default 5 kills of 20 MB; `STRATUM_LONG_TESTS=1` makes it 20 kills of 1 GB.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import GeneratedContent
from tests.fake_hub.server import FakeHub

IS_LONG = os.environ.get("STRATUM_LONG_TESTS") == "1"
NUM_KILLS, SIZE, BYTES_PER_S = (20, 1 << 30, 100e6) if IS_LONG else (5, 20 << 20, 10e6)
MOST_TWICE = 0.05
# What the system holds of a connection whose program is killed was sent and never read.
MOST_UNREAD_BYTES = 1 << 20
ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(1800 if IS_LONG else 600)
def test_a_download_that_is_killed_again_and_again_ends_verified(hub: FakeHub, tmp_path: Path):
    content = GeneratedContent(SIZE, seed=3)
    catalog = tmp_path / "models.json"
    catalog.write_text(
        catalog_for(hub, {"m": {"m.gguf": content}}).model_dump_json(by_alias=True), "utf-8"
    )
    hub.bytes_per_s = BYTES_PER_S
    # Moments are shares of the file, so that each kill hits a transfer; some hit its very start.
    for kill_at in sorted(random.randrange(int(SIZE * 0.95)) for _ in range(NUM_KILLS)):  # noqa: S311  # no secrets
        child = start(hub, catalog, tmp_path)
        wait_for(lambda at=kill_at: hub.sent_bytes > at, child)
        time.sleep(random.random() * 0.02)  # noqa: S311  # the same
        child.kill()
        child.wait()
    child = start(hub, catalog, tmp_path)
    assert child.wait(600 if IS_LONG else 300) == 0
    target = tmp_path / "data" / "models" / "m" / "m.gguf"
    with target.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == content.sha256
    twice = hub.sent_bytes - SIZE
    assert twice <= SIZE * MOST_TWICE + NUM_KILLS * MOST_UNREAD_BYTES, (
        f"{twice / SIZE:.1%} were fetched twice"
    )
    assert len(hub.byte_requests) >= NUM_KILLS / 2  # the kills did hit transfers


def start(hub: FakeHub, catalog: Path, tmp_path: Path) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("kill_child.py")
    return subprocess.Popen(
        [sys.executable, str(script), str(catalog), hub.endpoint, str(tmp_path / "data")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def wait_for(condition, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while not condition() and child.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
