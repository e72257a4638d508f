"""A GGUF model, mapped into memory: its metadata and its tensors over all its files.

    with GgufFile.open(Path("model.gguf")) as model:
        embedding = model.tensors["token_embd.weight"].rows([1, 2])    # (2, hidden_size), float32

Nothing is read whole: a tensor's bytes are a view of the mapping, and its pages come from disk when
they are touched. The header is checked in `engine/core`; what tensors mean is not known here. Mapped
privately, pages can be made the process's own where they lie (`engine/gguf/keep.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import ModelFileError
from engine.core.ggml_types import GgmlType, row_bytes
from engine.core.gguf_header import GgufHeader, MetadataValue, ModelHeader, read_model_header
from engine.core.gguf_values import printable
from engine.gguf.blocks import dequantise

_MAP_NORESERVE = 0x4000  # Linux; Python has no name for it before 3.12


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One tensor of a model file.

    Attributes:
        name: such as `blk.0.attn_qkv.weight`.
        type: how its values are stored.
        shape: its dimensions in row-major order, the contiguous one last.
        data: its bytes as they lie in the file, (num_bytes,) uint8, read-only, not copied.
    """

    name: str
    type: GgmlType
    shape: tuple[int, ...]
    data: NDArray[np.uint8]

    @property
    def row_bytes(self) -> int:
        """Bytes from one row (of the last axis) to the next."""
        return row_bytes(self.type, self.shape[-1])

    def dequantise(self) -> NDArray[np.float32]:
        """All values as float32, of the tensor's shape."""
        return dequantise(self.data, self.type, self.shape)

    def rows(self, indices: Sequence[int] | NDArray[np.integer]) -> NDArray[np.float32]:
        """Some rows of a 2-D tensor, (len(indices), row_length) float32; only they are read.

        Raises:
            IndexError: an index is negative or past the last row.
            ValueError: the tensor is not 2-D.
        """
        if len(self.shape) != 2:
            raise ValueError(f"{self.name} has {len(self.shape)} dimensions instead of 2")
        wanted = np.asarray(indices, np.int64).reshape(-1)
        num_rows, row_length = self.shape
        if wanted.size and not 0 <= int(wanted.min()) <= int(wanted.max()) < num_rows:
            raise IndexError(f"{self.name} has {num_rows} rows; one asked for is not among them")
        raw = self.data.reshape(num_rows, self.row_bytes)[wanted]
        return dequantise(raw, self.type, (len(wanted), row_length))


class GgufFile:
    """The files of one model, mapped read-only.

    Attributes:
        paths: the files, in the order of their numbers.
        metadata: the keys and values (see `GgufHeader`).
        tensors: by name, over all files.
        is_private: pages that are written to become the process's own; the files never change.
    """

    def __init__(self, header: ModelHeader, *, private: bool = False) -> None:
        """Map the files of `header`; use `GgufFile.open`."""
        self.paths = header.paths
        self.is_private = private
        self.metadata: Mapping[str, MetadataValue] = header.metadata
        self._maps: list[mmap.mmap] = []
        self._spans: list[tuple[int, int, Path]] = []  # address, bytes and file of private mappings
        tensors: dict[str, Tensor] = {}
        try:
            for path, shard in zip(header.paths, header.shards, strict=True):
                if shard.tensors:  # the first of several files may hold none
                    tensors.update(self._map_tensors(path, shard))
        except BaseException:
            tensors.clear()
            self.close()
            raise
        self.tensors: Mapping[str, Tensor] = tensors

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map the model that `path`, a single file or any shard of it, belongs to.

        Raises:
            ModelFileError: a file is missing, damaged, hostile or of a kind that we do not know.
        """
        return cls(read_model_header(path))

    def writable(self, address: int, num_bytes: int) -> NDArray[np.uint8]:
        """Bytes of a private mapping, to be written to; what is written stays in this process."""
        if not any(
            start <= address and address + num_bytes <= start + size
            for start, size, _ in self._spans
        ):
            raise ValueError("the bytes are in no private mapping of this file")
        buffer = (ctypes.c_uint8 * num_bytes).from_address(address)
        return np.ctypeslib.as_array(buffer)

    def drop_cached(self, address: int, num_bytes: int) -> None:
        """Tell the system that the file's own pages of these bytes are not needed in its cache."""
        for start, size, path in self._spans:
            if start <= address < start + size and hasattr(os, "posix_fadvise"):
                with contextlib.suppress(OSError), path.open("rb", buffering=0) as file:
                    os.posix_fadvise(
                        file.fileno(), address - start, num_bytes, os.POSIX_FADV_DONTNEED
                    )

    def close(self) -> None:
        """Give up the files.

        Arrays that still look into a mapping keep it alive: it goes when the last of them does.
        """
        self.tensors = {}
        for mapped in self._maps:
            try:
                mapped.close()
            except BufferError:
                continue  # somebody holds a view of it, see above
        self._maps.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _map(self, descriptor: int, path: Path) -> mmap.mmap:
        if not self.is_private or sys.platform == "win32":
            return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        # Without a reserve: only what is written to takes memory, not the whole file.
        flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", _MAP_NORESERVE)
        mapped = mmap.mmap(descriptor, 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        address = np.frombuffer(mapped, np.uint8, 1).ctypes.data
        size = -(-len(mapped) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._spans.append((address, size, path))
        return mapped

    def _map_tensors(self, path: Path, shard: GgufHeader) -> dict[str, Tensor]:
        try:
            with path.open("rb") as file:
                mapped = self._map(file.fileno(), path)
        except (OSError, ValueError) as error:
            raise ModelFileError(
                f"The file {printable(str(path), 400)} cannot be mapped into memory ({error}); "
                "check its permissions and the disk.",
                code="file_unreadable",
                params={"file": str(path)},
            ) from error
        self._maps.append(mapped)
        end = max(tensor.offset + tensor.num_bytes for tensor in shard.tensors)
        if shard.data_start + end > len(mapped):
            raise ModelFileError(
                f"The file {printable(path.name)} became shorter while it was being opened; wait "
                "until it has been copied or downloaded, and try again.",
                code="file_truncated",
                params={"file": path.name},
            )
        tensors = {}
        for info in shard.tensors:
            data = np.frombuffer(mapped, np.uint8, info.num_bytes, shard.data_start + info.offset)
            data.flags.writeable = False
            tensors[info.name] = Tensor(info.name, info.type, info.shape, data)
        return tensors
