"""The weights of a model as the groups that operations take (spec 3.2), made from a file's tensors.

Shapes were checked before (`core/model_shapes.py`); here names become groups. Files that store attention
projections or expert matrices fused are taken apart.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.model_config import LayerKind, ModelConfig, PleConfig
from engine.core.ngram_numbers import TABLE_NAME
from engine.core.requant import is_requantised
from engine.gguf.reader import Tensor
from engine.model.tensor_parts import requantised, row_range
from engine.ops.base import Ops
from engine.ops.weights import (
    AttentionWeights,
    DeltaWeights,
    HyperConnectionWeights,
    Matrix,
    MoeWeights,
    PleWeights,
    RowTable,
)

FloatArray = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]  # (steps done, steps in all)


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """One layer: two gated-residual mixes around a mixer and the experts."""

    attn_mix: HyperConnectionWeights
    mixer: DeltaWeights | AttentionWeights
    ffn_mix: HyperConnectionWeights
    moe: MoeWeights
    ple: PleWeights | None


@dataclass(frozen=True, slots=True, eq=False)
class TrunkWeights:
    """The model without its draft head."""

    embedding: Matrix  # (V, H), a table
    output: Matrix  # (V, H)
    final_mix: HyperConnectionWeights
    layers: tuple[LayerWeights, ...]


class WeightLoader:
    """Makes weight groups of one file's tensors, and of a table that stays on the disk."""

    def __init__(
        self,
        config: ModelConfig,
        tensors: Mapping[str, Tensor],
        ops: Ops,
        context: int,
        *,
        requant: bool = False,
        table: RowTable | None = None,
    ) -> None:
        self._config = config
        self._tensors = tensors
        self._ops = ops
        self._requant = requant
        self._table = table
        # A budget beyond the context selects every block; operations size scratch by it.
        self._top_blocks = max(1, min(config.top_blocks, context // config.block_ratio))

    def trunk(self, progress: Progress | None) -> TrunkWeights:
        """All weights of the trunk; `progress` is called after each layer."""
        config = self._config
        has_output = "output.weight" in self._tensors
        layers: list[LayerWeights] = []
        for stage in self._ops.stages(config.num_layers):
            loader = self._of(stage.ops)
            for index in range(stage.first, stage.stop):
                kind = config.layer_kinds[index]
                layers.append(loader.layer(f"blk.{index}.", kind, loader._ple(index)))
                if progress is not None:
                    progress(index + 1, config.num_layers)
        return TrunkWeights(  # the last stage has the head
            embedding=self.table("token_embd.weight"),
            output=loader.matrix("output.weight" if has_output else "token_embd.weight"),
            final_mix=loader.mix("output_hc_", inject=False),
            layers=tuple(layers),
        )

    def _of(self, ops: Ops) -> WeightLoader:
        """The same for these operations."""
        loader = copy.copy(self)
        loader._ops = ops
        return loader

    def layer(self, prefix: str, kind: LayerKind, ple: PleWeights | None) -> LayerWeights:
        """One layer's weights; its tensors' names begin with `prefix`."""
        mixer = self._delta(prefix) if kind is LayerKind.DELTA else self._attention(prefix)
        return LayerWeights(
            attn_mix=self.mix(prefix + "hc_attn_", inject=True),
            mixer=mixer,
            ffn_mix=self.mix(prefix + "hc_ffn_", inject=True),
            moe=self._moe(prefix),
            ple=ple,
        )

    def matrix(self, name: str) -> Matrix:
        """Handle of a tensor."""
        return self._ops.matrix(self._tensors[name])

    def table(self, name: str) -> Matrix:
        """Handle of a tensor that is read by rows alone."""
        return self._ops.table(self._tensors[name])

    def stream_matrix(self, name: str) -> Matrix:
        """Handle of a stream projection, with `requant` in fewer bits than the file has."""
        tensor = self._tensors[name]
        if self._requant and is_requantised(name, tensor.type, tensor.shape):
            tensor = requantised(tensor)
        return self._ops.matrix(tensor)

    def vector(self, name: str) -> FloatArray:
        """Values of a tensor."""
        return self._ops.vector(self._tensors[name])

    def mix(self, prefix: str, *, inject: bool) -> HyperConnectionWeights:
        """A gated-residual mix with these name beginnings."""
        return self.mix_of(
            f"{prefix}norm.weight",
            f"{prefix}down.weight",
            f"{prefix}up.weight",
            f"{prefix}inject.weight" if inject else None,
        )

    def mix_of(self, norm: str, down: str, up: str, inject: str | None) -> HyperConnectionWeights:
        """A gated-residual mix of tensors with these names."""
        config = self._config
        return HyperConnectionWeights(
            norm=self.vector(norm).reshape(config.num_streams, config.hidden_size),
            down=self.stream_matrix(down),
            up=self.stream_matrix(up),
            inject=None if inject is None else self.matrix(inject),
            eps=config.rms_eps,
        )

    def _delta(self, prefix: str) -> DeltaWeights:
        config = self._config
        return DeltaWeights(
            qkv=self.matrix(f"{prefix}attn_qkv.weight"),
            gate=self.matrix(f"{prefix}attn_gate.weight"),
            alpha=self.matrix(f"{prefix}ssm_alpha.weight"),
            beta=self.matrix(f"{prefix}ssm_beta.weight"),
            out=self.matrix(f"{prefix}ssm_out.weight"),
            conv=self.vector(f"{prefix}ssm_conv1d.weight"),
            a=self.vector(f"{prefix}ssm_a"),
            dt=self.vector(f"{prefix}ssm_dt.bias"),
            norm=self.vector(f"{prefix}ssm_norm.weight"),
            num_k_heads=config.delta_num_k_heads,
            num_v_heads=config.delta_num_v_heads,
            head_dim=config.delta_head_dim,
            conv_kernel=config.delta_conv_kernel,
            eps=config.rms_eps,
        )

    def _attention(self, prefix: str) -> AttentionWeights:
        config = self._config
        fused = self._tensors.get(f"{prefix}attn_qkv.weight")
        if fused is None:
            q = self.matrix(f"{prefix}attn_q.weight")
            k = self.matrix(f"{prefix}attn_k.weight")
            v = self.matrix(f"{prefix}attn_v.weight")
        else:  # rows: q and gate, k, v
            q_rows = config.num_heads * 2 * config.head_dim
            kv_rows = config.num_kv_heads * config.head_dim
            q = self._ops.matrix(row_range(fused, 0, q_rows))
            k = self._ops.matrix(row_range(fused, q_rows, q_rows + kv_rows))
            v = self._ops.matrix(row_range(fused, q_rows + kv_rows, q_rows + 2 * kv_rows))
        return AttentionWeights(
            q=q,
            k=k,
            v=v,
            out=self.matrix(f"{prefix}attn_output.weight"),
            q_norm=self.vector(f"{prefix}attn_q_norm.weight"),
            k_norm=self.vector(f"{prefix}attn_k_norm.weight"),
            index_q=self.matrix(f"{prefix}indexer.q_proj.weight"),
            index_k=self.matrix(f"{prefix}indexer.k_proj.weight"),
            index_q_norm=self.vector(f"{prefix}indexer.q_norm.weight"),
            index_k_norm=self.vector(f"{prefix}indexer.k_norm.weight"),
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            num_index_heads=config.num_index_heads,
            index_dim=config.index_dim,
            rope_dim=config.rope_dim,
            block_ratio=config.block_ratio,
            top_blocks=self._top_blocks,
            eps=config.rms_eps,
        )

    def _moe(self, prefix: str) -> MoeWeights:
        config = self._config
        fused = self._tensors.get(f"{prefix}ffn_gate_up_exps.weight")
        if fused is None:
            gate = self.matrix(f"{prefix}ffn_gate_exps.weight")
            up = self.matrix(f"{prefix}ffn_up_exps.weight")
        else:  # per expert: gate rows, up rows
            width = config.expert_width
            gate = self._ops.matrix(row_range(fused, 0, width))
            up = self._ops.matrix(row_range(fused, width, 2 * width))
        return MoeWeights(
            router=self.matrix(f"{prefix}ffn_gate_inp.weight"),
            gate=gate,
            up=up,
            down=self.matrix(f"{prefix}ffn_down_exps.weight"),
            num_used=config.num_experts_used,
            shared_router=self.vector(f"{prefix}ffn_gate_inp_shexp.weight").reshape(-1),
            shared_gate=self.matrix(f"{prefix}ffn_gate_shexp.weight"),
            shared_up=self.matrix(f"{prefix}ffn_up_shexp.weight"),
            shared_down=self.matrix(f"{prefix}ffn_down_shexp.weight"),
        )

    def _ngram_table(self) -> Matrix:
        if self._table is not None:
            return self._ops.row_table(self._table)
        return self.table(TABLE_NAME)

    def _ple(self, layer_idx: int) -> PleWeights | None:
        config, ple = self._config, self._config.ple
        if ple is None or layer_idx not in ple.layers:
            return None
        return self._ple_weights(ple, f"blk.{layer_idx}.ple_", config)

    def _ple_weights(self, ple: PleConfig, prefix: str, config: ModelConfig) -> PleWeights:
        shape = (config.num_streams, config.hidden_size)
        return PleWeights(
            table=self._ngram_table(),
            key=self.matrix(f"{prefix}key.weight"),
            value=self.matrix(f"{prefix}value.weight"),
            norm_key=self.vector(f"{prefix}norm_key.weight").reshape(shape),
            norm_query=self.vector(f"{prefix}norm_query.weight").reshape(shape),
            norm_conv=self.vector(f"{prefix}norm_conv.weight").reshape(shape),
            conv=self.vector(f"{prefix}conv1d.weight"),
            conv_kernel=ple.conv_kernel,
            dilation=ple.ngram_size,
            eps=config.rms_eps,
        )
