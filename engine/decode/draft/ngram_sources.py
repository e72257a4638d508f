"""What the n-gram caches of all requests share: counts of earlier ones, and a corpus.

Counts of earlier requests hold what people wrote. They are kept only where that was asked for, and
written to a file of their own: whole, under its name, in one step, so that one that was being written
when the power failed leaves the old one as it was.
"""

from __future__ import annotations

import logging
import os
import struct
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.core.errors import InputError, ResourceError
from engine.decode.draft.ngram import GRAM, PAIR, NgramDrafter, NgramTable
from engine.decode.draft.ngram_file import NgramFile, vocabulary_hash

logger = logging.getLogger(__name__)

MAGIC = b"STRNLEARN"
FORMAT = 1
MOST_GRAMS = 4 << 20  # of earlier requests; then counting begins anew (about 300 MB)
_HEADER = struct.Struct("<9sI32sQQI")


class LearnedFileError(InputError):
    """A file of counts cannot be used."""

    code = "ngram_counts_unusable"


class NgramSources:
    """Makes the drafters of requests.

    Args:
        vocabulary: the model's tokens.
        file: a corpus, None = none.
        learned_path: where counts of requests are kept; None = nothing is kept.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        file: NgramFile | None = None,
        learned_path: Path | None = None,
    ) -> None:
        self._vocabulary = vocabulary_hash(vocabulary)
        self._file = file
        self._path = learned_path
        self._learned: NgramTable | None = None
        if learned_path is not None:
            self._learned = self._read(learned_path)

    @property
    def learns(self) -> bool:
        """Whether counts of requests are kept."""
        return self._learned is not None

    def drafter(self) -> NgramDrafter:
        """For one request."""
        return NgramDrafter(self._learned, self._file)

    def learn(self, drafter: NgramDrafter) -> None:
        """A request is over: count its tokens, where that is wanted."""
        if self._learned is None:
            return
        if self._learned.num_grams > MOST_GRAMS:
            logger.info("counts of earlier requests begin anew: there were too many")
            self._learned = NgramTable()
        tokens = drafter.tokens
        self._learned.append(tokens, 0, len(tokens))

    def save(self) -> None:
        """Write the counts of requests, where they are kept.

        Raises:
            ResourceError: they cannot be written.
        """
        if self._learned is None or self._path is None:
            return
        grams, pairs = self._learned.records()
        body = grams.tobytes() + pairs.tobytes()
        head = _HEADER.pack(
            MAGIC, FORMAT, self._vocabulary, len(grams), len(pairs), zlib.crc32(body)
        )
        temporary: Path | None = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                temporary = Path(file.name)
                file.write(head)
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            if temporary is not None:
                temporary.unlink(missing_ok=True)
            raise ResourceError(
                f"The n-gram counts {self._path} cannot be written ({error}); the former ones "
                "are kept."
            ) from error

    def _read(self, path: Path) -> NgramTable:
        """The kept counts; none when there is no file, or one that cannot be used."""
        if not path.exists():
            return NgramTable()
        try:
            return self._parse(path)
        except (OSError, LearnedFileError) as error:
            logger.warning("n-gram counts begin anew: %s", error)
            return NgramTable()

    def _parse(self, path: Path) -> NgramTable:
        content = path.read_bytes()
        if len(content) < _HEADER.size:
            raise LearnedFileError(f"{path} is cut off.")
        magic, version, vocabulary, num_grams, num_pairs, checksum = _HEADER.unpack_from(content)
        if magic != MAGIC:
            raise LearnedFileError(f"{path} holds no n-gram counts.")
        if version != FORMAT:
            raise LearnedFileError(f"{path} has the format {version}; this version reads {FORMAT}.")
        if vocabulary != self._vocabulary:
            raise LearnedFileError(f"{path} is of another vocabulary.")
        body = content[_HEADER.size :]
        size = num_grams * GRAM.itemsize
        if len(body) != size + num_pairs * PAIR.itemsize or zlib.crc32(body) != checksum:
            raise LearnedFileError(f"{path} is cut off or damaged.")
        grams = np.frombuffer(body, GRAM, num_grams)
        return NgramTable.from_records(grams, np.frombuffer(body, PAIR, num_pairs, size))
