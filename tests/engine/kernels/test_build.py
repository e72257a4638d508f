"""Building the kernel library: hashes, records, compilers, and the prebuilt libraries themselves."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.errors import ResourceError
from engine.kernels import build, library
from engine.ops import self_test as self_test_module

LARGEST_LIBRARY = 1_200_000  # bytes


@pytest.fixture
def copied_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sources that a test may change."""
    folder = tmp_path / "host"
    shutil.copytree(build.HOST_DIR, folder)
    monkeypatch.setattr(build, "HOST_DIR", folder)
    return folder


@pytest.fixture
def empty_prebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No prebuilt libraries."""
    folder = tmp_path / "prebuilt"
    folder.mkdir()
    monkeypatch.setattr(build, "PREBUILT_DIR", folder)
    monkeypatch.setattr(build, "RECORD", folder / "libraries.json")
    return folder


@pytest.fixture
def fresh_loading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """`load_library` without its memory, and with an empty cache folder."""
    library.load_library.cache_clear()
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path)
    yield tmp_path
    library.load_library.cache_clear()


def test_line_endings_do_not_change_the_hash_of_the_sources(copied_sources: Path):
    before = build.source_hash()
    for path in copied_sources.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert build.source_hash() == before


def test_a_changed_source_changes_the_hash(copied_sources: Path):
    before = build.source_hash()
    path = copied_sources / "functions.h"
    path.write_text(path.read_text().replace("1.0f", "2.0f", 1))
    assert build.source_hash() != before


def test_changed_flags_change_the_hash(monkeypatch: pytest.MonkeyPatch):
    before = build.source_hash()
    monkeypatch.setattr(build, "COMMON_FLAGS", [*build.COMMON_FLAGS, "-Os"])
    assert build.source_hash() != before


def test_every_source_has_its_flags():
    assert set(build.FEATURES) == {path.name for path in build.HOST_DIR.glob("*.cpp")}


def test_the_sources_use_no_standard_library_of_cpp():
    for path in build.HOST_DIR.iterdir():
        included = re.findall(r"#include <([^>]+)>", path.read_text())
        allowed = {"cpuid.h", "immintrin.h", "pthread.h", "sched.h", "stddef.h", "stdint.h"}
        allowed |= {"stdlib.h", "windows.h"}
        if path.name == "page_io_linux.cpp":  # system calls
            allowed |= {"errno.h", "fcntl.h", "linux/io_uring.h", "string.h", "time.h", "unistd.h"}
            allowed |= {"sys/mman.h", "sys/syscall.h"}
        assert set(included) <= allowed, path.name


@pytest.mark.parametrize("system", list(build.LIBRARY_NAMES))
def test_the_prebuilt_library_is_current_and_small(system: str):
    assert build.check_prebuilt() == []
    path = build.prebuilt_path(system)
    assert path is not None
    assert path.stat().st_size < LARGEST_LIBRARY


def test_this_machine_loads_the_prebuilt_library():
    assert library.load_library().path == build.prebuilt_path(build.this_system())


def test_the_windows_library_needs_nothing_that_windows_lacks():
    content = (build.PREBUILT_DIR / build.LIBRARY_NAMES["windows"]).read_bytes()
    imported = {name.lower() for name in re.findall(rb"[\w.-]+\.dll\b", content, re.IGNORECASE)}
    own = b"stratum_host.dll"
    runtime = rb"api-ms-win-crt-[\w-]+\.dll"
    rest = {name for name in imported - {own, b"kernel32.dll"} if not re.fullmatch(runtime, name)}
    assert b"kernel32.dll" in imported
    assert rest == set()


def write_record(folder: Path, sources: str, content: bytes) -> None:
    libraries = {}
    for name in build.LIBRARY_NAMES.values():
        (folder / name).write_bytes(content)
        libraries[name] = {"sources": sources, "sha256": hashlib.sha256(content).hexdigest()}
    record = {"format": 1, "libraries": libraries}
    (folder / "libraries.json").write_text(json.dumps(record))


def test_the_check_tells_what_is_wrong(empty_prebuilt: Path, capsys: pytest.CaptureFixture[str]):
    assert build.main(["--check"]) == 1
    assert "libstratum_host.so is missing" in capsys.readouterr().out
    write_record(empty_prebuilt, "0" * 64, b"library")
    assert build.main(["--check"]) == 1
    assert "stratum_host.dll was made from other sources" in capsys.readouterr().out
    write_record(empty_prebuilt, build.source_hash(), b"library")
    assert build.main(["--check"]) == 0
    (empty_prebuilt / "libstratum_host.so").write_bytes(b"damaged")
    assert build.main(["--check"]) == 1
    assert "libstratum_host.so is not the file" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"libraries": 3}', '{"libraries": {"x": 1}}'])
def test_a_damaged_record_counts_as_none(empty_prebuilt: Path, text: str):
    (empty_prebuilt / "libraries.json").write_text(text)
    assert build.read_record() == {}
    assert build.prebuilt_path("linux") is None


def test_the_module_runs_as_a_program():
    ran = subprocess.run(
        [sys.executable, "-m", "engine.kernels.build", "--check"], capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stdout


def test_without_prebuilt_library_and_compiler_the_error_says_what_to_do(
    empty_prebuilt: Path, fresh_loading: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(build, "path_compiler", lambda: None)
    monkeypatch.setattr(build, "zig_compiler", lambda: None)
    with pytest.raises(ResourceError, match=r"no C\+\+ compiler .* install package ziglang"):
        library.load_library()


def test_a_compiler_that_fails_is_quoted(
    copied_sources: Path, empty_prebuilt: Path, fresh_loading: Path, monkeypatch
):
    if build.path_compiler() is None:
        pytest.skip("there is no C++ compiler on PATH")
    for name in build.FEATURES:
        (copied_sources / name).write_text("this is no program")
    with pytest.raises(ResourceError, match=r"could not be compiled: .*this"):
        library.load_library()
    assert list(fresh_loading.rglob("*.so")) == []


def test_a_compiler_that_cannot_start_is_an_error_with_a_sentence(tmp_path: Path):
    missing = build.Compiler((str(tmp_path / "missing"),), is_zig=False)
    with pytest.raises(ResourceError, match="could not be started"):
        build.compile_library(missing, "linux", tmp_path / "library.so")


def test_a_folder_that_cannot_be_written_is_an_error_with_a_sentence(tmp_path: Path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(ResourceError, match="cannot be written"):
        build._put(b"library", tmp_path / "cache" / "library.so")


def test_a_library_in_use_that_is_the_same_stays(tmp_path: Path, monkeypatch):
    target = tmp_path / "library.dll"
    target.write_bytes(b"same")

    def in_use(self, target):
        raise PermissionError("in use")

    monkeypatch.setattr(Path, "replace", in_use)
    build._put(b"same", target)
    assert [path.name for path in tmp_path.iterdir()] == ["library.dll"]
    with pytest.raises(ResourceError, match="cannot be written"):
        build._put(b"other", target)


def test_a_file_that_is_no_library_is_an_error_with_a_sentence(tmp_path: Path):
    path = tmp_path / "library.so"
    path.write_bytes(b"nothing")
    with pytest.raises(ResourceError, match=r"cannot be loaded .* reference operations"):
        library.HostLibrary(path)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_avx_vnni_variant_computes_rightly_with_the_same_instruction_of_avx512(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Processors with AVX-512 seldom have AVX-VNNI: its dot product has an equal in AVX-512 VL."""
    compiler = build.path_compiler()
    if compiler is None:
        pytest.skip("there is no C++ compiler on PATH")
    if "avx512" not in library.load_library().variants:
        pytest.skip("this processor has no AVX-512")
    features = (*build.FEATURES["variant_avx2.cpp"], "avx512f", "avx512vl", "avx512vnni")
    monkeypatch.setitem(build.FEATURES, "variant_avxvnni.cpp", features)
    flags = [*build.COMMON_FLAGS, "-DSTRATUM_VNNI_BY_AVX512"]
    monkeypatch.setattr(build, "COMMON_FLAGS", flags)
    path = tmp_path / "library.so"
    build.compile_library(compiler, build.this_system(), path)
    variant = library.HostLibrary(path)
    variant.variants = ("avxvnni",)
    monkeypatch.setattr("engine.ops.host.load_library", lambda: variant)
    monkeypatch.setattr(self_test_module, "load_library", lambda: variant)
    checks = self_test_module.self_test()
    assert {check.isa for check in checks} == {"avxvnni"}
    assert [check for check in checks if not check.ok] == []
