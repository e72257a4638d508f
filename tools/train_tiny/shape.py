"""The sizes of the bundled model, as plain numbers, and their GGUF metadata.

One frozen record describes a model of the `qwen4exp` family (spec/qwen4exp.md sections 2 to 5). The
trainer, the export and the check against reference models all read it; it knows nothing of torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

MASK64 = (1 << 64) - 1
GOLDEN_GAMMA = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class PleShape:
    """The n-gram layer: where it sits and how its table rows are found (spec section 5)."""

    layer_idx: int
    ngram_size: int
    heads_per_ngram: int
    row_width: int
    conv_kernel: int
    segment_token_id: int
    multipliers: tuple[int, ...]
    head_sizes: tuple[int, ...]

    @property
    def head_offsets(self) -> tuple[int, ...]:
        """First table row of every head: the running sum of the head sizes."""
        return tuple(sum(self.head_sizes[:i]) for i in range(len(self.head_sizes)))

    @property
    def num_rows(self) -> int:
        """Rows of the table: the sum of the head sizes, padded to a multiple of 128."""
        return -(-sum(self.head_sizes) // 128) * 128


@dataclass(frozen=True, slots=True)
class TinyShape:
    """All sizes of a model; the defaults are the bundled model's."""

    vocab_size: int = 4096
    hidden_size: int = 256
    # One letter a trunk layer: L = Gated DeltaNet, A = sparse attention.
    layer_kinds: str = "LLAL"
    num_mtp_layers: int = 1
    context_length: int = 131072
    rms_eps: float = 1e-6
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    rope_dim: int = 32
    rope_base: float = 1e6
    rope_sections: tuple[int, int, int, int] = (6, 5, 5, 0)
    indexer_heads: int = 4
    indexer_dim: int = 32
    indexer_top_k: int = 512
    block_ratio: int = 4
    linear_k_heads: int = 2
    linear_v_heads: int = 4
    linear_head_dim: int = 64
    conv_kernel: int = 4
    num_experts: int = 16
    num_experts_used: int = 2
    expert_size: int = 128
    shared_expert_size: int = 128
    num_streams: int = 4
    low_rank: int = 32
    ple: PleShape | None = None

    @property
    def num_layers(self) -> int:
        """Trunk layers, without the MTP head."""
        return len(self.layer_kinds)

    @property
    def num_blocks(self) -> int:
        """`blk.N` groups in the file: trunk layers and the MTP head."""
        return self.num_layers + self.num_mtp_layers

    @property
    def conv_channels(self) -> int:
        """Channels of the linear layers' convolution: q, k and v heads side by side."""
        return (2 * self.linear_k_heads + self.linear_v_heads) * self.linear_head_dim


def splitmix64(value: int) -> int:
    """Returns the splitmix64 hash of a 64-bit number (spec section 5)."""
    value = (value + GOLDEN_GAMMA) & MASK64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK64
    return value ^ (value >> 31)


def hash_multipliers(
    vocab_size: int, ngram_size: int, ordinal: int = 0, seed: int = 1234
) -> tuple[int, ...]:
    """Returns the odd multipliers of the n-gram hash; products with token ids fit in 63 bits."""
    half = max(1, ((1 << 63) - 1) // vocab_size // 2)
    return tuple(
        2 * (splitmix64((seed + 10007 * ordinal + GOLDEN_GAMMA * (i + 1)) & MASK64) % half) + 1
        for i in range(ngram_size)
    )


def primes_from(start: int, count: int) -> tuple[int, ...]:
    """Returns the first `count` primes that are at least `start`."""
    found: list[int] = []
    candidate = max(2, start)
    while len(found) < count:
        if all(candidate % d for d in range(2, int(candidate**0.5) + 1)):
            found.append(candidate)
        candidate += 1
    return tuple(found)


def bundled_shape(vocab_size: int, segment_token_id: int, first_prime: int = 32768) -> TinyShape:
    """Returns the bundled model's sizes for a trained tokenizer."""
    base = TinyShape(vocab_size=vocab_size)
    ngram_size, heads = 3, 4
    num_heads = (ngram_size - 1) * heads
    return replace(
        base,
        ple=PleShape(
            layer_idx=1,
            ngram_size=ngram_size,
            heads_per_ngram=heads,
            row_width=base.hidden_size // num_heads,
            conv_kernel=4,
            segment_token_id=segment_token_id,
            multipliers=hash_multipliers(vocab_size, ngram_size),
            head_sizes=primes_from(first_prime, num_heads),
        ),
    )


def metadata_of(shape: TinyShape) -> dict[str, tuple[object, str]]:
    """Returns the `qwen4exp.*` keys (without prefix) as (value, kind) pairs, spec section 3.1.

    Kinds: u32, f32, i32[] , u64[], bool[].
    """
    is_recurrent = [kind == "L" for kind in shape.layer_kinds] + [False] * shape.num_mtp_layers
    keys: dict[str, tuple[object, str]] = {
        "block_count": (shape.num_blocks, "u32"),
        "nextn_predict_layers": (shape.num_mtp_layers, "u32"),
        "context_length": (shape.context_length, "u32"),
        "embedding_length": (shape.hidden_size, "u32"),
        "vocab_size": (shape.vocab_size, "u32"),
        "attention.head_count": (shape.num_heads, "u32"),
        "attention.head_count_kv": (shape.num_kv_heads, "u32"),
        "attention.key_length": (shape.head_dim, "u32"),
        "attention.value_length": (shape.head_dim, "u32"),
        "attention.layer_norm_rms_epsilon": (shape.rms_eps, "f32"),
        "rope.freq_base": (shape.rope_base, "f32"),
        "rope.dimension_count": (shape.rope_dim, "u32"),
        "rope.dimension_sections": (list(shape.rope_sections), "i32[]"),
        "expert_count": (shape.num_experts, "u32"),
        "expert_used_count": (shape.num_experts_used, "u32"),
        "expert_feed_forward_length": (shape.expert_size, "u32"),
        "expert_shared_feed_forward_length": (shape.shared_expert_size, "u32"),
        "ssm.conv_kernel": (shape.conv_kernel, "u32"),
        "ssm.state_size": (shape.linear_head_dim, "u32"),
        "ssm.group_count": (shape.linear_k_heads, "u32"),
        "ssm.time_step_rank": (shape.linear_v_heads, "u32"),
        "ssm.inner_size": (shape.linear_v_heads * shape.linear_head_dim, "u32"),
        "attention.recurrent_layers": (is_recurrent, "bool[]"),
        "hyper_connection.count": (shape.num_streams, "u32"),
        "hyper_connection.low_rank": (shape.low_rank, "u32"),
        "attention.indexer.head_count": (shape.indexer_heads, "u32"),
        "attention.indexer.key_length": (shape.indexer_dim, "u32"),
        "attention.indexer.top_k": (shape.indexer_top_k, "u32"),
        "attention.compress_ratios": (
            [0 if recurrent else shape.block_ratio for recurrent in is_recurrent],
            "i32[]",
        ),
    }
    if shape.ple is not None:
        ple = shape.ple
        keys |= {
            "ple.layers": ([ple.layer_idx], "i32[]"),
            "ple.ngram_size": (ple.ngram_size, "u32"),
            "ple.heads_per_ngram": (ple.heads_per_ngram, "u32"),
            "ple.conv_kernel": (ple.conv_kernel, "u32"),
            "ple.eos_token_id": (ple.segment_token_id, "u32"),
            "embedding_length_per_layer_input": (ple.row_width, "u32"),
            "ple.layer_multipliers": (list(ple.multipliers), "u64[]"),
            "ple.head_offsets": (list(ple.head_offsets), "u64[]"),
            "ple.head_vocab_sizes": (list(ple.head_sizes), "u64[]"),
        }
    return keys


def shape_from_metadata(metadata: Mapping[str, object]) -> TinyShape:
    """Returns the sizes that a file's metadata describe (for the check against other models)."""

    def number(key: str) -> int:
        return cast("int", metadata[f"qwen4exp.{key}"])

    def numbers(key: str) -> list[int]:
        return [int(item) for item in cast("list[int]", metadata[f"qwen4exp.{key}"])]

    mtp = cast("int", metadata.get("qwen4exp.nextn_predict_layers", 0))
    base = cast("float", metadata["qwen4exp.rope.freq_base"])
    eps = cast("float", metadata["qwen4exp.attention.layer_norm_rms_epsilon"])
    num_layers = number("block_count") - mtp
    recurrent = numbers("attention.recurrent_layers")
    ratios = numbers("attention.compress_ratios")
    ple = None
    if "qwen4exp.ple.layers" in metadata:
        ple = PleShape(
            layer_idx=numbers("ple.layers")[0],
            ngram_size=number("ple.ngram_size"),
            heads_per_ngram=number("ple.heads_per_ngram"),
            row_width=number("embedding_length_per_layer_input"),
            conv_kernel=number("ple.conv_kernel"),
            segment_token_id=number("ple.eos_token_id"),
            multipliers=tuple(numbers("ple.layer_multipliers")),
            head_sizes=tuple(numbers("ple.head_vocab_sizes")),
        )
    sections = numbers("rope.dimension_sections")
    return TinyShape(
        vocab_size=number("vocab_size"),
        hidden_size=number("embedding_length"),
        layer_kinds="".join("L" if flag else "A" for flag in recurrent[:num_layers]),
        num_mtp_layers=mtp,
        context_length=number("context_length"),
        rms_eps=eps,
        num_heads=number("attention.head_count"),
        num_kv_heads=number("attention.head_count_kv"),
        head_dim=number("attention.key_length"),
        rope_dim=number("rope.dimension_count"),
        rope_base=base,
        rope_sections=(sections[0], sections[1], sections[2], sections[3]),
        indexer_heads=number("attention.indexer.head_count"),
        indexer_dim=number("attention.indexer.key_length"),
        indexer_top_k=number("attention.indexer.top_k"),
        block_ratio=max(ratios),
        linear_k_heads=number("ssm.group_count"),
        linear_v_heads=number("ssm.time_step_rank"),
        linear_head_dim=number("ssm.state_size"),
        conv_kernel=number("ssm.conv_kernel"),
        num_experts=number("expert_count"),
        num_experts_used=number("expert_used_count"),
        expert_size=number("expert_feed_forward_length"),
        shared_expert_size=number("expert_shared_feed_forward_length"),
        num_streams=number("hyper_connection.count"),
        low_rank=number("hyper_connection.low_rank"),
        ple=ple,
    )
