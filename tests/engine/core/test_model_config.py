"""Model configs: what is read, and what is refused before anything is allocated."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import pytest

from engine.core.errors import ModelFileError
from engine.core.model_config import LayerKind, ModelConfig
from tests.support.golden import model_file


@dataclass
class Shape:
    shape: tuple[int, ...]


def golden(case: str = "full", **changes: object) -> tuple[dict[str, object], dict[str, Shape]]:
    """Metadata with changed keys (None removes one), and the tensors' shapes."""
    file = model_file(case)
    metadata: dict[str, object] = dict(file.metadata)
    for key, value in changes.items():
        name = key.replace("__", ".")
        metadata[name if name.startswith("general.") else f"qwen4exp.{name}"] = value
    metadata = {k: v for k, v in metadata.items() if v is not None}
    return metadata, {name: Shape(t.shape) for name, t in file.tensors.items()}


def test_everything_of_a_golden_file_is_read():
    config = ModelConfig.from_metadata(*golden())
    kinds = [LayerKind.DELTA] * 3 + [LayerKind.ATTENTION]
    assert config.layer_kinds == tuple(kinds)
    assert (config.vocab_size, config.hidden_size, config.num_streams) == (384, 128, 4)
    assert (config.block_ratio, config.top_blocks) == (4, 8)
    assert (config.delta_channels, config.delta_inner) == (256, 128)
    assert config.ple is not None
    assert config.ple.num_heads == 16
    assert config.ple.num_table_rows == 12719 + 907
    assert ModelConfig.from_metadata(*golden("nople")).ple is None


def test_layer_kinds_come_from_the_interval_when_no_list_is_there():
    changed = golden(attention__recurrent_layers=None)
    assert ModelConfig.from_metadata(*changed) == ModelConfig.from_metadata(*golden())


def test_arrays_may_have_any_integer_type():
    as_array = golden(
        attention__compress_ratios=array("B", [1, 1, 1, 4]),
        attention__recurrent_layers=array("i", [1, 1, 1, 0]),
    )
    assert ModelConfig.from_metadata(*as_array) == ModelConfig.from_metadata(*golden())


def test_optional_keys_may_be_missing():
    metadata, tensors = golden(
        rope__dimension_sections=None, ple__image_token_id=None, attention__value_length=None
    )
    config = ModelConfig.from_metadata(metadata, tensors)
    assert config.ple is not None
    assert config.ple.image_token_id == config.ple.eos_token_id


def test_a_tokenizer_that_knows_more_tokens_than_the_model_is_refused():
    metadata, tensors = golden()
    metadata["tokenizer.ggml.tokens"] = [str(i) for i in range(385)]
    with pytest.raises(ModelFileError, match="385 tokens, but its embedding has only 384 rows"):
        ModelConfig.from_metadata(metadata, tensors)
    metadata["tokenizer.ggml.tokens"] = ["a"] * 380  # padded rows are common
    assert ModelConfig.from_metadata(metadata, tensors).vocab_size == 384


def test_the_name_of_an_unknown_architecture_stays_one_quoted_line():
    changes = {"general__architecture": "a\x1b[31m\n'b'" * 100}
    with pytest.raises(ModelFileError) as caught:
        ModelConfig.from_metadata(*golden(**changes))
    assert caught.value.message.isprintable()
    assert caught.value.message.count('"') == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ple__eos_token_id": (1 << 31) - 1}, "multipliers are too large"),
        ({"general__architecture": "llama"}, 'architecture is "llama"'),
        ({"general__architecture": None}, "architecture is not stated"),
        ({"embedding_length": None}, "lack the key qwen4exp.embedding_length"),
        ({"embedding_length": "128"}, "embedding_length is not a whole number"),
        ({"embedding_length": True}, "embedding_length is not a whole number"),
        ({"embedding_length": 1 << 40}, "outside of 1 to"),
        ({"block_count": 0}, "block_count is 0"),
        ({"block_count": 5}, "recurrent_layers has 4 values, 5 are needed"),
        ({"block_count": 3}, "tensors of a layer 3, but its metadata count only 3"),
        ({"nextn_predict_layers": 4}, "nextn_predict_layers is 4"),
        ({"attention__head_count": 3}, "3 heads cannot share 2 key heads"),
        ({"attention__value_length": 32}, "different lengths"),
        ({"attention__layer_norm_rms_epsilon": float("nan")}, "epsilon is nan"),
        ({"attention__layer_norm_rms_epsilon": 0.0}, "epsilon is 0"),
        ({"ssm__group_count": 3}, "4 linear attention heads cannot share 3"),
        ({"ssm__state_size": 256}, "heads have 256 values, more than the hidden size 128"),
        ({"ssm__inner_size": 64}, "inner size of 64"),
        ({"ssm__conv_kernel": 1}, "conv_kernel is 1"),
        ({"rope__dimension_count": 15}, "rotates 15 dimensions"),
        ({"rope__dimension_count": 34}, "rotates 34 dimensions of heads with 32"),
        ({"rope__dimension_sections": [3, 3, 3, 0]}, "sections"),
        ({"rope__dimension_sections": [3, 3]}, "dimension_sections has 2 values"),
        ({"rope__scaling.type": "yarn"}, "stretches its context by rope scaling"),
        ({"expert_used_count": 17}, "uses 17 experts a token but has 16"),
        ({"attention__indexer.top_k": 3}, "top_k is 3"),
        ({"attention__compress_ratios": [0, 0, 0, 0]}, "block ratio 0"),
        ({"attention__compress_ratios": "4"}, "is not a list"),
        ({"attention__compress_ratios": [0, 0, 0, "4"]}, "something else than numbers"),
        ({"ple__layers": [4]}, "ple.layers holds 4"),
        ({"ple__layers": [0, 1]}, "2 n-gram layers"),
        ({"ple__head_vocab_sizes": [0] * 16}, "holds 0"),
        ({"ple__head_offsets": [0] * 15}, "has 15 values, 16 are needed"),
        ({"ple__layer_multipliers": [1 << 60] * 3}, "too large for its vocabulary"),
        ({"embedding_length_per_layer_input": 16}, "joins 16 rows of 16"),
        ({"ple__head_offsets": [0] * 15 + [13000]}, "13696 rows, but its heads reach 13907"),
        ({"expert_feed_forward_length": 8}, "ffn_gate_exps.weight has the shape"),
        ({"hyper_connection__low_rank": 8}, "output_hc_down.weight has the shape"),
    ],
)
def test_senseless_metadata_are_refused_with_the_reason(changes, reason):
    with pytest.raises(ModelFileError, match=reason) as caught:
        ModelConfig.from_metadata(*golden(**changes))
    assert caught.value.exit_status == 2
    assert caught.value.message.endswith(".")


def test_attention_layers_of_different_ratios_are_refused():
    changed = golden("nople", attention__compress_ratios=[0, 4, 8, 0])
    with pytest.raises(ModelFileError, match="different block ratios"):
        ModelConfig.from_metadata(*changed)


@pytest.mark.parametrize("name", sorted(model_file("full").tensors))
def test_every_missing_and_every_misshapen_tensor_is_named(name):
    metadata, tensors = golden()
    good = tensors[name].shape
    tensors[name] = Shape((*good, 2))
    with pytest.raises(ModelFileError, match=name):
        ModelConfig.from_metadata(metadata, tensors)
    del tensors[name]
    if name == "output.weight":  # the embedding takes its place
        ModelConfig.from_metadata(metadata, tensors)
        return
    with pytest.raises(ModelFileError, match=name):
        ModelConfig.from_metadata(metadata, tensors)


def test_a_draft_head_alone_is_called_one():
    file = model_file("full-mtp")
    with pytest.raises(ModelFileError, match="only a draft head"):
        ModelConfig.from_metadata(file.metadata, file.tensors)
