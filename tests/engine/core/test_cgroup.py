from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.cgroup import MemoryLimit, cpu_limit, memory_limit

V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
HUGE = str((1 << 63) - 4096)  # what version 1 says for "no limit"


def group(folder: Path, names: tuple[str, str, str], limit: object, used: int, cache: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 7\n{names[2]} {cache}\n")


def membership(folder: Path, text: str) -> Path:
    path = folder / "membership"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("names", "top"), [(V2, ""), (V1, "memory")])
def test_a_container_sees_its_own_limit_at_the_root(tmp_path, names, top):
    group(tmp_path / top, names, 4000, 1500, 500)
    wanted = MemoryLimit(4000, 3000)  # file cache is not used memory
    for line in ("0::/\n", "4:memory:/\n", "0::/docker/12ab\n4:memory:/docker/12ab\n", ""):
        assert memory_limit(tmp_path, membership(tmp_path, line)) == wanted, line


def test_a_slice_is_limited_by_itself_and_by_every_group_above_it(tmp_path):
    path = membership(tmp_path, "0::/user.slice/user-1000.slice/run.scope\n")
    group(tmp_path / "user.slice", V2, 9000, 8500, 0)
    group(tmp_path / "user.slice" / "user-1000.slice", V2, 6000, 1000, 0)
    group(tmp_path / "user.slice" / "user-1000.slice" / "run.scope", V2, "max", 900, 0)
    group(tmp_path / "system.slice", V2, 5, 0, 0)  # another's
    assert memory_limit(tmp_path, path) == MemoryLimit(6000, 500)


def test_version_1_nests_below_its_controller(tmp_path):
    lines = "12:cpu,cpuacct:/a\n9:memory:/jobs/mine\n1:name=systemd:/x\n0::/elsewhere\n"
    group(tmp_path / "memory", V1, HUGE, 10, 0)
    group(tmp_path / "memory" / "jobs" / "mine", V1, 7000, 2000, 0)
    (tmp_path / "cpu" / "a").mkdir(parents=True)
    (tmp_path / "cpu" / "a" / "cpu.cfs_quota_us").write_text("150000\n")
    (tmp_path / "cpu" / "a" / "cpu.cfs_period_us").write_text("100000\n")
    path = membership(tmp_path, lines)
    assert memory_limit(tmp_path, path) == MemoryLimit(7000, 5000)
    assert cpu_limit(tmp_path, path) == 1.5


def test_the_tightest_share_of_processor_time_counts(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "cpu.max").write_text("400000 100000\n")
    (tmp_path / "a" / "b" / "cpu.max").write_text("max 100000\n")
    assert cpu_limit(tmp_path, membership(tmp_path, "0::/a/b\n")) == 4.0


@pytest.mark.parametrize("text", ["max\n", HUGE + "\n", "", "garbage\n", "-1\n"])
def test_no_limit_is_no_limit(tmp_path, text):
    (tmp_path / "memory.max").write_text(text)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    path = membership(tmp_path, "0::/\n")
    assert memory_limit(tmp_path, path) is None
    assert cpu_limit(tmp_path, path) is None


def test_a_path_that_leads_out_of_the_tree_is_not_followed(tmp_path):
    root = tmp_path / "tree"
    group(root, V2, 800, 0, 0)
    group(tmp_path, V2, 1, 0, 0)
    assert memory_limit(root, membership(root, "0::/../..\n")) == MemoryLimit(800, 800)


def test_more_used_than_allowed_leaves_nothing(tmp_path):
    group(tmp_path, V2, 800, 900, 0)
    assert memory_limit(tmp_path, membership(tmp_path, "0::/\n")) == MemoryLimit(800, 0)


def test_memory_high_limits_like_memory_max(tmp_path):
    group(tmp_path, V2, 9000, 1000, 0)
    (tmp_path / "memory.high").write_text("6000\n")
    assert memory_limit(tmp_path, membership(tmp_path, "0::/\n")) == MemoryLimit(6000, 5000)
    (tmp_path / "memory.high").write_text("max\n")
    assert memory_limit(tmp_path, membership(tmp_path, "0::/\n")) == MemoryLimit(9000, 8000)


@pytest.mark.parametrize(("names", "top", "prefix"), [(V2, "", ""), (V1, "memory", "total_")])
def test_file_cache_in_use_is_not_used_memory_either(tmp_path, names, top, prefix):
    """A model that was answered with a moment ago lies on the list of active pages."""
    group(tmp_path / top, names, 4000, 3900, 0)
    stat = f"{prefix}inactive_file 500\n{prefix}active_file 3000\n{prefix}unevictable 300\n"
    (tmp_path / top / "memory.stat").write_text(stat)
    line = membership(tmp_path, "4:memory:/\n0::/\n")
    assert memory_limit(tmp_path, line) == MemoryLimit(4000, 3600)
