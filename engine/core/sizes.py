"""Numbers of bytes as people read them."""

from __future__ import annotations


def size_in_words(num_bytes: int) -> str:
    """A size with the largest unit that leaves at least one of it.

    >>> size_in_words(512), size_in_words(1536), size_in_words(5 << 30)
    ('512 B', '1.5 KiB', '5.0 GiB')
    """
    value = float(num_bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
