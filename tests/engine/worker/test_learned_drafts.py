"""Counts of earlier requests: a worker that quits writes them, the next one drafts from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.config import BUNDLED_MODEL
from engine.worker.client import WorkerClient
from engine.worker.messages import Done, Load, SamplingParams, Start

# Tokens that do not repeat: nothing but an earlier request can tell what follows.
TEXT = tuple(range(1000, 1400, 3))


def load(**more: object) -> Load:
    values: dict[str, object] = {
        "model": str(BUNDLED_MODEL),
        "context": 512,
        "parallel": 1,
        "threads": 1,
        "session_cache_mib": 0,
        "spec_lookup": False,
        "spec_mtp": 0,
        "spec_ngram": True,
    }
    return Load(values | more)


async def one_worker(prompt: tuple[int, ...], **more: object) -> Done:
    """Start a worker, answer once in words of the text, and let it quit."""
    client = WorkerClient()
    await client.start(load(**more))
    # Whatever the model thinks of it, the answer is the text's next token, again and again.
    bias = ((TEXT[50], 100.0),)
    start = Start("r", prompt, 6, (), SamplingParams(temperature=0, logit_bias=bias))
    messages = [message async for message in client.submit(start)]
    await client.stop(grace_s=60)
    done = messages[-1]
    assert isinstance(done, Done)
    assert done.reason == "length"
    return done


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path / "höme"))
    return tmp_path / "höme" / "data" / "drafts"


async def test_a_worker_that_quits_leaves_counts_for_the_next_one(folder: Path):
    first = await one_worker(TEXT, spec_ngram_learn=True)
    names = [path.name for path in folder.iterdir()]
    assert [Path(name).suffix for name in names] == [".counts"]  # and nothing half written
    content = (folder / names[0]).read_bytes()
    second = await one_worker(TEXT[:50], spec_ngram_learn=True)
    assert [path.name for path in folder.iterdir()] == names
    assert len((folder / names[0]).read_bytes()) >= len(content)
    drafted = {name: offered for name, offered, _ in second.timings.drafters}
    assert drafted.get("ngram", 0) > 0
    assert first.timings.draft_accepted <= first.timings.draft_tokens


async def test_nothing_is_kept_unless_it_was_asked_for(folder: Path):
    await one_worker(TEXT)
    assert not folder.exists()
