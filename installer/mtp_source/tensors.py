"""Where the draft head's tensors lie in a checkpoint of several hundred GB, and their bytes.

The checkpoint's index says which shard holds which tensor; a shard (safetensors) begins with the
length of its header (8 bytes, little endian) and the header itself, JSON that says where each tensor
lies. Only these, and the tensors' own bytes, are fetched. Each tensor becomes a file whose SHA-256 is
known beforehand, so it resumes like any other, and `tensors.json` lists them for the engine:

    {"format": 1, "tensors": [{"name": "mtp.fc_hidden.weight", "dtype": "BF16",
                               "shape": [2560, 2560], "file": "mtp.fc_hidden.weight.bin"}]}
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog import MtpCheckpoint
from engine.core.files import JsonObject
from engine.core.strict_json import BadJsonError, parse_json
from installer.download.control import Control
from installer.download.disk import hash_file, write_record
from installer.download.hub import Hub, Listing
from installer.download.part_file import part_length
from installer.download.progress import Phase
from installer.download.reporter import Reporter
from installer.download.transfer import RemoteRange, Transfer
from installer.download.verified import VerifiedFiles
from installer.errors import HubError

TENSOR_LIST_NAME = "tensors.json"
TENSOR_LIST_FORMAT = 1

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 64 << 20
_MAX_INDEX_BYTES = 64 << 20
_DTYPE_BYTES = {"BF16": 2, "F16": 2, "F32": 4}


@dataclass(frozen=True, slots=True)
class TensorRange:
    """A tensor of the checkpoint.

    Attributes:
        name: its name there.
        dtype: `BF16`, `F16` or `F32`.
        shape: row-major.
        where: its bytes.
        sha256: of them.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    where: RemoteRange
    sha256: str

    @property
    def file_name(self) -> str:
        """Name of the file that holds it here."""
        return f"{self.name}.bin"


class TensorSource:
    """The draft head's tensors in one checkpoint."""

    def __init__(self, checkpoint: MtpCheckpoint, hub: Hub, transfer: Transfer) -> None:
        self._checkpoint = checkpoint
        self._hub = hub
        self._transfer = transfer

    def find(self) -> list[TensorRange]:
        """Where each tensor lies; a few MB are fetched.

        Raises:
            DownloadError: the checkpoint cannot be read, or is not what the catalogue says.
            StoppedError: that was asked for.
        """
        wanted = self._checkpoint
        listing = self._transfer.ask(lambda: self._hub.listing(wanted.repository, wanted.revision))
        shard_of = self._read_index(listing)
        ranges: dict[str, TensorRange] = {}
        for shard in sorted(set(shard_of.values())):
            names = [name for name, its in shard_of.items() if its == shard]
            for tensor in self._read_shard(listing, shard, names):
                ranges[tensor.name] = tensor
        return [ranges[name] for name in wanted.tensors]

    def _read_index(self, listing: Listing) -> dict[str, str]:
        path = self._checkpoint.index_path
        raw = self._read(listing, path, 0, min(self._size(listing, path), _MAX_INDEX_BYTES))
        weight_map = _json_object(raw, path).get("weight_map")
        if not isinstance(weight_map, dict):
            raise _damaged(path, "it has no weight_map")
        shard_of = {}
        for name in self._checkpoint.tensors:
            shard = weight_map.get(name)
            if not isinstance(shard, str):
                raise _damaged(path, f"it does not name {name}")
            shard_of[name] = shard
        return shard_of

    def _read_shard(self, listing: Listing, shard: str, names: list[str]) -> Iterator[TensorRange]:
        size = self._size(listing, shard)
        length = int.from_bytes(self._read(listing, shard, 0, _LENGTH_BYTES), "little")
        if not 2 <= length <= min(_MAX_HEADER_BYTES, size - _LENGTH_BYTES):
            raise _damaged(shard, f"its header would have {length} bytes")
        header = _json_object(self._read(listing, shard, _LENGTH_BYTES, length), shard)
        for name in names:
            dtype, shape, first, last = _entry(header, name, shard)
            start = _LENGTH_BYTES + length + first
            if start + (last - first) > size:
                raise _damaged(shard, f"{name} ends behind the file's end")
            yield TensorRange(
                name=name,
                dtype=dtype,
                shape=shape,
                where=RemoteRange(
                    self._checkpoint.repository, listing.commit, shard, size, start, last - first
                ),
                sha256=self._checkpoint.tensors[name],
            )

    def _size(self, listing: Listing, path: str) -> int:
        file = listing.files.get(path)
        if file is None:
            raise HubError(
                f"{self._hub.host} does not have {path} in {listing.repository}. Choose another "
                "mirror, or go on without the draft head.",
                code="hub_file_missing",
                params={"file": path, "repository": listing.repository, "host": self._hub.host},
            )
        return file.bytes

    def _read(self, listing: Listing, path: str, first: int, count: int) -> bytes:
        size = self._size(listing, path)
        return self._transfer.read(
            RemoteRange(self._checkpoint.repository, listing.commit, path, size, first, count)
        )


class TensorFiles:
    """The fetched tensors in a folder."""

    def __init__(self, folder: Path, verified: VerifiedFiles) -> None:
        self.folder = folder
        self._verified = verified

    @property
    def list_path(self) -> Path:
        """The list for the engine."""
        return self.folder / TENSOR_LIST_NAME

    def missing_bytes(self, tensors: list[TensorRange]) -> int:
        """How much is still to be fetched."""
        return sum(
            tensor.where.bytes
            - part_length(self.folder / tensor.file_name, tensor.where.bytes, tensor.sha256)
            for tensor in tensors
            if self._verified.sha256_of(self.folder / tensor.file_name) != tensor.sha256
        )

    def fetch(
        self,
        tensors: list[TensorRange],
        transfer: Transfer,
        control: Control,
        reporter: Reporter,
    ) -> None:
        """Fetch what is missing, and write the list.

        Raises:
            DownloadError: it cannot go on; what was fetched is kept.
            StoppedError: that was asked for.
        """
        for tensor in tensors:
            path = self.folder / tensor.file_name
            if self._verified.sha256_of(path) == tensor.sha256:
                continue
            if path.is_file() and path.stat().st_size == tensor.where.bytes:
                reporter.begin(Phase.CHECKING, path.name, tensor.where.bytes)
                is_right = hash_file(path, control, reporter.read) == tensor.sha256
            else:
                is_right = False
            if not is_right:
                transfer.fetch(tensor.where, path, tensor.sha256)
            self._verified.remember(path, tensor.sha256)
        entries: list[JsonObject] = [
            {
                "name": tensor.name,
                "dtype": tensor.dtype,
                "shape": list(tensor.shape),
                "file": tensor.file_name,
            }
            for tensor in tensors
        ]
        write_record(self.list_path, {"format": TENSOR_LIST_FORMAT, "tensors": list(entries)})


def _entry(
    header: Mapping[str, object], name: str, shard: str
) -> tuple[str, tuple[int, ...], int, int]:
    """(dtype, shape, first byte, byte after the last) of a tensor, checked."""
    entry = header.get(name)
    if not isinstance(entry, dict):
        raise _damaged(shard, f"it does not hold {name}")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _DTYPE_BYTES:
        raise _damaged(shard, f"{name} is of the type {dtype}")
    sizes = _whole_numbers(shape, shard, name)
    ends = _whole_numbers(offsets, shard, name)
    if len(ends) != 2 or ends[1] - ends[0] != math.prod(sizes) * _DTYPE_BYTES[dtype]:
        raise _damaged(shard, f"the bytes of {name} do not fit its shape")
    return dtype, sizes, ends[0], ends[1]


def _whole_numbers(value: object, shard: str, name: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise _damaged(shard, f"{name} has no shape or no place")
    numbers = [item for item in value if isinstance(item, int) and not isinstance(item, bool)]
    if len(numbers) != len(value) or any(number < 0 for number in numbers):
        raise _damaged(shard, f"{name} has no shape or no place")
    return tuple(numbers)


def _json_object(raw: bytes, name: str) -> Mapping[str, object]:
    try:
        value = parse_json(raw.decode())
    except (UnicodeDecodeError, BadJsonError) as error:
        raise _damaged(name, "it is not JSON") from error
    if not isinstance(value, dict):
        raise _damaged(name, "it is not a JSON object")
    return value


def _damaged(name: str, reason: str) -> HubError:
    return HubError(
        f"{name} of the original checkpoint is not what it should be ({reason}). Choose another "
        "mirror, or go on without the draft head.",
        code="checkpoint_damaged",
        params={"file": name, "reason": reason},
    )
