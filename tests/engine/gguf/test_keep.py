"""Keeping parts of a mapped model in memory."""

import os
import shutil

import numpy as np
import pytest

from engine.core.config import BUNDLED_MODEL
from engine.core.gguf_header import read_model_header
from engine.gguf.file_pages import system_pages
from engine.gguf.keep import can_lock, keep_ranges
from engine.gguf.reader import GgufFile

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="Windows keeps mapped files from being written"
)

KEPT, LEFT = "blk.1.ffn_gate_exps.weight", "blk.3.ffn_up_exps.weight"


@pytest.fixture
def header(tmp_path):
    return read_model_header(shutil.copy(BUNDLED_MODEL, tmp_path / "модель.gguf"))


def overwrite(header, name):
    """Other bytes for a tensor, in the file."""
    _, info = header.tensors[name]
    with header.paths[0].open("r+b") as file:
        file.seek(header.shards[0].data_start + info.offset)
        file.write(b"\xa5" * info.num_bytes)


def test_a_copy_lies_at_the_same_address_and_is_the_processs_own(header):
    steps = []
    with GgufFile(header, private=True) as file:
        before = {name: file.tensors[name].data.copy() for name in (KEPT, LEFT)}
        kept = file.tensors[KEPT].data
        result = keep_ranges(
            file, [(kept.ctypes.data, kept.nbytes)], lambda *s: steps.append(s), system_pages()
        )
        assert result.is_copy
        assert kept.nbytes <= result.num_bytes < kept.nbytes + 8192
        assert steps[-1] == (result.num_bytes, result.num_bytes)
        assert np.array_equal(kept, before[KEPT])
        overwrite(header, KEPT)
        overwrite(header, LEFT)
        assert np.array_equal(file.tensors[KEPT].data, before[KEPT])
        assert (file.tensors[LEFT].data == 0xA5).all()


def test_the_file_never_changes_and_tensors_stay_read_only(header):
    content = header.paths[0].read_bytes()
    with GgufFile(header, private=True) as file:
        data = file.tensors[KEPT].data
        assert not data.flags.writeable
        keep_ranges(file, [(data.ctypes.data, data.nbytes)], lambda *_: None, system_pages())
        file.writable(data.ctypes.data, 4)[...] = 7
        assert (data[:4] == 7).all()
        with pytest.raises(ValueError, match="no private mapping"):
            file.writable(1 << 20, 4)
    assert header.paths[0].read_bytes() == content


def test_a_file_that_is_cut_while_it_is_copied_is_an_error(header):
    with GgufFile(header, private=True) as file:
        data = file.tensors[KEPT].data
        os.truncate(header.paths[0], 4096)
        with pytest.raises(OSError, match="Bad address"):
            keep_ranges(file, [(data.ctypes.data, data.nbytes)], lambda *_: None, system_pages())


def test_the_limit_and_the_capability_say_whether_so_much_may_be_locked(tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    plain, able = tmp_path / "plain", tmp_path / "able"
    plain.write_text("Name:\tx\nCapEff:\t0000000000000000\n")
    able.write_text("Name:\tx\nCapEff:\t0000000000004000\n")
    assert can_lock(1 << 20, plain)
    assert not can_lock(2 << 20, plain)
    assert can_lock(2 << 20, able)
    assert not can_lock(2 << 20, tmp_path / "missing")
