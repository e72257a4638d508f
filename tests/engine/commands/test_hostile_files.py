"""Damaged and hostile model files through every command that takes one: status 2 and one sentence."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.cli import main
from tests.support import gguf_bytes
from tests.support.gguf_bytes import STRING, U16, gguf, key, string, tensor, u32_key

FULL = Path(__file__).resolve().parents[2] / "golden" / "full.gguf"
HEAD_SIZES = struct.Struct("<QQ")  # tensors, keys; behind magic and version


def good() -> bytes:
    return FULL.read_bytes()


def with_counts(num_tensors: int, num_keys: int) -> bytes:
    return good()[:8] + HEAD_SIZES.pack(num_tensors, num_keys) + good()[24:]


def with_number(name: str, value: int, width: str = "<I", skip: int = 4) -> bytes:
    """The good file with another value of a key, which lies `skip` bytes behind its name."""
    data = good()
    start = data.index(string(name)) + len(string(name)) + skip
    return data[:start] + struct.pack(width, value) + data[start + struct.calcsize(width) :]


def shard(number: int) -> bytes:
    return gguf(
        [
            key("general.architecture", STRING, string("qwen4exp")),
            key("split.no", U16, struct.pack("<H", number)),
            key("split.count", U16, struct.pack("<H", 2)),
        ]
    )


FILES: dict[str, Callable[[], dict[str, bytes]]] = {
    "cut off": lambda: {"a.gguf": good()[:-1]},
    "half": lambda: {"a.gguf": good()[: FULL.stat().st_size // 2]},
    "empty": lambda: {"a.gguf": b""},
    "wrong magic": lambda: {"a.gguf": b"GGML" + good()[4:]},
    "huge tensor count": lambda: {"a.gguf": with_counts(1 << 60, 1)},
    "huge key count": lambda: {"a.gguf": with_counts(1, 1 << 60)},
    "overlap": lambda: {
        "a.gguf": gguf([], [tensor("a", [32]), tensor("b", [32], offset=64)], data_bytes=512)
    },
    "unknown type": lambda: {"a.gguf": gguf([], [tensor("a", [32], 99)], data_bytes=512)},
    "no architecture": lambda: {"a.gguf": gguf()},
    "unknown architecture": lambda: {
        "a.gguf": gguf([key("general.architecture", STRING, string("llama\x1b[31m\n"))])
    },
    "missing shard": lambda: {"a-00001-of-00002.gguf": shard(0)},
    "swapped shards": lambda: {
        "a-00001-of-00002.gguf": shard(1),
        "a-00002-of-00002.gguf": shard(0),
    },
    "short n-gram table": lambda: {
        "a.gguf": with_number("qwen4exp.ple.head_vocab_sizes", 1 << 40, "<Q", skip=16)
    },
    "a layer too few": lambda: {"a.gguf": with_number("qwen4exp.block_count", 3)},
    "another width": lambda: {"a.gguf": with_number("qwen4exp.embedding_length", 1 << 20)},
    "a key of another kind": lambda: {
        "a.gguf": gguf([u32_key("general.architecture", 3), u32_key("general.name", 3)])
    },
    "a deep list": lambda: {
        "a.gguf": gguf([key("a", gguf_bytes.ARRAY, gguf_bytes.array_value(9, 1) * 9)])
    },
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "inspect": (),
    "run": ("--prompt", "Hi", "--model"),
    "bench": ("--model",),
    "serve": ("--port", "0", "--model"),
    "logits": ("--tokens", "tokens.json", "--out", "out.npz", "--model"),
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_cannot_be_used_is_one_sentence_and_status_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    kind: str,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path / "home"))
    files = FILES[kind]()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "tokens.json").write_text("[1, 2]", encoding="utf-8")
    assert main([command, *COMMANDS[command], str(tmp_path / min(files))]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"engine {command}: ")
    assert captured.err.endswith(".\n")
    assert captured.err.count("\n") == 1
    assert captured.err[:-1].isprintable()
