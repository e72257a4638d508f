"""The sizes and hash constants that the trainer writes into the file."""

from pathlib import Path

from tools.train_tiny.gguf_arrays import read_arrays
from tools.train_tiny.shape import (
    bundled_shape,
    hash_multipliers,
    metadata_of,
    primes_from,
    shape_from_metadata,
)

GOLDEN = Path(__file__).parents[2] / "golden"


def test_the_hash_constants_equal_those_of_the_real_model() -> None:
    # spec/qwen4exp.md section 5
    assert hash_multipliers(248320, 3) == (23703573157769, 20109073645365, 8052911324071)
    assert primes_from(20_000_000, 4) == (20000003, 20000023, 20000033, 20000047)


def test_the_metadata_written_describe_the_shape_they_came_from() -> None:
    shape = bundled_shape(4096, 4083)
    metadata = {f"qwen4exp.{key}": value for key, (value, _) in metadata_of(shape).items()}
    assert shape_from_metadata(metadata) == shape


def test_the_metadata_of_a_reference_file_are_understood() -> None:
    metadata, _ = read_arrays(GOLDEN / "full.gguf")
    shape = shape_from_metadata(metadata)
    assert shape.layer_kinds == "LLLA"
    assert shape.ple is not None
    assert list(shape.ple.head_offsets) == metadata["qwen4exp.ple.head_offsets"]


def test_the_bundled_shape_fits_the_formats_and_the_draft_head() -> None:
    shape = bundled_shape(4096, 4083)
    metadata = {key: value for key, (value, _) in metadata_of(shape).items()}
    assert metadata["block_count"] == len(shape.layer_kinds) + 1
    assert metadata["attention.recurrent_layers"] == [True, True, False, True, False]
    assert shape.hidden_size % 256 == 0  # rows of Q4_K
    assert shape.expert_size % 64 == 0  # rows of Q2_0
    assert shape.context_length >= 131072
    assert shape.ple is not None
    assert shape.ple.row_width * len(shape.ple.head_sizes) == shape.hidden_size
    assert shape.ple.row_width % 32 == 0
