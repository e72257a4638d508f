"""What a model's caches, states and buffers take, from its config alone."""

from __future__ import annotations

from engine.core.gguf_header import ModelHeader
from engine.core.kv_type import KvType
from engine.core.model_config import LayerKind, ModelConfig

MAX_WINDOW = 16  # rows of one sequence that a pass can commit in part: last token and 15 drafts
PAGE_TOKENS = 256  # rounded down to a multiple of the model's block ratio

# Tokenizers of front and worker and the trie that grammars search: 1,430 bytes a token measured for the
# worker's with 248,320 tokens, the front's tokenizer has no trie.
_TOKEN_BYTES = 2000


def model_config_of(header: ModelHeader) -> ModelConfig:
    """The model's sizes, its tensors' shapes checked against them.

    Raises:
        ModelFileError: the header describes no model that we know.
    """
    return ModelConfig.from_metadata(
        header.metadata, {name: info for name, (_shard, info) in header.tensors.items()}
    )


def page_tokens_of(model: ModelConfig) -> int:
    """Tokens in a page: a whole number of index blocks, so that no block crosses a page."""
    return max(PAGE_TOKENS // model.block_ratio, 1) * model.block_ratio


def kv_page_bytes(model: ModelConfig, kv_type: KvType, page_tokens: int) -> int:
    """Bytes of one page over all attention layers, the MTP layer's included."""
    per_head = model.head_dim * kv_type.value_bytes + kv_type.scale_bytes
    per_index = model.index_dim * kv_type.index_bytes
    per_token = 2 * model.num_kv_heads * per_head + per_index
    per_page = page_tokens * per_token + page_tokens // model.block_ratio * per_index
    layers = sum(kind is LayerKind.ATTENTION for kind in model.layer_kinds) + model.num_mtp_layers
    return per_page * layers


def state_bytes(model: ModelConfig) -> int:
    """Bytes of one sequence's fixed state: two halves and a window, float32."""
    heads, dim = model.delta_num_v_heads, model.delta_head_dim
    channels = model.delta_channels
    halves = 2 * (heads * dim * dim + (model.delta_conv_kernel - 1) * channels)
    window = MAX_WINDOW * (channels + model.delta_num_k_heads * dim + heads * dim + 2 * heads)
    total = sum(kind is LayerKind.DELTA for kind in model.layer_kinds) * (halves + window)
    if model.ple is not None:
        width = model.num_streams * model.hidden_size
        history = (model.ple.conv_kernel - 1) * model.ple.ngram_size
        total += (2 * history + MAX_WINDOW) * width
    return 4 * total


def checkpoint_bytes(model: ModelConfig) -> int:
    """Bytes of a checkpoint beside its pages: one half of the fixed state, float32."""
    heads, dim = model.delta_num_v_heads, model.delta_head_dim
    delta = heads * dim * dim + (model.delta_conv_kernel - 1) * model.delta_channels
    total = sum(kind is LayerKind.DELTA for kind in model.layer_kinds) * delta
    width = model.num_streams * model.hidden_size  # and the last token's streams
    if model.ple is not None:
        total += (model.ple.conv_kernel - 1) * model.ple.ngram_size * width
    return 4 * (total + width)


def vocabulary_bytes(vocab_size: int) -> int:
    """Bytes of the vocabulary in front and worker together."""
    return vocab_size * _TOKEN_BYTES


def mixer_widths(model: ModelConfig) -> list[dict[str, int]]:
    """Float32 values of a row in the buffers of mixers and n-gram layer, by kind and name.

    The kinds are never at work together.
    """
    kv_width = model.num_kv_heads * model.head_dim
    kinds = [
        {
            "delta_qkv": model.delta_channels,
            "delta_z": model.delta_inner,
            "delta_alpha": model.delta_num_v_heads,
            "delta_beta": model.delta_num_v_heads,
            "delta_mixed": model.delta_inner,
        },
        {
            "attn_q": model.num_heads * 2 * model.head_dim,
            "attn_k": kv_width,
            "attn_v": kv_width,
            "attn_index_q": model.num_index_heads * model.index_dim,
            "attn_index_k": model.index_dim,
            "attn_mixed": model.num_heads * model.head_dim,
        },
    ]
    has_ngrams = model.ple is not None
    kinds.append(
        {
            "ple_input": model.hidden_size if has_ngrams else 0,
            "ple_key": model.num_streams * model.hidden_size if has_ngrams else 0,
        }
    )
    return kinds


def activation_row_bytes(model: ModelConfig, *, on_card: bool = False) -> int:
    """Bytes of the activations that live between the operations of a layer, for each row of a pass.

    On a card the results of a row's experts lie where mixers had theirs.
    """
    streams = model.num_streams * (model.hidden_size + 1)
    mixers = max(sum(widths.values()) for widths in mixer_widths(model))
    if on_card:
        mixers = max(mixers, model.num_experts_used * model.hidden_size)
    return 4 * (streams + 2 * model.hidden_size + mixers + 2 * model.num_experts_used)


def workspace_bytes(model: ModelConfig, num_rows: int, num_logits: int) -> int:
    """Bytes of one pass on the CPU: activations, what operations compute within, and logits.

    Args:
        model: its sizes.
        num_rows: rows of the pass.
        num_logits: rows of them that get logits.
    """
    scratch = (
        model.num_streams * model.hidden_size  # normed streams
        + model.low_rank
        + 3 * model.hidden_size
        + model.num_experts
        + 2 * (model.num_experts_used * model.expert_width + model.shared_expert_width)
    )
    per_row = activation_row_bytes(model) + 4 * scratch
    return num_rows * per_row + 4 * num_logits * model.vocab_size


def card_row_bytes(model: ModelConfig) -> int:
    """Card memory for each row of a prompt's pass: activations, and what experts take besides.

    Every choice's result is kept apart until all experts have passed (`engine/ops/cuda_experts.py`).
    """
    return activation_row_bytes(model, on_card=True) + expert_scratch_row_bytes(
        model.hidden_size, model.expert_width, model.num_experts, model.num_experts_used
    )


def expert_scratch_row_bytes(
    hidden: int, width: int, num_experts: int, num_used: int, *, is_gated: bool = True
) -> int:
    """Card memory that a row of a prompt takes in the launches of its experts, beside their results.

    Args:
        hidden: H.
        width: of an expert.
        num_experts: of a layer.
        num_used: choices of a row.
        is_gated: one kernel makes gate times up in 8 bits, as it does where both have one quantised
            format; else gate and up are kept as floats.
    """
    hidden_bytes = 2 * width if is_gated else 10 * width
    order_bytes = 16  # slots, and pairs sorted by expert
    shared_expert = 4 * hidden + 10 * width
    mixer_records = 3 * hidden  # of the widest product, in 8 bits
    router = 4 * num_experts
    return num_used * (hidden_bytes + order_bytes) + shared_expert + mixer_records + router
