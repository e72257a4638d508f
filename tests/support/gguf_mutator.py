"""Damaged and hostile GGUF models, made from good ones: the same for the same seed and index.

    seeds = [load_seed([path]), load_seed(paths_of_a_split_model)]
    mutant = mutate(seeds, seed=1, index=17)
    first = write(mutant, folder)          # -> the path to open

A seed is one model: the bytes of its files and where each number of their headers lies (found by a
walk of our own over the good file, independent of the engine's parser). With `header_only`, the
tensor data stay zeros and are never stored (the files are sparse), which is fast.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
_MAX_FIELDS_PER_ARRAY = 4  # a vocabulary has thousands of lengths, all alike

# Values that break arithmetic: signs, widths, products, and what type numbers go up to.
_EXTREMES = (
    0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 31, 32, 33, 42, 43, 64, 255, 256, 65_535, 65_536,
    (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 60, 1 << 61,
    (1 << 63) - 1, 1 << 63, (1 << 64) - 32, (1 << 64) - 1,
)  # fmt: skip


@dataclass(frozen=True)
class Field:
    """A number in a header: where, how many bytes, and what it is."""

    position: int
    width: int
    kind: str


@dataclass(frozen=True)
class SeedFile:
    """A good file: its name, its first bytes, its size, and the numbers in its header."""

    name: str
    head: bytes
    size: int
    fields: tuple[Field, ...]


@dataclass
class MutantFile:
    """A file to write: `head`, then zeros up to `size` (cut where `size` is smaller)."""

    name: str
    head: bytearray
    size: int
    fields: tuple[Field, ...]


@dataclass
class Mutant:
    """A damaged model and, for a report, what was done to it."""

    files: list[MutantFile]
    open_name: str
    steps: list[str] = field(default_factory=list)


Seed = tuple[SeedFile, ...]


def load_seed(paths: Sequence[Path], *, header_only: bool = True) -> Seed:
    """A good model of one or several files."""
    files = []
    for path in paths:
        data = path.read_bytes()
        fields, header_end = _walk(data)
        head = data[:header_end] if header_only else data
        files.append(SeedFile(path.name, head, len(data), tuple(fields)))
    return tuple(files)


def mutate(seeds: Sequence[Seed], seed: int, index: int) -> Mutant:
    """Mutant number `index` of the endless row that `seed` stands for."""
    rng = random.Random(f"{seed}:{index}")  # noqa: S311  a seeded row of numbers, no secret
    model = seeds[index % len(seeds)]
    files = [MutantFile(f.name, bytearray(f.head), f.size, f.fields) for f in model]
    mutant = Mutant(files, rng.choice(files).name)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        kinds = _FILE_STEPS + (_SHARD_STEPS if len(files) > 1 else ())
        step = rng.choice(kinds)
        target = rng.choice(mutant.files)
        mutant.steps.append(f"{target.name}: {step(mutant, target, rng, seeds)}")
    return mutant


def write(mutant: Mutant, folder: Path) -> Path:
    """Write the files of `mutant`, delete all others in `folder`, and return the path to open."""
    for old in folder.iterdir():
        old.unlink()
    for file in mutant.files:
        with (folder / file.name).open("wb") as out:
            out.write(file.head[: file.size])
            out.truncate(file.size)
    return folder / mutant.open_name


Step = Callable[[Mutant, MutantFile, random.Random, Sequence[Seed]], str]


def _overwrite_field(_m: Mutant, file: MutantFile, rng: random.Random, _s: object) -> str:
    kinds = sorted({f.kind for f in file.fields})
    kind = rng.choice(kinds)  # kinds alike, or all mutants would be about dimensions
    target = rng.choice([f for f in file.fields if f.kind == kind])
    if target.position + target.width > len(file.head):
        return "nothing"
    end = target.position + target.width
    old = int.from_bytes(file.head[target.position : end], "little")
    value = rng.choice(
        [
            rng.choice(_EXTREMES),
            rng.choice(_EXTREMES),
            old + rng.choice((-32, -8, -1, 1, 8, 32)),
            old * 2,
            file.size + rng.choice((-1, 0, 1)),
            rng.getrandbits(8 * target.width),
        ]
    )
    value %= 1 << (8 * target.width)
    file.head[target.position : end] = value.to_bytes(target.width, "little")
    return f"{kind} at {target.position}: {old} -> {value}"


def _copy_field(_m: Mutant, file: MutantFile, rng: random.Random, _s: object) -> str:
    source = rng.choice(file.fields)
    target = rng.choice([f for f in file.fields if f.kind == source.kind])
    raw = file.head[source.position : source.position + source.width]
    file.head[target.position : target.position + len(raw)] = raw
    return f"{source.kind} at {source.position} copied to {target.position}"


def _flip_bits(_m: Mutant, file: MutantFile, rng: random.Random, _s: object) -> str:
    positions = [rng.randrange(len(file.head)) for _ in range(rng.choice((1, 2, 8, 32)))]
    for position in positions if file.head else ():
        file.head[position] ^= 1 << rng.randrange(8)
    return f"bits flipped at {positions}"


def _cut(_m: Mutant, file: MutantFile, rng: random.Random, _s: object) -> str:
    place = rng.choice(file.fields)
    file.size = rng.choice(
        [
            rng.randrange(file.size + 1),
            rng.randrange(min(file.size, len(file.head)) + 1),
            min(file.size, place.position + rng.randrange(place.width + 1)),
            max(0, file.size - rng.choice((1, 31, 32, 4096))),
        ]
    )
    return f"cut to {file.size} bytes"


def _lengthen(_m: Mutant, file: MutantFile, rng: random.Random, _s: object) -> str:
    file.size += rng.choice((1, 31, 4096, 1 << 20))
    return f"lengthened to {file.size} bytes"


def _remove_bytes(_m: Mutant, file: MutantFile, rng: random.Random, _s: object) -> str:
    start = rng.randrange(len(file.head) + 1)
    length = rng.choice((1, 4, 8, 100))
    del file.head[start : start + length]
    return f"{length} bytes removed at {start}"


def _insert_bytes(_m: Mutant, file: MutantFile, rng: random.Random, _s: object) -> str:
    start = rng.randrange(len(file.head) + 1)
    raw = rng.choice((rng.randbytes(rng.choice((1, 4, 8, 100))), bytes(8), b"\xff" * 8))
    file.head[start:start] = raw
    return f"{len(raw)} bytes inserted at {start}"


def _nest_arrays(_m: Mutant, file: MutantFile, rng: random.Random, _s: object) -> str:
    """A tower or a field of lists inside lists in the place of a value."""
    places = [f for f in file.fields if f.kind == "value type"]
    if not places:
        return "nothing"
    place = rng.choice(places)
    count, inner = rng.choice(((1, 10_000), (1 << 16, 100), (1 << 32, 10), (1 << 60, 10)))
    one = struct.pack("<IQ", _ARRAY, count)
    raw = struct.pack("<I", _ARRAY) + one * inner
    file.head[place.position : place.position + 4] = raw
    return f"{inner} lists of {count} at {place.position}"


def _damage_text(_m: Mutant, file: MutantFile, rng: random.Random, _s: object) -> str:
    places = [f for f in file.fields if f.kind in {"key length", "name length", "text length"}]
    if not places:
        return "nothing"
    place = rng.choice(places)
    raw = rng.choice((b"\xff", b"\0", b"\n", b"\x1b[", b"\xed\xa0\x80", b"\xc0\x80"))
    start = place.position + place.width
    file.head[start : start + len(raw)] = raw
    return f"text at {start} begins with {raw!r}"


def _swap_contents(mutant: Mutant, file: MutantFile, rng: random.Random, _s: object) -> str:
    other = rng.choice(mutant.files)
    file.name, other.name = other.name, file.name
    return f"swapped with {other.name}"


def _duplicate(mutant: Mutant, file: MutantFile, rng: random.Random, _s: object) -> str:
    other = rng.choice(mutant.files)
    other.head, other.size, other.fields = bytearray(file.head), file.size, file.fields
    return f"copied over {other.name}"


def _lose(mutant: Mutant, file: MutantFile, _rng: random.Random, _s: object) -> str:
    if len(mutant.files) > 1:
        mutant.files.remove(file)
    return "lost"


def _replace_by_foreign(
    _m: Mutant, file: MutantFile, rng: random.Random, seeds: Sequence[Seed]
) -> str:
    foreign = rng.choice(rng.choice(list(seeds)))
    file.head, file.size, file.fields = bytearray(foreign.head), foreign.size, foreign.fields
    return f"replaced by {foreign.name}"


_FILE_STEPS: tuple[Step, ...] = (
    *(_overwrite_field,) * 8,
    _copy_field,
    _copy_field,
    _flip_bits,
    _flip_bits,
    _cut,
    _cut,
    _lengthen,
    _remove_bytes,
    _insert_bytes,
    _nest_arrays,
    _damage_text,
)
_SHARD_STEPS: tuple[Step, ...] = (_swap_contents, _duplicate, _lose, _replace_by_foreign)


class _Walk:
    """Steps over the header of a good file and notes its numbers."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 4
        self.fields: list[Field] = []

    def number(self, width: int, kind: str, *, note: bool = True) -> int:
        start = self.position
        self.position += width
        if note:
            self.fields.append(Field(start, width, kind))
        return int.from_bytes(self.data[start : self.position], "little")

    def text(self, kind: str, *, note: bool = True) -> bytes:
        length = self.number(8, kind, note=note)
        self.position += length
        return self.data[self.position - length : self.position]

    def value(self, key: bytes) -> int | None:
        """Step over a type and value; a scalar's number is returned."""
        value_type = self.number(4, "value type")
        if value_type == _STRING:
            self.text("text length")
        elif value_type == _ARRAY:
            self.array()
        else:
            kind = "split number" if key.startswith(b"split.") else "value"
            return self.number(_SIZES[value_type], kind)
        return None

    def array(self) -> None:
        element_type = self.number(4, "element type")
        count = self.number(8, "element count")
        for i in range(count):
            note = i < _MAX_FIELDS_PER_ARRAY
            if element_type == _STRING:
                self.text("text length", note=note)
            else:
                self.number(_SIZES[element_type], "element", note=note)


def _walk(data: bytes) -> tuple[list[Field], int]:
    """The numbers in the header of a good file, and where its tensor data begin."""
    walk = _Walk(data)
    walk.number(4, "version")
    num_tensors = walk.number(8, "tensor count")
    num_keys = walk.number(8, "key count")
    alignment = 32
    for _ in range(num_keys):
        key = walk.text("key length")
        value = walk.value(key)
        if key == b"general.alignment" and value is not None:
            alignment = value
    for _ in range(num_tensors):
        walk.text("name length")
        for _ in range(walk.number(4, "dimension count")):
            walk.number(8, "dimension")
        walk.number(4, "tensor type")
        walk.number(8, "offset")
    return walk.fields, min(len(data), -(-walk.position // alignment) * alignment)
