"""The structs that CUDA kernels take by value, as ctypes: one class for each struct of the sources.

Fields are in the order of the `.cu` and `.cuh` files that the classes name; addresses are `c_void_p`.
"""

from __future__ import annotations

import ctypes
import math

import numpy as np

from engine.device.array import DeviceArray
from engine.ops.cuda_launch import Launcher
from engine.ops.plan import PassPlan

_ADDRESS = ctypes.c_void_p
_INT = ctypes.c_int32
_FLOAT = ctypes.c_float


def address_of(array: object) -> int:
    """Where an array of the card lies.

    Raises:
        TypeError: it is not on the card.
    """
    if not isinstance(array, DeviceArray):
        raise TypeError(f"an array on the card is needed, not {type(array).__name__}")
    return array.address


def scratch_floats(launcher: Launcher, name: str, shape: tuple[int, ...]) -> DeviceArray:
    """Scratch memory of that name as float32; the launcher owns it."""
    kind = np.dtype(np.float32)
    address = launcher.scratch(name, math.prod(shape) * kind.itemsize)
    return DeviceArray(launcher.space, address, shape, kind, launcher)


class PassStruct(ctypes.Structure):
    """`Pass` of pass.cuh."""

    _fields_ = (
        ("positions", _ADDRESS),
        ("row_seq", _ADDRESS),
        ("seq_start", _ADDRESS),
        ("seq_slot", _ADDRESS),
        ("seq_half", _ADDRESS),
        ("seq_length", _ADDRESS),
        ("page_table", _ADDRESS),
        ("rope_cos", _ADDRESS),
        ("rope_sin", _ADDRESS),
        ("block_rope_cos", _ADDRESS),
        ("block_rope_sin", _ADDRESS),
        ("num_rows", _INT),
        ("num_sequences", _INT),
        ("max_pages", _INT),
    )


def pass_struct(plan: PassPlan) -> PassStruct:
    """The plan's arrays, which lie on the card."""
    return PassStruct(
        *(address_of(plan.positions), address_of(plan.row_seq), address_of(plan.seq_start)),
        *(address_of(plan.seq_slot), address_of(plan.seq_half), address_of(plan.seq_length)),
        address_of(plan.page_table),
        *(address_of(plan.rope_cos), address_of(plan.rope_sin)),
        *(address_of(plan.block_rope_cos), address_of(plan.block_rope_sin)),
        *(plan.num_rows, plan.num_sequences, plan.page_table.shape[1]),
    )


class HcNormStruct(ctypes.Structure):
    """`HcNorm` of streams.cu."""

    _fields_ = (
        ("streams", _ADDRESS),
        ("last_inject", _ADDRESS),
        ("y", _ADDRESS),
        ("late", _ADDRESS),
        ("norm", _ADDRESS),
        ("inject_rows", _ADDRESS),
        ("normed", _ADDRESS),
        ("records", _ADDRESS),
        ("partials", _ADDRESS),
        ("num_streams", _INT),
        ("hidden", _INT),
        ("eps", _FLOAT),
    )


class HcUpStruct(ctypes.Structure):
    """`HcUp` of hc_up.cuh."""

    _fields_ = (
        ("up", _ADDRESS),
        ("row_bytes", ctypes.c_int64),
        ("low", _ADDRESS),
        ("normed", _ADDRESS),
        ("x", _ADDRESS),
        ("records", _ADDRESS),
        ("partials", _ADDRESS),
        ("inject", _ADDRESS),
        ("num_rows", _INT),
        ("num_streams", _INT),
        ("hidden", _INT),
        ("rank", _INT),
        ("lanes", _INT),
    )


class DeltaStateStruct(ctypes.Structure):
    """`DeltaState` of delta.cu."""

    _fields_ = (
        ("state", _ADDRESS),
        ("conv", _ADDRESS),
        ("window_conv", _ADDRESS),
        ("window_k", _ADDRESS),
        ("window_v", _ADDRESS),
        ("window_decay", _ADDRESS),
        ("window_beta", _ADDRESS),
    )


class DeltaSizesStruct(ctypes.Structure):
    """`DeltaSizes` of delta.cu."""

    _fields_ = (
        ("k_heads", _INT),
        ("v_heads", _INT),
        ("head_dim", _INT),
        ("taps", _INT),
        ("window", _INT),
    )


class DeltaInputsStruct(ctypes.Structure):
    """`DeltaInputs` of delta.cu."""

    _fields_ = (
        ("conv", _ADDRESS),
        ("a", _ADDRESS),
        ("dt", _ADDRESS),
        ("qkv", _ADDRESS),
        ("alpha", _ADDRESS),
        ("beta", _ADDRESS),
        ("mixed", _ADDRESS),
        ("decay", _ADDRESS),
        ("rate", _ADDRESS),
        ("first_row", _INT),
        ("num_rows", _INT),
    )


class DeltaGateStruct(ctypes.Structure):
    """`DeltaGate` of delta.cu."""

    _fields_ = (("z", _ADDRESS), ("norm", _ADDRESS), ("eps", _FLOAT))


class KvPagesStruct(ctypes.Structure):
    """`KvPages` of kv_pages.cuh."""

    _fields_ = (
        ("keys", _ADDRESS),
        ("values", _ADDRESS),
        ("key_scales", _ADDRESS),
        ("value_scales", _ADDRESS),
        ("index_raw", _ADDRESS),
        ("index_pooled", _ADDRESS),
        ("far_keys", _ADDRESS),
        ("far_values", _ADDRESS),
        ("far_key_scales", _ADDRESS),
        ("far_value_scales", _ADDRESS),
        ("far_index_raw", _ADDRESS),
        ("page_tokens", _INT),
        ("num_near", _INT),
    )


class AttentionSizesStruct(ctypes.Structure):
    """`AttentionSizes` of kv_pages.cuh."""

    _fields_ = (
        ("heads", _INT),
        ("kv_heads", _INT),
        ("head_dim", _INT),
        ("index_heads", _INT),
        ("index_dim", _INT),
        ("rope_dim", _INT),
        ("ratio", _INT),
        ("top_blocks", _INT),
        ("eps", _FLOAT),
    )


class PrepareInputsStruct(ctypes.Structure):
    """`PrepareInputs` of attention_prepare.cu."""

    _fields_ = (
        ("k", _ADDRESS),
        ("v", _ADDRESS),
        ("index_k", _ADDRESS),
        ("q", _ADDRESS),
        ("index_q", _ADDRESS),
        ("k_norm", _ADDRESS),
        ("q_norm", _ADDRESS),
        ("index_k_norm", _ADDRESS),
        ("index_q_norm", _ADDRESS),
        ("queries", _ADDRESS),
        ("index_queries", _ADDRESS),
        ("first_job", _INT),
        ("first_row", _INT),
    )


class AttendRowsStruct(ctypes.Structure):
    """`AttendRows` of attention.cuh."""

    _fields_ = (
        ("queries", _ADDRESS),
        ("chosen", _ADDRESS),
        ("q", _ADDRESS),
        ("out", _ADDRESS),
        ("sums", _ADDRESS),
        ("tops", _ADDRESS),
        ("totals", _ADDRESS),
        ("first_row", _INT),
        ("most_parts", _INT),
    )


class PleStateStruct(ctypes.Structure):
    """`PleState` of ple.cu."""

    _fields_ = (("conv", _ADDRESS), ("window", _ADDRESS))


class PleSizesStruct(ctypes.Structure):
    """`PleSizes` of ple.cu."""

    _fields_ = (
        ("num_streams", _INT),
        ("hidden", _INT),
        ("taps", _INT),
        ("dilation", _INT),
        ("window", _INT),
        ("eps", _FLOAT),
    )
