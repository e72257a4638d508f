"""The header of a model over all its files, read without numpy and without the tensor data.

A model is one file, or split into shards named `NAME-00001-of-00003.gguf`.

Every shard says which one it is (`split.no`, from 0) of how many (`split.count`), and how many
tensors all have together (`split.tensors.count`); the first may hold no tensors, and a layer's
tensors may lie in several (`spec/qwen4exp.md` section 3.1). Here the shards are found from any of
them and checked to belong together. What the tensors are is not known here; one file is read in
`gguf_parse.py`, whose names are to be had from here too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import ModelFileError
from engine.core.gguf_parse import GgufHeader, TensorInfo, parse_header, read_header
from engine.core.gguf_values import (
    MetadataArray,
    MetadataValue,
    StringArray,
    damaged,
    printable,
    quoted,
)

__all__ = [
    "GgufHeader",
    "MetadataArray",
    "MetadataValue",
    "ModelHeader",
    "StringArray",
    "TensorInfo",
    "find_shards",
    "parse_header",
    "read_header",
    "read_model_header",
]

_SHARD_NAME = re.compile(
    r"(?P<stem>.*)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})(?P<suffix>\.gguf)",
    re.IGNORECASE | re.DOTALL,
)
# What two shards may both say about the model, and must then say alike.
_IDENTITY_KEYS = ("general.architecture", "general.name", "split.count", "split.tensors.count")


@dataclass(frozen=True, slots=True)
class ModelHeader:
    """What all files of a model say together.

    Attributes:
        paths: the files in the order of their numbers.
        shards: the header of each.
        metadata: the first file's keys, and those that only later ones have.
        tensors: name -> (index in `paths`, where it lies in that file).
    """

    paths: tuple[Path, ...]
    shards: tuple[GgufHeader, ...]
    metadata: Mapping[str, MetadataValue]
    tensors: Mapping[str, tuple[int, TensorInfo]]


def find_shards(path: Path) -> list[Path]:
    """All files of the model that `path` belongs to, in the order of their numbers.

    Raises:
        ModelFileError: one of them is missing, damaged, or not what its name says.
    """
    return list(read_model_header(path).paths)


def read_model_header(path: Path) -> ModelHeader:
    """The joined headers of the model that `path`, a single file or any shard, belongs to.

    Raises:
        ModelFileError: a file is missing, damaged, or not what its name says; two of them hold the
            same tensor; tensors are missing.
    """
    paths = _sibling_paths(path)
    shards: list[GgufHeader] = []
    for index, shard_path in enumerate(paths):
        shard = read_header(shard_path)
        _check_number(shard_path.name, shard, index, len(paths))
        if shards:
            _check_kinship(shard_path.name, shard, paths[0].name, shards[0])
        shards.append(shard)
    metadata: dict[str, MetadataValue] = {}
    for shard in shards:
        for key, value in shard.metadata.items():
            metadata.setdefault(key, value)
    return ModelHeader(tuple(paths), tuple(shards), metadata, _join_tensors(paths, shards))


def _sibling_paths(path: Path) -> list[Path]:
    """The files that the name of `path` speaks of; all exist if it is a shard's name."""
    match = _SHARD_NAME.fullmatch(path.name)
    if match is None:
        return [path]
    number, count = int(match["number"]), int(match["count"])
    if not 1 <= number <= count:
        raise ModelFileError(
            f"The file name {printable(path.name)} says part {number} of {count}, which cannot be; "
            "give the file back the name that it was published with.",
            code="shard_name",
            params={"file": path.name},
        )
    if not _exists(path):
        return [path]  # reading it says so, without speaking of its siblings
    paths: list[Path] = []
    for index in range(1, count + 1):
        name = f"{match['stem']}-{index:05d}-of-{count:05d}{match['suffix']}"
        paths.append(path.with_name(name))
        if not _exists(paths[-1]):
            raise ModelFileError(
                f"The file {printable(name)}, part {index} of the {count} of this model, is missing "
                f"beside {printable(path.name)}; download it into the same folder.",
                code="shard_missing",
                params={"file": name, "number": index, "count": count},
            )
    return paths


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a folder that may not be looked into, a name too long for the disk
        return False


def _integer(header: GgufHeader, key: str, file_name: str) -> int | None:
    value = header.metadata.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise damaged(file_name, f"its metadata key {key} is not a whole number")
    return value


def _check_number(file_name: str, header: GgufHeader, index: int, count: int) -> None:
    """Refuse a file that says it is another shard than its name says."""
    own_index = _integer(header, "split.no", file_name)
    own_count = _integer(header, "split.count", file_name)
    if count == 1 and (own_count is None or own_count <= 1):
        return
    if own_count is None or own_index is None:
        raise ModelFileError(
            f"The file {printable(file_name)} is called part {index + 1} of {count} but is not a "
            "part of a split model; download that part again, or give the file its own name.",
            code="shard_foreign",
            params={"file": file_name},
        )
    if (own_index, own_count) != (index, count):
        raise ModelFileError(
            f"The file {printable(file_name)} is by its content part {own_index + 1} of {own_count}, "
            "which its name does not say; give it back the name that it was published with, or "
            "download it again.",
            code="shard_swapped",
            params={"file": file_name, "number": own_index + 1, "count": own_count},
        )


def _check_kinship(file_name: str, header: GgufHeader, first_name: str, first: GgufHeader) -> None:
    """Refuse a shard that speaks of another model than the first one does."""
    for key in _IDENTITY_KEYS:
        mine, theirs = header.metadata.get(key), first.metadata.get(key)
        if mine is not None and theirs is not None and mine != theirs:
            raise ModelFileError(
                f"The files {printable(first_name)} and {printable(file_name)} belong to different "
                f"models (their {key} differ); download the parts of one model again.",
                code="shard_foreign",
                params={"file": file_name, "first": first_name, "key": key},
            )


def _join_tensors(paths: list[Path], shards: list[GgufHeader]) -> dict[str, tuple[int, TensorInfo]]:
    tensors: dict[str, tuple[int, TensorInfo]] = {}
    for index, shard in enumerate(shards):
        for tensor in shard.tensors:
            if tensor.name in tensors:
                other = paths[tensors[tensor.name][0]].name
                raise ModelFileError(
                    f"The files {printable(other)} and {printable(paths[index].name)} both hold the "
                    f"tensor {quoted(tensor.name)}, so they are not parts of one model; download "
                    "the parts of one model again.",
                    code="shard_foreign",
                    params={"file": paths[index].name, "tensor": tensor.name},
                )
            tensors[tensor.name] = (index, tensor)
    total = _integer(shards[0], "split.tensors.count", paths[0].name)
    if total is not None and total != len(tensors):
        raise ModelFileError(
            f"The {len(paths)} files of {printable(paths[0].name)} hold {len(tensors)} tensors and "
            f"should hold {total}, so one is of another model; download the parts of one model "
            "again.",
            code="shard_foreign",
            params={"file": paths[0].name, "tensors": len(tensors), "expected": total},
        )
    return tensors
