"""A model as the few numbers that a placement with a graphics card needs.

From the catalogue before the download (about right), from the files' header after it (exact).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from engine.core.catalog import Catalog, CatalogModel
from engine.core.config import RunConfig
from engine.core.draft_head_file import tensors_with_head
from engine.core.gguf_header import ModelHeader
from engine.core.kv_type import KvType
from engine.core.model_config import LayerKind, ModelConfig
from engine.core.model_sizes import (
    MAX_WINDOW,
    card_row_bytes,
    expert_scratch_row_bytes,
    kv_page_bytes,
    model_config_of,
    page_tokens_of,
    state_bytes,
    vocabulary_bytes,
    workspace_bytes,
)
from engine.core.prompt_chunk import rows_on_cpu
from engine.core.weight_groups import COPIED_EXPERTS, EXPERTS, Tier, weight_parts

# What a catalogue does not say, for the published shapes; each only matters by a few hundred MB.
_STATE_BYTES_PER_WEIGHT = 1  # of layers x hidden x hidden: two float32 halves of the delta states
_EMBEDDING_BYTES = (
    34 / 32
)  # of a value of the token embedding, of which a token reads one row: Q8_0
_MOST_EMBEDDING = 0.25  # of the dense weights, for models that are small themselves
_WORKSPACE_VALUES = 48  # float32 values for each row of a prompt chunk and each hidden value
_ACTIVATION_VALUES = (
    6  # on a card: streams and their mix; the results of a row's experts come on top
)
_EXPERT_WIDTH = 4  # an expert is so many times narrower than the model


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """What a model takes.

    Attributes:
        expert_bytes: all routed experts.
        num_experts: routed experts of all layers together.
        experts_used: of these, how many a token reads.
        dense_bytes: what every token reads: mixers, routers, shared experts, head.
        row_bytes: tables of which a token reads some rows (n-grams, embedding).
        mtp_bytes: the draft layer.
        kv_token_bytes: keys, values and index keys of one token.
        kv_pooled_token_bytes: of these, its share of pooled index keys, which a card holds for all tokens.
        kv_vram_tokens: tokens whose keys and values are to stay on a card; None = as many as fit.
        state_bytes: recurrent states of one sequence.
        parallel: sequences that run together.
        workspace_bytes: activations and logits of a pass on the CPU.
        card_row_bytes: card memory for each row of a prompt's pass.
        prompt_chunk: rows of a prompt in a pass that were asked for; None = to be chosen.
        num_layers: layers of the trunk.
        vocabulary_bytes: tokens as texts, for the server and for grammars; in RAM always.
        trained_context: tokens that the model was trained for.
    """

    expert_bytes: int
    num_experts: int
    experts_used: int
    dense_bytes: int
    row_bytes: int
    mtp_bytes: int
    kv_token_bytes: int
    kv_pooled_token_bytes: int
    kv_vram_tokens: int | None
    state_bytes: int
    parallel: int
    workspace_bytes: int
    card_row_bytes: int
    prompt_chunk: int | None
    num_layers: int
    vocabulary_bytes: int
    trained_context: int

    @property
    def active_expert_bytes(self) -> int:
        """Experts that one token reads."""
        return self.expert_bytes * self.experts_used // max(self.num_experts, 1)

    @property
    def active_bytes(self) -> int:
        """All weights that one token reads, the draft layer left out."""
        return self.dense_bytes + self.active_expert_bytes

    @property
    def expert_slot_bytes(self) -> int:
        """One expert."""
        return -(-self.expert_bytes // max(self.num_experts, 1))


def numbers_of_catalog(
    catalog: Catalog, model: CatalogModel, config: RunConfig | None = None
) -> ModelNumbers:
    """The numbers of a model that is not downloaded yet."""
    config = config or RunConfig()
    family = catalog.family_of(model)
    shape = family.shape
    mtp = family.mtp
    checkpoint = catalog.mtp_checkpoints.get(mtp.checkpoint or "") if mtp is not None else None
    kv_type = config.kv_type
    per_token = 2 * shape.kv_heads * (shape.head_size * kv_type.value_bytes + kv_type.scale_bytes)
    pooled = shape.index_key_size // max(shape.block_ratio, 1)
    per_token += (shape.index_key_size + pooled) * kv_type.index_bytes
    hidden = shape.hidden_size
    rows = rows_on_cpu(config) * hidden
    scratch = expert_scratch_row_bytes(
        hidden, hidden // _EXPERT_WIDTH, shape.experts_per_layer, shape.experts_used
    )
    dense = model.needs.dense_bytes
    embedding = int(shape.vocab_size * shape.hidden_size * _EMBEDDING_BYTES)
    embedding = min(embedding, int(dense * _MOST_EMBEDDING))
    logits = (config.parallel + MAX_WINDOW) * shape.vocab_size
    return ModelNumbers(
        expert_bytes=model.needs.expert_bytes,
        num_experts=shape.layers * shape.experts_per_layer,
        experts_used=shape.layers * shape.experts_used,
        dense_bytes=dense - embedding,
        row_bytes=model.needs.ngram_bytes + embedding,
        mtp_bytes=checkpoint.file_bytes if checkpoint is not None else 0,
        kv_token_bytes=per_token * shape.kv_layers,
        kv_pooled_token_bytes=pooled * kv_type.index_bytes * shape.kv_layers,
        kv_vram_tokens=config.kv_vram_tokens,
        state_bytes=_STATE_BYTES_PER_WEIGHT * shape.layers * shape.hidden_size**2,
        parallel=config.parallel,
        workspace_bytes=4 * (_WORKSPACE_VALUES * rows + logits),
        card_row_bytes=4 * (_ACTIVATION_VALUES + shape.experts_used) * hidden + scratch,
        prompt_chunk=config.prompt_chunk,
        num_layers=shape.layers,
        vocabulary_bytes=vocabulary_bytes(shape.vocab_size),
        trained_context=shape.trained_context,
    )


def numbers_of_header(
    header: ModelHeader, config: RunConfig | None = None, draft_head: ModelHeader | None = None
) -> ModelNumbers:
    """The numbers of a model whose files are here.

    Args:
        header: of the model.
        config: of the run; None for the defaults.
        draft_head: of the draft head's file, where it has one of its own.

    Raises:
        ModelFileError: the header describes no model that we know.
    """
    config = config or RunConfig()
    model = model_config_of(header)
    if draft_head is not None:
        model = dataclasses.replace(model, num_mtp_layers=1)
    tensors = tensors_with_head(header, draft_head, model.num_layers)
    sizes = {EXPERTS: 0, COPIED_EXPERTS: 0, "MTP layer": 0}
    dense = rows = 0
    for part in weight_parts(tensors, model.num_layers, requant=config.requant):
        if part.name in sizes:
            sizes[part.name] = part.num_bytes
        elif part.tier is Tier.DISK:
            rows += part.num_bytes
        else:
            dense += part.num_bytes
    page_tokens = page_tokens_of(model)
    return ModelNumbers(
        expert_bytes=sizes[EXPERTS] + sizes[COPIED_EXPERTS],
        num_experts=model.num_layers * model.num_experts,
        experts_used=model.num_layers * model.num_experts_used,
        dense_bytes=dense,
        row_bytes=rows,
        mtp_bytes=sizes["MTP layer"],
        kv_token_bytes=-(-kv_page_bytes(model, config.kv_type, page_tokens) // page_tokens),
        kv_pooled_token_bytes=_pooled_bytes(model, config.kv_type),
        kv_vram_tokens=config.kv_vram_tokens,
        state_bytes=state_bytes(model),
        parallel=config.parallel,
        workspace_bytes=workspace_bytes(model, rows_on_cpu(config), config.parallel + MAX_WINDOW),
        card_row_bytes=card_row_bytes(model),
        prompt_chunk=config.prompt_chunk,
        num_layers=model.num_layers,
        vocabulary_bytes=vocabulary_bytes(model.vocab_size),
        trained_context=model.context_length,
    )


def _pooled_bytes(model: ModelConfig, kv_type: KvType) -> int:
    layers = sum(kind is LayerKind.ATTENTION for kind in model.layer_kinds) + model.num_mtp_layers
    return -(-model.index_dim // model.block_ratio) * kv_type.index_bytes * layers
