"""The soak of `bench/soak.py`, short: random traffic, and a worker that is killed in mid-answer."""

import pytest

from bench.server_process import ServerProcess
from bench.soak import serve_command, soak
from bench.soak_kills import kill_again_and_again

pytestmark = pytest.mark.slow


def test_random_traffic_of_all_protocols_leaves_nothing_behind(tmp_path):
    command = serve_command("--session-cache-mib", "8")
    with ServerProcess("Stratum", command, tmp_path / "soak.log") as server:
        result = soak(server, 160, 7, 4)
    assert result.faults(max_growth=1.25) == []  # so few requests only find a coarse leak
    assert len(result.seen.kinds) == 7
    log = (tmp_path / "soak.log").read_text(encoding="utf-8")
    assert "Traceback" not in log


def test_a_worker_that_is_killed_again_and_again_costs_only_what_it_was_answering(tmp_path):
    num_kills = 6  # more than a worker may crash in a row that never answers
    result = kill_again_and_again(num_kills, tmp_path)
    assert result.faults == []
    assert result.streams_ended == result.waiters_answered == 4 * num_kills
    assert result.connects > num_kills
    assert "Traceback" not in (tmp_path / "kills.log").read_text(encoding="utf-8")
