"""Names and storage types of the exported tensors."""

from pathlib import Path

import pytest

from engine.core.ggml_types import GgmlType
from tools.train_tiny.gguf_arrays import read_arrays
from tools.train_tiny.shape import bundled_shape, shape_from_metadata
from tools.train_tiny.tensors import tensor_shapes, tensor_type

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize("name", ["full", "nople", "odd"])
def test_tensor_names_and_shapes_equal_those_of_a_reference_file(name: str) -> None:
    metadata, arrays = read_arrays(GOLDEN / f"{name}.gguf")
    expected = tensor_shapes(shape_from_metadata(metadata))
    if "per_layer_token_embd.weight" in expected:
        # The table may be padded; its rows are counted from the head sizes.
        found = arrays.pop("per_layer_token_embd.weight").shape
        assert expected.pop("per_layer_token_embd.weight")[1] == found[1]
    assert {n: a.shape for n, a in arrays.items()} == expected


def test_the_draft_head_has_the_tensors_of_the_reference_head() -> None:
    metadata, arrays = read_arrays(GOLDEN / "full-mtp.gguf")
    trunk, _ = read_arrays(GOLDEN / "full.gguf")
    shapes = tensor_shapes(shape_from_metadata(trunk | metadata))
    head = {name: shape for name, shape in shapes.items() if name.startswith("blk.4.")}
    assert {n: a.shape for n, a in arrays.items()} == head


def test_every_row_is_a_whole_number_of_blocks_of_its_type() -> None:
    shape = bundled_shape(4096, 4083)
    for name, size in tensor_shapes(shape).items():
        assert size[-1] % tensor_type(name, shape).block_values == 0, name


def test_all_formats_of_real_files_appear() -> None:
    shape = bundled_shape(4096, 4083)
    found = {tensor_type(name, shape) for name in tensor_shapes(shape)}
    assert {
        GgmlType.F32,
        GgmlType.BF16,
        GgmlType.Q8_0,
        GgmlType.Q4_K,
        GgmlType.IQ4_NL,
        GgmlType.Q2_0,
    } <= found


@pytest.mark.parametrize(
    "name", ["blk.0.ffn_gate_inp.weight", "blk.0.hc_attn_inject.weight", "blk.0.ssm_a"]
)
def test_what_converters_keep_in_float32_stays_so(name: str) -> None:
    assert tensor_type(name, bundled_shape(4096, 4083)) is GgmlType.F32
