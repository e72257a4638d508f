"""Block decoders against the golden blocks and the gguf package, bit for bit."""

from __future__ import annotations

import warnings
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.core.errors import ModelFileError
from engine.core.ggml_types import GgmlType
from engine.gguf.blocks import DECODABLE, dequantise

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "quant_blocks.npz")
GOLDEN_CASES = [(name, name.replace("_raw", "_deq")) for name in GOLDEN.files if "_raw" in name]


def same_bits(ours, theirs) -> bool:
    return np.array_equal(ours.view(np.uint32), theirs.view(np.uint32))


@pytest.mark.parametrize(("raw_name", "values_name"), GOLDEN_CASES)
def test_golden_blocks_are_decoded_bit_for_bit(raw_name, values_name):
    ggml_type = GgmlType[raw_name.split("_raw")[0]]
    expected = GOLDEN[values_name]
    ours = dequantise(GOLDEN[raw_name], ggml_type, expected.shape)
    assert ours.dtype == np.float32
    assert same_bits(ours, expected)


def test_every_golden_format_has_a_decoder():
    assert {GgmlType[name.split("_raw")[0]] for name, _ in GOLDEN_CASES} <= DECODABLE


@pytest.mark.parametrize("ggml_type", sorted(DECODABLE - {GgmlType.Q2_0, GgmlType.Q1_0}))
def test_random_bytes_are_decoded_as_the_gguf_package_does(ggml_type):
    theirs_type = gguf.GGMLQuantizationType(int(ggml_type))
    num_blocks = 301
    raw = np.random.default_rng(5).integers(
        0, 256, (num_blocks, ggml_type.block_bytes), dtype=np.uint8
    )
    shape = (num_blocks, ggml_type.block_values)
    ours = dequantise(raw, ggml_type, shape)
    if ggml_type.name[0] in "IF" and ggml_type.name[1:].isdigit():
        with np.errstate(all="ignore"):
            theirs = raw.view(f"<{ggml_type.name[0].lower()}{ggml_type.block_bytes}")
            theirs = theirs.astype(np.float32)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = gguf.quants.dequantize(raw, theirs_type)
    assert np.array_equal(ours, theirs.reshape(shape), equal_nan=True)


def test_more_blocks_than_one_step_give_the_same_values():
    one = np.arange(34, dtype=np.uint8)
    raw = np.tile(one, (20_001, 1))
    expected = dequantise(one, GgmlType.Q8_0, (32,))
    assert (dequantise(raw, GgmlType.Q8_0, (20_001, 32)) == expected).all()


def test_the_example_in_the_module_text_holds():
    raw = np.zeros(34, np.uint8)
    raw[:4] = [0x00, 0x38, 0x02, 0xFE]
    assert dequantise(raw, GgmlType.Q8_0, (32,))[:3].tolist() == [1.0, -1.0, 0.0]


def test_a_format_without_decoder_is_refused_by_name():
    with pytest.raises(ModelFileError, match="TQ1_0"):
        dequantise(np.zeros(54, np.uint8), GgmlType.TQ1_0, (256,))


def test_bytes_that_do_not_fit_the_shape_are_refused():
    with pytest.raises(ValueError, match="reshape"):
        dequantise(np.zeros(34, np.uint8), GgmlType.Q8_0, (64,))
