"""Quantisers: round trips within bounds, exact numbers kept, awkward blocks survived."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.gguf.block_parts import IQ4_VALUES
from engine.gguf.blocks import dequantise
from engine.gguf.quantise import QUANTISABLE, quantise

BLOCK_TYPES = [GgmlType.Q8_0, GgmlType.Q4_0, GgmlType.IQ4_NL, GgmlType.Q4_K, GgmlType.Q2_0]


def round_trip(values, ggml_type):
    raw = quantise(values, ggml_type)
    return dequantise(raw, ggml_type, values.shape)


def gaussian(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


# Root of the mean squared error over that of normally distributed values. What an even grid of
# 16 (4) levels can reach at best, each block with its own scale, is about 0.07 (0.34).
@pytest.mark.parametrize(
    ("ggml_type", "bound"),
    [
        (GgmlType.F32, 0.0),
        (GgmlType.F16, 3e-4),
        (GgmlType.BF16, 2e-3),
        (GgmlType.Q8_0, 0.0056),
        (GgmlType.Q4_0, 0.083),
        (GgmlType.IQ4_NL, 0.076),
        (GgmlType.Q4_K, 0.073),
        (GgmlType.Q2_0, 0.36),
    ],
)
def test_normal_values_come_back_within_the_bound(ggml_type, bound):
    values = gaussian(64, 512) * np.float32(0.02)
    error = round_trip(values, ggml_type) - values
    assert np.sqrt(np.square(error).mean() / np.square(values).mean()) <= bound


def test_every_value_of_q8_0_is_within_half_a_step():
    values = gaussian(200, 32)
    step = np.abs(values).max(axis=1, keepdims=True) / 127
    # The step is rounded to float16 (2^-11 of it), and 127 of them add up.
    assert (np.abs(round_trip(values, GgmlType.Q8_0) - values) <= step * 0.57).all()


@pytest.mark.parametrize("ggml_type", [GgmlType.Q8_0, GgmlType.Q4_0])  # it writes no other of ours
def test_quantisers_are_no_worse_than_those_of_the_gguf_package(ggml_type):
    values = gaussian(32, 512)
    raw = gguf.quants.quantize(values, gguf.GGMLQuantizationType(int(ggml_type)))
    theirs = np.square(dequantise(raw, ggml_type, values.shape) - values).sum()
    assert np.square(round_trip(values, ggml_type) - values).sum() <= theirs * 1.001


@pytest.mark.parametrize("ggml_type", [GgmlType.F32, GgmlType.F16, GgmlType.BF16])
def test_numbers_are_rounded_as_the_gguf_package_rounds(ggml_type):
    values = np.concatenate([gaussian(64), [0, -0.0, 1e-8, -1e-30, 65504, np.inf]])
    values = values.astype(np.float32)
    theirs = gguf.quants.quantize(values, gguf.GGMLQuantizationType(int(ggml_type)))
    assert quantise(values, ggml_type).tobytes() == theirs.tobytes()


@pytest.mark.parametrize(
    ("ggml_type", "levels"),
    [
        (GgmlType.Q8_0, np.arange(-127, 128, dtype=np.float32)),
        (GgmlType.Q4_0, np.arange(-8, 8, dtype=np.float32)),
        (GgmlType.Q2_0, np.arange(-1, 3, dtype=np.float32)),
        (GgmlType.Q2_0, -np.arange(-1, 3, dtype=np.float32)),
        (GgmlType.IQ4_NL, IQ4_VALUES),
        (GgmlType.Q4_K, np.arange(0, 16, dtype=np.float32)),
    ],
)
def test_values_that_the_format_has_are_kept_exactly(ggml_type, levels):
    rng = np.random.default_rng(8)
    values = rng.choice(levels, (50, ggml_type.block_values)).astype(np.float32) / 64
    # Every group of a block holds the farthest levels, which pin its scale.
    groups = values.reshape(-1, 32)
    groups[:, 0], groups[:, 1] = levels.max() / 64, levels.min() / 64
    decoded = round_trip(values, ggml_type)
    if ggml_type is GgmlType.Q4_K:  # its scales are themselves rounded (63 steps, float16)
        assert np.abs(decoded - values).max() <= 15 / 64 * 2**-11
    else:
        assert np.array_equal(decoded, values)


@pytest.mark.parametrize("ggml_type", BLOCK_TYPES)
@pytest.mark.parametrize(
    "block",
    ["zeros", "tiny", "smaller still", "huge", "one spike", "constant", "positive", "negative"],
)
def test_awkward_blocks_stay_near_their_values(ggml_type, block):
    base = gaussian(4, 256)
    values = {
        "zeros": np.zeros_like(base),
        "tiny": base * np.float32(1e-5),
        "smaller still": base * np.float32(1e-38),
        "huge": np.clip(base * 3e4, -65504, 65504),
        "one spike": np.where(np.arange(256) == 77, np.float32(100), base * np.float32(0.01)),
        "constant": np.full_like(base, 0.3),
        "positive": np.abs(base),
        "negative": -np.abs(base),
    }[block].astype(np.float32)
    decoded = round_trip(values, ggml_type)
    largest = np.abs(values).max()
    # Q2_0 has nothing beyond -1 and 2 steps, and the best step of normal values is about one sigma.
    worst = {"Q2_0": 0.75, "Q8_0": 0.01}.get(ggml_type.name, 0.15)
    # Below 2^-24 float16 has no scales left.
    assert np.abs(decoded - values).max() <= worst * largest + 2**-24
    if block == "zeros":
        assert not decoded.any()


@pytest.mark.parametrize("ggml_type", BLOCK_TYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e9])
def test_values_that_cannot_be_stored_are_refused(ggml_type, bad):
    values = np.zeros(256, np.float32)
    values[3] = bad
    with pytest.raises(ValueError, match="65504"):
        quantise(values, ggml_type)


def test_a_finite_value_that_f16_would_make_infinite_is_refused():
    with pytest.raises(ValueError, match="65504"):
        quantise(np.array([1e6], np.float32), GgmlType.F16)


def test_bf16_keeps_a_nan_a_nan():
    nan = np.array([0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(round_trip(nan, GgmlType.BF16)).all()


def test_a_row_is_quantised_alike_alone_and_among_others():
    values = gaussian(3, 5, 256)
    for ggml_type in QUANTISABLE:
        raw = quantise(values, ggml_type)
        assert raw.shape[:2] == (3, 5)
        assert np.array_equal(raw[1, 2], quantise(values[1, 2], ggml_type))


def test_a_type_without_quantiser_is_refused():
    with pytest.raises(ValueError, match="IQ2_XS"):
        quantise(np.zeros(256, np.float32), GgmlType.IQ2_XS)


def test_rows_that_are_no_whole_number_of_blocks_are_refused():
    with pytest.raises(ValueError, match="no whole number"):
        quantise(np.zeros((2, 160), np.float32), GgmlType.Q2_0)
