"""The emulated card's other half: its context switch, faults and memory on Windows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from engine.device import emulated_build
from engine.kernels import build
from tests.support.emulated import TEST_KERNELS
from tests.windows.wine import Wine

TARGET = ["-target", "x86_64-windows-gnu"]


@pytest.mark.wine
@pytest.mark.timeout(600)
def test_kernels_run_and_mistakes_are_caught_on_windows(wine: Wine, wine_folder: Path) -> None:
    zig = build.zig_compiler()
    assert zig is not None
    sources = [
        str(emulated_build.EMULATOR_FOLDER / name) for name in emulated_build.RUNTIME_SOURCES
    ]
    runtime = [*emulated_build.runtime_flags(zig), "-shared", *sources]
    kernels = [*emulated_build.kernel_flags(zig), "-shared", "-x", "c++"]
    driver = ["-std=c++17", "-O1", "-I", str(emulated_build.EMULATOR_FOLDER)]
    driver += [str(Path(__file__).with_name("emulator_driver.cpp"))]
    compile_for_windows(zig, runtime, wine_folder / "runtime.dll")
    for name in ("plain", "wrong"):
        source = str(TEST_KERNELS / f"{name}.cu")
        compile_for_windows(zig, [*kernels, source], wine_folder / f"{name}.dll")
    compile_for_windows(zig, driver, wine_folder / "driver.exe")

    done = wine.run("driver.exe", cwd=wine_folder)

    waiting = "48 at a block barrier, 16 at warp instructions for lanes that do not come, and 0 have ended"
    sums = [sum(i % 7 for i in range(start, start + 1024)) for start in (0, 1024, 2048)]
    all_sums = f"sums {sums[0]} {sums[1]} {sums[2]}"
    assert done.stdout.splitlines() == [
        *[all_sums] * 3,
        "read_at: fault 1 ",
        "write_at: fault 2 ",
        f"wait_apart: fault 0 its threads wait for ever: {waiting}",
        "shift_by: fault 3 ",
        "divide_by: fault 4 ",
        "index_shared: fault 3 ",
        "index_dynamic_shared: fault 1 ",
        "sums 1024 1024 1024",
    ], done.stderr
    assert done.returncode == 0


def compile_for_windows(zig: build.Compiler, words: list[str], target: Path) -> None:
    flags = [word for word in words if word != "-fPIC"]
    cache = str(emulated_build.cache_folder() / "zig")
    done = subprocess.run(
        [*zig.command, *TARGET, *flags, "-o", str(target)],
        env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
