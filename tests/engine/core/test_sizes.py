"""Sizes in words."""

import pytest

from engine.core.sizes import size_in_words


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 << 19, "1.5 MiB"),
        (5 << 30, "5.0 GiB"),
        (2 << 40, "2048.0 GiB"),
    ],
)
def test_sizes_get_the_largest_unit_that_fits(num_bytes: int, words: str):
    assert size_in_words(num_bytes) == words
