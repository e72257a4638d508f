"""Which cases are never trained: one rule for the data and for the evaluation.

A case is held out by a checksum of its text, so that data and evaluation need no common list.
"""

import zlib


def _share(text: str, modulus: int, value: int) -> bool:
    return zlib.crc32(text.encode()) % modulus == value


def is_held_out(word: str) -> bool:
    """Whether a word is kept out of training (one in a hundred)."""
    return _share(word, 100, 7)


def is_held_out_sentence(sentence: str) -> bool:
    """Whether a sentence is kept out of every trained text (one in twenty)."""
    return _share(sentence, 20, 3)


def is_held_out_function(source: str) -> bool:
    """Whether a function's source is kept out (one in ten)."""
    return _share(source, 10, 3)


def is_held_out_sum(a: int, b: int) -> bool:
    """Whether a pair of operands is kept out of sums and differences (one in ten)."""
    return _share(f"{a} {b}", 10, 3)


def is_held_out_topic(topic: str) -> bool:
    """Whether a tool's topic is kept out (one in six): its name is never seen in a tool list."""
    return _share(topic, 6, 2)
