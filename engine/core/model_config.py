"""What kind of model a file holds: sizes and layer kinds from its metadata, checked (spec 2 and 3.1).

Nothing is allocated here. A config that exists has sizes that make sense together; that the file's
tensors have these sizes is checked in `model_shapes.py`, so every size is bounded by bytes that exist.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.core.errors import ModelFileError
from engine.core.gguf_values import quoted
from engine.core.metadata import MetadataReader, refuse
from engine.core.model_shapes import HasShape, check_trunk_shapes

ARCHITECTURE = "qwen4exp"
_PREFIX = ARCHITECTURE + "."

# Limits far above any known model. They keep products such as heads * head_dim^2 (the delta state)
# within a small multiple of the tensors that must exist.
_MAX_LAYERS = 4096
_MAX_WIDTH = 1 << 24
_MAX_HEAD_DIM = 1024
_MAX_TOKENS = 1 << 31


class LayerKind(enum.Enum):
    """How a layer mixes tokens."""

    DELTA = "delta"
    ATTENTION = "attention"


@dataclass(frozen=True, slots=True)
class PleConfig:
    """The n-gram layer (spec 4.7 and 5)."""

    layers: tuple[int, ...]
    ngram_size: int
    heads_per_ngram: int
    conv_kernel: int
    row_width: int
    eos_token_id: int
    image_token_id: int
    multipliers: tuple[int, ...]
    head_offsets: tuple[int, ...]
    head_sizes: tuple[int, ...]

    @property
    def num_heads(self) -> int:
        """Table rows that one token reads."""
        return (self.ngram_size - 1) * self.heads_per_ngram

    @property
    def num_table_rows(self) -> int:
        """Rows that the heads can reach."""
        return max(o + n for o, n in zip(self.head_offsets, self.head_sizes, strict=True))


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes of a model. Trunk layers are numbered from 0; MTP blocks follow them in the file."""

    layer_kinds: tuple[LayerKind, ...]
    num_mtp_layers: int
    context_length: int
    vocab_size: int
    hidden_size: int
    rms_eps: float
    num_streams: int
    low_rank: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float
    rope_dim: int
    rope_sections: tuple[int, int, int]
    num_index_heads: int
    index_dim: int
    block_ratio: int
    top_blocks: int
    delta_num_k_heads: int
    delta_num_v_heads: int
    delta_head_dim: int
    delta_conv_kernel: int
    num_experts: int
    num_experts_used: int
    expert_width: int
    shared_expert_width: int
    ple: PleConfig | None

    @property
    def num_layers(self) -> int:
        """Layers of the trunk."""
        return len(self.layer_kinds)

    @property
    def delta_channels(self) -> int:
        """Channels of the delta convolution: q, k and v."""
        return (2 * self.delta_num_k_heads + self.delta_num_v_heads) * self.delta_head_dim

    @property
    def delta_inner(self) -> int:
        """Width of the delta layer's values."""
        return self.delta_num_v_heads * self.delta_head_dim

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[str, object], tensors: Mapping[str, HasShape]
    ) -> ModelConfig:
        """The config of a complete model file, with every tensor's shape checked against it.

        Raises:
            ModelFileError: unknown architecture, missing or senseless values, missing tensors, or
                tensors of other shapes.
        """
        check_architecture(metadata)
        embedding = tensors.get("token_embd.weight")
        if embedding is None:
            refuse(_missing_embedding_reason(metadata, tensors))
        if len(embedding.shape) != 2:
            refuse(f"its tensor token_embd.weight has the shape {embedding.shape}")
        _check_tokenizer(metadata, embedding.shape[0])
        config = parse_config(metadata, vocab_size=embedding.shape[0])
        check_trunk_shapes(config, tensors)
        return config


def check_architecture(metadata: Mapping[str, object]) -> None:
    """Refuse files of other architectures.

    Raises:
        ModelFileError: the file is not of the architecture that this engine runs.
    """
    architecture = metadata.get("general.architecture")
    if architecture != ARCHITECTURE:
        named = quoted(architecture) if isinstance(architecture, str) else "not stated"
        raise ModelFileError(
            f"The model's architecture is {named}; this engine runs {ARCHITECTURE} "
            "(Qwen3.8-Flash-Next) only; choose another file.",
            code="unknown_architecture",
        )


def _check_tokenizer(metadata: Mapping[str, object], vocab_size: int) -> None:
    """Refuse a tokenizer that makes ids which the model does not have; fewer are padding."""
    tokens = metadata.get("tokenizer.ggml.tokens")
    num_tokens = len(tokens) if isinstance(tokens, Sequence) else 0
    if num_tokens > vocab_size:
        refuse(
            f"its tokenizer has {num_tokens} tokens, but its embedding has only {vocab_size} rows"
        )


def parse_config(metadata: Mapping[str, object], vocab_size: int) -> ModelConfig:
    """Sizes from the metadata, checked against each other but not against tensors.

    Raises:
        ModelFileError: a key is missing or its value makes no sense.
    """
    read = MetadataReader(metadata, _PREFIX)
    num_blocks = read.integer("block_count", 1, _MAX_LAYERS)
    num_mtp_layers = read.integer("nextn_predict_layers", 0, num_blocks - 1, default=0)
    num_layers = num_blocks - num_mtp_layers
    layer_kinds = _layer_kinds(read, num_layers)
    _check_rope_scaling(read)
    block_ratio = _block_ratio(read, layer_kinds)
    head_dim = read.integer("attention.key_length", 1, _MAX_HEAD_DIM)
    if read.integer("attention.value_length", 1, _MAX_HEAD_DIM, default=head_dim) != head_dim:
        refuse("its keys and values have different lengths, which this engine does not know")
    hidden_size = read.integer("embedding_length", 1, _MAX_WIDTH)
    config = ModelConfig(
        layer_kinds=layer_kinds,
        num_mtp_layers=num_mtp_layers,
        context_length=read.integer("context_length", 1, _MAX_TOKENS),
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        rms_eps=read.number("attention.layer_norm_rms_epsilon", 1e-12, 1e-1),
        num_streams=read.integer("hyper_connection.count", 1, 64),
        low_rank=read.integer("hyper_connection.low_rank", 1, _MAX_WIDTH),
        num_heads=read.integer("attention.head_count", 1, 4096),
        num_kv_heads=read.integer("attention.head_count_kv", 1, 4096),
        head_dim=head_dim,
        rope_theta=read.number("rope.freq_base", 1.0, 1e12),
        rope_dim=read.integer("rope.dimension_count", 2, _MAX_HEAD_DIM),
        rope_sections=_rope_sections(read),
        num_index_heads=read.integer("attention.indexer.head_count", 1, 4096),
        index_dim=read.integer("attention.indexer.key_length", 1, _MAX_HEAD_DIM),
        block_ratio=block_ratio,
        top_blocks=read.integer("attention.indexer.top_k", block_ratio, _MAX_TOKENS) // block_ratio,
        delta_num_k_heads=read.integer("ssm.group_count", 1, 4096),
        delta_num_v_heads=read.integer("ssm.time_step_rank", 1, 4096),
        delta_head_dim=read.integer("ssm.state_size", 1, _MAX_HEAD_DIM),
        delta_conv_kernel=read.integer("ssm.conv_kernel", 2, 64),
        num_experts=read.integer("expert_count", 1, 65_536),
        num_experts_used=read.integer("expert_used_count", 1, 65_536),
        expert_width=read.integer("expert_feed_forward_length", 1, _MAX_WIDTH),
        shared_expert_width=read.integer("expert_shared_feed_forward_length", 1, _MAX_WIDTH),
        ple=_ple(read, num_layers, hidden_size, vocab_size),
    )
    _check_together(config)
    inner = read.integer("ssm.inner_size", 1, _MAX_WIDTH, default=config.delta_inner)
    if inner != config.delta_inner:
        refuse(
            f"its linear attention has {config.delta_num_v_heads} heads of "
            f"{config.delta_head_dim} but an inner size of {inner}"
        )
    return config


def _check_together(config: ModelConfig) -> None:
    if config.num_heads % config.num_kv_heads:
        refuse(f"its {config.num_heads} heads cannot share {config.num_kv_heads} key heads evenly")
    if config.delta_num_v_heads % config.delta_num_k_heads:
        refuse(
            f"its {config.delta_num_v_heads} linear attention heads cannot share "
            f"{config.delta_num_k_heads} key heads evenly"
        )
    if config.delta_head_dim > config.hidden_size:  # keeps the state below the size of `ssm_out`
        refuse(
            f"its linear attention heads have {config.delta_head_dim} values, more than the "
            f"hidden size {config.hidden_size}"
        )
    smallest = min(config.head_dim, config.index_dim)
    if config.rope_dim % 2 or config.rope_dim > smallest:
        refuse(
            f"it rotates {config.rope_dim} dimensions of heads with {smallest}; "
            "an even number of at most that is possible"
        )
    if sum(config.rope_sections) not in (0, config.rope_dim // 2):
        refuse(f"its rope sections {config.rope_sections} do not cover {config.rope_dim // 2}")
    if config.num_experts_used > config.num_experts:
        refuse(f"it uses {config.num_experts_used} experts a token but has {config.num_experts}")


def _layer_kinds(read: MetadataReader, num_layers: int) -> tuple[LayerKind, ...]:
    if read.has("attention.recurrent_layers"):
        flags = read.integers("attention.recurrent_layers", num_layers, 0, 1)
    else:
        interval = read.integer("full_attention_interval", 1, _MAX_LAYERS)
        flags = tuple(int((i + 1) % interval != 0) for i in range(num_layers))
    return tuple(LayerKind.DELTA if f else LayerKind.ATTENTION for f in flags[:num_layers])


def _block_ratio(read: MetadataReader, layer_kinds: tuple[LayerKind, ...]) -> int:
    """The one block ratio of the trunk's attention layers.

    Writers disagree on what MTP blocks and other layers hold (0 or 1), so these are not read.
    """
    ratios = read.integers("attention.compress_ratios", len(layer_kinds), 0, 4096)
    used = {r for r, kind in zip(ratios, layer_kinds, strict=False) if kind is LayerKind.ATTENTION}
    if not used:  # a sidecar or a model without attention layers: any layer's ratio
        used = {max(*ratios, 1)}
    if len(used) != 1:
        refuse(f"its attention layers have different block ratios ({sorted(used)})")
    ratio = used.pop()
    if not 1 <= ratio <= 256:
        refuse(f"its attention layers have the block ratio {ratio}, outside of 1 to 256")
    return ratio


def _rope_sections(read: MetadataReader) -> tuple[int, int, int]:
    if not read.has("rope.dimension_sections"):
        return (0, 0, 0)
    t, h, w = read.integers("rope.dimension_sections", 3, 0, _MAX_HEAD_DIM)[:3]
    return (t, h, w)


def _check_rope_scaling(read: MetadataReader) -> None:
    kind = read.text("rope.scaling.type", "none")
    if kind != "none":
        refuse(
            f"it stretches its context by rope scaling ({kind[:40]!r}), "
            "which this version does not compute"
        )


def _ple(
    read: MetadataReader, num_layers: int, hidden_size: int, vocab_size: int
) -> PleConfig | None:
    if not read.has("ple.layers"):
        return None
    layers = read.integers("ple.layers", 1, 0, num_layers - 1)
    if len(layers) > 1:
        refuse(f"it has {len(layers)} n-gram layers; this version computes one")
    ngram_size = read.integer("ple.ngram_size", 2, 16)
    heads_per_ngram = read.integer("ple.heads_per_ngram", 1, 1024)
    num_heads = (ngram_size - 1) * heads_per_ngram
    eos = read.integer("ple.eos_token_id", 0, _MAX_TOKENS)
    ple = PleConfig(
        layers=layers,
        ngram_size=ngram_size,
        heads_per_ngram=heads_per_ngram,
        conv_kernel=read.integer("ple.conv_kernel", 2, 64),
        row_width=read.integer("embedding_length_per_layer_input", 1, _MAX_WIDTH),
        eos_token_id=eos,
        image_token_id=read.integer("ple.image_token_id", 0, _MAX_TOKENS, default=eos),
        multipliers=read.integers("ple.layer_multipliers", ngram_size, 0, (1 << 63) - 1)[
            :ngram_size
        ],
        head_offsets=read.integers("ple.head_offsets", num_heads, 0, 1 << 48)[:num_heads],
        head_sizes=read.integers("ple.head_vocab_sizes", num_heads, 1, 1 << 48)[:num_heads],
    )
    if num_heads * ple.row_width != hidden_size:
        refuse(
            f"its n-gram layer joins {num_heads} rows of {ple.row_width} values, "
            f"which is not the hidden size {hidden_size}"
        )
    if max(ple.multipliers) * max(vocab_size - 1, eos) >= 1 << 63:
        refuse("its n-gram multipliers are too large for its vocabulary")
    return ple


def _missing_embedding_reason(
    metadata: Mapping[str, object], tensors: Mapping[str, HasShape]
) -> str:
    nextn = metadata.get(_PREFIX + "nextn_predict_layers")
    if nextn and any(".nextn." in name for name in tensors):
        return "it holds only a draft head (MTP), which belongs beside a complete model"
    return "it has no tensor token_embd.weight"
