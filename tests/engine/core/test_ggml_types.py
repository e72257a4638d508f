"""Sizes of the tensor types."""

from __future__ import annotations

import gguf
import pytest

from engine.core.ggml_types import GgmlType, row_bytes


def test_numbers_and_sizes_are_those_of_the_gguf_package():
    ours = {t.name: (int(t), t.block_values, t.block_bytes) for t in GgmlType}
    theirs = {t.name: (int(t), *gguf.GGML_QUANT_SIZES[t]) for t in gguf.GGMLQuantizationType}
    del ours["Q2_0"]  # unknown to it
    # It counts the two scales of Q8_1 as float32; they are float16. The type is never in files.
    del ours["Q8_1"], theirs["Q8_1"]
    assert ours == theirs


def test_q2_0_has_64_values_in_18_bytes_under_number_42():
    assert (GgmlType(42).name, GgmlType.Q2_0.block_values, GgmlType.Q2_0.block_bytes) == (
        "Q2_0",
        64,
        18,
    )


def test_a_row_of_the_n_gram_table_has_five_blocks():
    assert row_bytes(GgmlType.IQ4_NL, 160) == 90


@pytest.mark.parametrize("length", [159, 161, -32])
def test_a_row_that_is_no_whole_number_of_blocks_is_refused(length):
    with pytest.raises(ValueError, match="no whole number"):
        row_bytes(GgmlType.IQ4_NL, length)
