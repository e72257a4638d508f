"""The tensors and metadata of a random model with the real model's shapes (spec/qwen4exp.md 2 and 3).

Depth, expert count, vocabulary, n-gram table and formats are chosen; every other size is the real
one. Spreads are chosen so that activations keep their size through the layers and logits are
ordinary; the special tokens' rows of the head are zero, so that greedy answers never end early.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.synthetic_blocks import random_parts
from engine.core.ggml_types import GgmlType, row_bytes
from engine.core.gguf_header import MetadataValue, read_header
from engine.core.gguf_values import GgufValueType
from engine.gguf.writer import GgufWriter

HIDDEN = 2560
STREAMS = 4
LOW_RANK = 320
HEADS, KV_HEADS, HEAD_DIM = 24, 2, 256
INDEX_HEADS, INDEX_DIM, INDEX_TOP_K, BLOCK_RATIO = 4, 128, 2048, 4
K_HEADS, V_HEADS, STATE_DIM, CONV_KERNEL = 16, 48, 128, 4
EXPERTS_USED, EXPERT_WIDTH = 10, 640
NGRAM_SIZE, HEADS_PER_NGRAM, PLE_WIDTH, PLE_KERNEL = 3, 8, 160, 4
PLE_HEADS = (NGRAM_SIZE - 1) * HEADS_PER_NGRAM
PLE_MULTIPLIERS = (23703573157769, 20109073645365, 8052911324071)
ATTENTION_INTERVAL = 4

_KEY = "qwen4exp."
_STREAM_WIDTH = STREAMS * HIDDEN
_CHANNELS = (2 * K_HEADS + V_HEADS) * STATE_DIM
_INNER = V_HEADS * STATE_DIM
_NORMAL_TOKEN, _CONTROL_TOKEN, _USER_TOKEN = 1, 3, 4


@dataclass(frozen=True, slots=True)
class Formats:
    """How the matrices are stored; small vectors, routers and injections are F32.

    Attributes:
        streams: the gated-residual mixes' projections down and up (rows of 320).
        dense: mixers' projections and shared gate and up (rows of 2560 and 6144).
        shared_down: the shared expert's way back (rows of 640).
        embedding: token table.
        head: output matrix.
        experts: (gate and up, down) of layer 0, 1, ...; repeated when there are more layers.
        table: n-gram table (rows of 160).
    """

    streams: GgmlType = GgmlType.Q8_0
    dense: tuple[GgmlType, ...] = (GgmlType.Q8_0,)
    shared_down: GgmlType = GgmlType.Q8_0
    embedding: GgmlType = GgmlType.Q8_0
    head: GgmlType = GgmlType.Q8_0
    experts: tuple[tuple[GgmlType, GgmlType], ...] = ((GgmlType.Q8_0, GgmlType.Q8_0),)
    table: GgmlType = GgmlType.IQ4_NL


@dataclass(frozen=True, slots=True)
class Sizes:
    """What differs from the real model.

    Attributes:
        num_layers: layers, every fourth with attention.
        num_experts: experts in a layer, at least the 10 used.
        vocab_size: tokens, at least those of the tokenizer that is taken over.
        table_rows_per_head: n-gram rows; each of 16 heads gets the next prime from here.
        context_length: in tokens.
    """

    num_layers: int = 8
    num_experts: int = 256
    vocab_size: int = 40_960
    table_rows_per_head: int = 20_000
    context_length: int = 262_144

    def __post_init__(self) -> None:
        """Refuse what no reader would take."""
        if self.num_layers < 1:
            raise ValueError("a model has at least one layer")
        if self.num_experts < EXPERTS_USED:
            raise ValueError(f"a token uses {EXPERTS_USED} experts, so there must be as many")
        if self.table_rows_per_head < 2:
            raise ValueError("each n-gram head has at least two rows")

    @property
    def recurrent_layers(self) -> list[bool]:
        """For each layer, whether it is linear attention."""
        return [(i + 1) % ATTENTION_INTERVAL != 0 for i in range(self.num_layers)]

    @property
    def ple_layer(self) -> int:
        """The n-gram layer: the second, as in the real model."""
        return min(1, self.num_layers - 1)

    def table_heads(self) -> tuple[list[int], list[int]]:
        """Sizes and offsets of the n-gram heads (spec 5)."""
        sizes: list[int] = []
        candidate = self.table_rows_per_head
        while len(sizes) < PLE_HEADS:
            if all(candidate % n for n in range(2, math.isqrt(candidate) + 1)):
                sizes.append(candidate)
            candidate += 1
        return sizes, [sum(sizes[:i]) for i in range(PLE_HEADS)]


def write_model(path: Path, sizes: Sizes, formats: Formats, tokenizer: Path, seed: int) -> None:
    """Write a random model.

    Args:
        path: the file.
        sizes: of the model.
        formats: of its matrices.
        tokenizer: a model file whose tokenizer and chat template are taken over.
        seed: of the random numbers.

    Raises:
        ValueError: the vocabulary is smaller than the tokenizer's, or rows do not fit a format.
        OSError: the disk is full.
    """
    writer = GgufWriter(path, "qwen4exp")
    special = _add_metadata(writer, sizes, tokenizer)
    maker = _TensorMaker(writer, np.random.Generator(np.random.SFC64(seed)), formats)
    maker.globals(sizes, special)
    for layer, is_recurrent in enumerate(sizes.recurrent_layers):
        maker.layer(layer, is_recurrent, sizes.num_experts)
    maker.ple(f"blk.{sizes.ple_layer}.ple_")
    writer.write()


def _add_metadata(writer: GgufWriter, sizes: Sizes, tokenizer: Path) -> list[int]:
    """Add all keys; returns the ids of the special tokens."""
    writer.add_metadata("general.name", "synthetic")
    writer.add_metadata("general.type", "model")
    head_sizes, head_offsets = sizes.table_heads()
    recurrent = sizes.recurrent_layers
    values: dict[str, MetadataValue] = {
        "block_count": sizes.num_layers,
        "context_length": sizes.context_length,
        "embedding_length": HIDDEN,
        "vocab_size": sizes.vocab_size,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 1e7,
        "rope.dimension_count": 64,
        "rope.dimension_sections": [11, 11, 10, 0],
        "expert_count": sizes.num_experts,
        "expert_used_count": EXPERTS_USED,
        "expert_feed_forward_length": EXPERT_WIDTH,
        "expert_shared_feed_forward_length": EXPERT_WIDTH,
        "ssm.conv_kernel": CONV_KERNEL,
        "ssm.state_size": STATE_DIM,
        "ssm.group_count": K_HEADS,
        "ssm.time_step_rank": V_HEADS,
        "ssm.inner_size": _INNER,
        "attention.recurrent_layers": recurrent,
        "full_attention_interval": ATTENTION_INTERVAL,
        "hyper_connection.count": STREAMS,
        "hyper_connection.low_rank": LOW_RANK,
        "attention.indexer.head_count": INDEX_HEADS,
        "attention.indexer.key_length": INDEX_DIM,
        "attention.indexer.top_k": INDEX_TOP_K,
        "attention.compress_ratios": [0 if flag else BLOCK_RATIO for flag in recurrent],
        "ple.layers": [sizes.ple_layer],
        "ple.ngram_size": NGRAM_SIZE,
        "ple.heads_per_ngram": HEADS_PER_NGRAM,
        "ple.conv_kernel": PLE_KERNEL,
        "embedding_length_per_layer_input": PLE_WIDTH,
    }
    for key, value in values.items():
        writer.add_metadata(_KEY + key, value)
    for key, numbers in (
        ("layer_multipliers", list(PLE_MULTIPLIERS)),
        ("head_offsets", head_offsets),
        ("head_vocab_sizes", head_sizes),
    ):
        writer.add_metadata(f"{_KEY}ple.{key}", numbers, GgufValueType.UINT64)
    return _add_tokenizer(writer, sizes.vocab_size, tokenizer)


def _add_tokenizer(writer: GgufWriter, vocab_size: int, tokenizer: Path) -> list[int]:
    """Take a tokenizer over, filled up with words that no text contains."""
    metadata = read_header(tokenizer).metadata
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    if not isinstance(tokens, Iterable) or not isinstance(types, Iterable):
        raise TypeError("the tokenizer's file has no token lists")
    names, kinds = [str(token) for token in tokens], [int(str(kind)) for kind in types]
    if vocab_size < len(names):
        raise ValueError(f"the vocabulary must have the tokenizer's {len(names)} tokens at least")
    names += [f"Ġword{index}" for index in range(len(names), vocab_size)]
    kinds += [_NORMAL_TOKEN] * (vocab_size - len(kinds))
    for key, value in metadata.items():
        is_tokenizer = key.startswith("tokenizer.") and key not in (
            "tokenizer.ggml.tokens",
            "tokenizer.ggml.token_type",
        )
        if is_tokenizer or key in (f"{_KEY}ple.eos_token_id", f"{_KEY}ple.image_token_id"):
            writer.add_metadata(key, value)
    writer.add_metadata("tokenizer.ggml.tokens", names)
    writer.add_metadata("tokenizer.ggml.token_type", kinds, GgufValueType.INT32)
    return [i for i, kind in enumerate(kinds) if kind in (_CONTROL_TOKEN, _USER_TOKEN)]


@dataclass(slots=True)
class _TensorMaker:
    """Adds random tensors to a writer."""

    writer: GgufWriter
    rng: np.random.Generator
    formats: Formats
    _num_dense: int = 0

    def globals(self, sizes: Sizes, special: list[int]) -> None:
        """Embedding, head, final mixer, n-gram table."""
        vocab = (sizes.vocab_size, HIDDEN)
        self.random("token_embd.weight", self.formats.embedding, vocab, 1.0)
        self.random("output.weight", self.formats.head, vocab, 0.04, zero_rows=special)
        self.mix("output_hc_", inject=False)
        rows = sum(sizes.table_heads()[0])
        rows += -rows % 128
        self.random("per_layer_token_embd.weight", self.formats.table, (rows, PLE_WIDTH), 0.5)

    def layer(self, index: int, is_recurrent: bool, num_experts: int) -> None:
        """One layer without its n-gram part."""
        prefix = f"blk.{index}."
        self.mix(f"{prefix}hc_attn_", inject=True)
        self.mix(f"{prefix}hc_ffn_", inject=True)
        if is_recurrent:
            self.delta(prefix)
        else:
            self.attention(prefix)
        gate, down = self.formats.experts[index % len(self.formats.experts)]
        f32 = GgmlType.F32
        self.random(f"{prefix}ffn_gate_inp.weight", f32, (num_experts, HIDDEN), 0.04)
        for name, ggml_type, shape in (
            ("gate_exps", gate, (num_experts, EXPERT_WIDTH, HIDDEN)),
            ("up_exps", gate, (num_experts, EXPERT_WIDTH, HIDDEN)),
            ("down_exps", down, (num_experts, HIDDEN, EXPERT_WIDTH)),
        ):
            self.random(f"{prefix}ffn_{name}.weight", ggml_type, shape)
        self.random(f"{prefix}ffn_gate_inp_shexp.weight", f32, (HIDDEN,), 0.02)
        self.dense(f"{prefix}ffn_gate_shexp.weight", (EXPERT_WIDTH, HIDDEN))
        self.dense(f"{prefix}ffn_up_shexp.weight", (EXPERT_WIDTH, HIDDEN))
        down_shape = (HIDDEN, EXPERT_WIDTH)
        self.random(f"{prefix}ffn_down_shexp.weight", self.formats.shared_down, down_shape)

    def mix(self, prefix: str, *, inject: bool) -> None:
        """A gated-residual mix."""
        streams = self.formats.streams
        self.ones(f"{prefix}norm.weight", _STREAM_WIDTH)
        self.random(f"{prefix}down.weight", streams, (LOW_RANK, _STREAM_WIDTH))
        self.random(f"{prefix}up.weight", streams, (_STREAM_WIDTH, LOW_RANK))
        if inject:
            self.random(f"{prefix}inject.weight", GgmlType.F32, (STREAMS, _STREAM_WIDTH))

    def delta(self, prefix: str) -> None:
        """Linear attention; decays between half a token and some hundreds."""
        self.dense(f"{prefix}attn_qkv.weight", (_CHANNELS, HIDDEN))
        self.dense(f"{prefix}attn_gate.weight", (_INNER, HIDDEN))
        self.random(f"{prefix}ssm_conv1d.weight", GgmlType.F32, (_CHANNELS, CONV_KERNEL), 0.5)
        for name in ("alpha", "beta"):
            self.random(f"{prefix}ssm_{name}.weight", GgmlType.F32, (V_HEADS, HIDDEN))
        self.values(f"{prefix}ssm_a", -self.rng.uniform(0.1, 8, V_HEADS))
        self.values(f"{prefix}ssm_dt.bias", self.rng.uniform(-6, -1, V_HEADS))
        self.ones(f"{prefix}ssm_norm.weight", STATE_DIM)
        self.dense(f"{prefix}ssm_out.weight", (HIDDEN, _INNER))

    def attention(self, prefix: str) -> None:
        """Sparse attention and its indexer."""
        self.dense(f"{prefix}attn_q.weight", (HEADS * 2 * HEAD_DIM, HIDDEN))
        self.dense(f"{prefix}attn_k.weight", (KV_HEADS * HEAD_DIM, HIDDEN))
        self.dense(f"{prefix}attn_v.weight", (KV_HEADS * HEAD_DIM, HIDDEN))
        self.dense(f"{prefix}attn_output.weight", (HIDDEN, HEADS * HEAD_DIM))
        self.dense(f"{prefix}indexer.q_proj.weight", (INDEX_HEADS * INDEX_DIM, HIDDEN))
        self.dense(f"{prefix}indexer.k_proj.weight", (INDEX_DIM, HIDDEN))
        for name, width in (
            ("attn_q_norm", HEAD_DIM),
            ("attn_k_norm", HEAD_DIM),
            ("indexer.q_norm", INDEX_DIM),
            ("indexer.k_norm", INDEX_DIM),
        ):
            self.ones(f"{prefix}{name}.weight", width)

    def ple(self, prefix: str) -> None:
        """The n-gram layer's own matrices."""
        self.dense(f"{prefix}key.weight", (_STREAM_WIDTH, HIDDEN))
        self.dense(f"{prefix}value.weight", (HIDDEN, HIDDEN))
        for name in ("norm_key", "norm_query", "norm_conv"):
            self.ones(f"{prefix}{name}.weight", _STREAM_WIDTH)
        shape = (_STREAM_WIDTH, PLE_KERNEL)
        self.random(f"{prefix}conv1d.weight", GgmlType.F32, shape, 0.3)

    def dense(self, name: str, shape: tuple[int, int]) -> None:
        """A dense matrix, in the next of the dense formats."""
        ggml_type = self.formats.dense[self._num_dense % len(self.formats.dense)]
        self._num_dense += 1
        self.random(name, ggml_type, shape)

    def random(
        self,
        name: str,
        ggml_type: GgmlType,
        shape: tuple[int, ...],
        spread: float | None = None,
        zero_rows: list[int] | None = None,
    ) -> None:
        """A random tensor; without a spread, one that keeps the size of its input."""
        rng, num_values = self.rng, math.prod(shape)
        spread = spread if spread is not None else shape[-1] ** -0.5

        def parts() -> Iterator[NDArray[np.uint8]]:
            yield from random_parts(rng, ggml_type, num_values, spread)

        self.writer.add_streamed_tensor(
            name,
            ggml_type,
            shape,
            _with_zero_rows(parts, row_bytes(ggml_type, shape[-1]), zero_rows or []),
        )

    def ones(self, name: str, width: int) -> None:
        """A norm's weights."""
        self.values(name, np.ones(width))

    def values(self, name: str, values: NDArray[np.float64]) -> None:
        """A vector of given values."""
        self.writer.add_tensor(name, values.astype(np.float32), GgmlType.F32)


def _with_zero_rows(
    parts: Callable[[], Iterator[NDArray[np.uint8]]], bytes_per_row: int, rows: list[int]
) -> Callable[[], Iterator[NDArray[np.uint8]]]:
    """The same bytes, but rows of zeros where asked for: in every format they decode to zero."""
    if not rows:
        return parts

    def zeroed() -> Iterator[NDArray[np.uint8]]:
        start = 0
        for part in parts():
            flat = part.reshape(-1)
            for row in rows:
                first = max(row * bytes_per_row - start, 0)
                last = min((row + 1) * bytes_per_row - start, flat.size)
                if first < last:
                    flat[first:last] = 0
            start += flat.size
            yield flat

    return zeroed
