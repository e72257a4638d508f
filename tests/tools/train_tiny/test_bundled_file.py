"""The committed model file is what the trainer's tables say it is."""

from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core.ggml_types import GgmlType
from engine.gguf.reader import GgufFile
from tools.train_tiny.shape import shape_from_metadata
from tools.train_tiny.tensors import tensor_shapes, tensor_type
from tools.train_tiny.tokenizer import SPECIAL_TOKENS

MODELS = Path(__file__).parents[3] / "assets" / "models"
MAX_BYTES = 25_000_000


@pytest.fixture(scope="module")
def model() -> Iterator[GgufFile]:
    with GgufFile.open(MODELS / "stratum-tiny.gguf") as opened:
        yield opened


def test_the_file_is_small_enough_to_be_bundled() -> None:
    assert (MODELS / "stratum-tiny.gguf").stat().st_size < MAX_BYTES


def test_every_tensor_is_there_in_its_shape_and_type(model: GgufFile) -> None:
    metadata = {k: list(v) if isinstance(v, array) else v for k, v in model.metadata.items()}
    shape = shape_from_metadata(metadata)
    assert shape.num_mtp_layers == 1
    assert {n: t.shape for n, t in model.tensors.items()} == tensor_shapes(shape)
    for name, tensor in model.tensors.items():
        assert tensor.type is tensor_type(name, shape), name
    assert model.tensors["blk.4.ffn_up_exps.weight"].type is GgmlType.Q2_0


def test_the_template_in_the_file_is_the_one_beside_it(model: GgufFile) -> None:
    template = (MODELS / "chat_template.jinja").read_text(encoding="utf-8")
    assert model.metadata["tokenizer.chat_template"] == template


def test_every_special_token_is_a_control_token(model: GgufFile) -> None:
    tokens = list(model.metadata["tokenizer.ggml.tokens"])
    types = list(model.metadata["tokenizer.ggml.token_type"])
    for text in SPECIAL_TOKENS:
        assert types[tokens.index(text)] == 3, text
    assert tokens[model.metadata["tokenizer.ggml.eos_token_id"]] == "<|im_end|>"
    assert tokens[model.metadata["qwen4exp.ple.eos_token_id"]] == "<|endoftext|>"
