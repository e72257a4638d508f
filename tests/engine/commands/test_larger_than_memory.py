"""A model that is larger than the memory that it may have answers, and says the same as with all memory."""

import json
import os
import subprocess
import sys

import pytest

from bench.memory_group import NoGroupError, memory_group
from bench.synthetic_model import Formats, Sizes, write_model
from engine.core.config import BUNDLED_MODEL
from engine.core.ggml_types import GgmlType

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="control groups are Linux's"),
]
SHARE = 0.6
MODES = {
    "mapped": ["--expert-mode", "mapped"],
    "left to the system": ["--expert-look-ahead", "off"],
    "budget": ["--expert-mode", "budget", "--expert-profile-learn"],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.gguf"
    q2 = GgmlType.Q2_0
    formats = Formats(
        streams=q2, dense=(q2,), shared_down=q2, embedding=q2, head=q2, experts=((q2, q2),)
    )
    sizes = Sizes(num_layers=4, num_experts=192, vocab_size=4160, table_rows_per_head=50)
    write_model(path, sizes, formats, BUNDLED_MODEL, seed=5)
    yield path
    path.unlink()


def command_for(model, *settings):
    command = [sys.executable, "-m", "engine", "run", "--model", str(model), "--json"]
    command += ["--prompt", "hello", "--max-tokens", "4", "--temperature", "0"]
    return [*command, "--context", "512", "--prompt-chunk", "32", "--threads", "2", *settings]


def answer(command, tmp_path):
    environment = {**os.environ, "STRATUM_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_mode_answers_within_a_limit_of_60_percent_of_the_file(model, tmp_path):
    limit = int(model.stat().st_size * SHARE)
    expected = answer(command_for(model), tmp_path)
    for name, settings in MODES.items():
        os.sync()
        with model.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            with memory_group(limit) as group:
                report = answer(group.inside(command_for(model, *settings)), tmp_path)
                assert group.peak_bytes <= limit, name
        except NoGroupError as error:
            pytest.skip(f"needs a memory group of its own: {error}")
        assert report["content"] == expected["content"], name
        assert report["reasoning"] == expected["reasoning"], name
        if name != "left to the system":
            assert report["timings"]["disk"]["prompt"]["experts"]["bytes"] > 0, name


def test_a_limit_that_holds_not_even_the_caches_is_refused_with_the_way_out(model, tmp_path):
    try:
        with memory_group(300 << 20) as group:
            done = subprocess.run(
                group.inside(command_for(model, "--session-cache-mib", "0", "--context", "65536")),
                capture_output=True,
                text=True,
                env={**os.environ, "STRATUM_HOME": str(tmp_path)},
                check=False,
            )
    except NoGroupError as error:
        pytest.skip(f"needs a memory group of its own: {error}")
    assert done.returncode != 0
    assert "Close other programs, or lower context" in done.stderr
