"""Block formats to float32, in numpy: exact, vectorised, the twin that every kernel is checked by.

Each decoder takes the raw blocks of its type, (num_blocks, block_bytes) uint8, and gives their
values, (num_blocks, block_values) float32, bit for bit those of the format's definition
(`spec/qwen4exp.md` section 8). Here are the plain numbers and the blocks of 32 to 128 values; the
256-value families are in `blocks_k.py` and `blocks_iq.py`.

Example, Q8_0: the 34 bytes `00 38 | 02 fe 00 ..` are d = 0.5 and the values 1.0, -1.0, 0.0, ...
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import ModelFileError
from engine.core.ggml_types import GgmlType
from engine.gguf import blocks_iq, blocks_k
from engine.gguf.block_parts import IQ4_VALUES, Bytes, Floats, halves, nibbles

Decoder = Callable[[Bytes], Floats]

# Blocks are decoded some at a time, so that temporaries stay in the cache and small beside a result
# that may be gigabytes.
_VALUES_PER_STEP = 1 << 18

# The values of a 4-bit float (1 sign, 2 exponent, 1 mantissa bits), doubled to be whole.
_FP4_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


def dequantise(raw: NDArray[np.uint8], ggml_type: GgmlType, shape: tuple[int, ...]) -> Floats:
    """The values of a tensor as float32.

    Args:
        raw: the tensor's bytes, uint8, contiguous, of any shape.
        ggml_type: how they are to be read.
        shape: of the result, row-major; its last axis is a whole number of blocks.

    Raises:
        ModelFileError: the type is one that we have no decoder for.
        ValueError: `raw` has not the size that type and shape need.
    """
    decode = _DECODERS.get(ggml_type)
    if decode is None:
        raise ModelFileError(
            f"Stratum cannot compute with tensors of the format {ggml_type.name}; use another "
            "quantisation of the model.",
            code="unsupported_tensor_type",
            params={"type": ggml_type.name},
        )
    blocks = raw.reshape(-1, ggml_type.block_bytes)  # (num_blocks, block_bytes), uint8
    values = np.empty((len(blocks), ggml_type.block_values), np.float32)
    step = max(1, _VALUES_PER_STEP // ggml_type.block_values)
    # Random or hostile scales may be infinite or NaN; the values are then too, which is no error here.
    with np.errstate(all="ignore"):
        for start in range(0, len(blocks), step):
            values[start : start + step] = decode(blocks[start : start + step])
    return values.reshape(shape)


def _numbers(dtype: str) -> Decoder:
    def decode(blocks: Bytes) -> Floats:
        return np.ascontiguousarray(blocks).view(dtype).astype(np.float32)

    return decode


def _bf16(blocks: Bytes) -> Floats:
    upper = np.ascontiguousarray(blocks).view("<u2").astype(np.uint32)
    return (upper << 16).view(np.float32)


def _q4_0(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * (nibbles(blocks[:, 2:18]).astype(np.float32) - 8)


def _q4_1(blocks: Bytes) -> Floats:
    d, m = halves(blocks, 0), halves(blocks, 2)
    return d * nibbles(blocks[:, 4:20]).astype(np.float32) + m


def _fifth_bits(qh: Bytes) -> Bytes:
    """Bit j of the 32-bit number in `qh`, (n, 4), as 16 or 0 for value j: (n, 32)."""
    return np.unpackbits(qh, axis=1, bitorder="little") << np.uint8(4)


def _q5_0(blocks: Bytes) -> Floats:
    q = nibbles(blocks[:, 6:22]) | _fifth_bits(blocks[:, 2:6])
    return halves(blocks, 0) * (q.astype(np.float32) - 16)


def _q5_1(blocks: Bytes) -> Floats:
    q = nibbles(blocks[:, 8:24]) | _fifth_bits(blocks[:, 4:8])
    return halves(blocks, 0) * q.astype(np.float32) + halves(blocks, 2)


def _q8_0(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * blocks[:, 2:34].view(np.int8).astype(np.float32)


def _q2_0(blocks: Bytes) -> Floats:
    codes = blocks[:, 2:18, None] >> np.array([0, 2, 4, 6], np.uint8) & 3  # (n, 16, 4)
    return halves(blocks, 0) * (codes.reshape(-1, 64).astype(np.float32) - 1)


def _q1_0(blocks: Bytes) -> Floats:
    bits = np.unpackbits(blocks[:, 2:18], axis=1, bitorder="little")  # (n, 128), 1: +d, 0: -d
    return halves(blocks, 0) * (bits.astype(np.float32) * 2 - 1)


def _iq4_nl(blocks: Bytes) -> Floats:
    return halves(blocks, 0) * IQ4_VALUES[nibbles(blocks[:, 2:18])]


def _mxfp4(blocks: Bytes) -> Floats:
    # The scale is 2^(e - 127), halved because the table is doubled; e below 2 is subnormal.
    scale = np.ldexp(np.float32(1), blocks[:, :1].astype(np.int32) - 128)
    return scale * _FP4_DOUBLED[nibbles(blocks[:, 1:17])]


_DECODERS: dict[GgmlType, Decoder] = {
    GgmlType.F32: _numbers("<f4"),
    GgmlType.F16: _numbers("<f2"),
    GgmlType.F64: _numbers("<f8"),
    GgmlType.I8: _numbers("<i1"),
    GgmlType.I16: _numbers("<i2"),
    GgmlType.I32: _numbers("<i4"),
    GgmlType.I64: _numbers("<i8"),
    GgmlType.BF16: _bf16,
    GgmlType.Q4_0: _q4_0,
    GgmlType.Q4_1: _q4_1,
    GgmlType.Q5_0: _q5_0,
    GgmlType.Q5_1: _q5_1,
    GgmlType.Q8_0: _q8_0,
    GgmlType.Q2_0: _q2_0,
    GgmlType.Q1_0: _q1_0,
    GgmlType.IQ4_NL: _iq4_nl,
    GgmlType.MXFP4: _mxfp4,
    GgmlType.Q2_K: blocks_k.q2_k,
    GgmlType.Q3_K: blocks_k.q3_k,
    GgmlType.Q4_K: blocks_k.q4_k,
    GgmlType.Q5_K: blocks_k.q5_k,
    GgmlType.Q6_K: blocks_k.q6_k,
    GgmlType.IQ4_XS: blocks_iq.iq4_xs,
    GgmlType.IQ2_XXS: blocks_iq.iq2_xxs,
    GgmlType.IQ2_XS: blocks_iq.iq2_xs,
    GgmlType.IQ2_S: blocks_iq.iq2_s,
    GgmlType.IQ3_XXS: blocks_iq.iq3_xxs,
    GgmlType.IQ3_S: blocks_iq.iq3_s,
    GgmlType.IQ1_S: blocks_iq.iq1_s,
    GgmlType.IQ1_M: blocks_iq.iq1_m,
}

# The types that `dequantise` knows.
DECODABLE = frozenset(_DECODERS)
