"""The losses of one step: next token, draft head, balance of the experts, indexer."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor

from tools.train_tiny import layers
from tools.train_tiny.model import TinyModel, TrunkOutput

BALANCE_WEIGHT = 0.01
MTP_WEIGHT = 0.3
TRUNK_SHARE = 0.5  # of the draft loss's gradient that reaches the trunk
INDEXER_WEIGHT = 0.1


@dataclass(frozen=True, slots=True)
class StepLoss:
    """The total and the parts worth logging (0 where a part was left out)."""

    total: Tensor
    main: float
    mtp: float
    indexer: float


def _token_loss(model: TinyModel, mixed: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Mean cross-entropy over the targets that carry weight; the others cost no head product."""
    kept = weights.flatten().nonzero().squeeze(-1)
    logits = model.logits(mixed.flatten(0, 1)[kept])
    return F.cross_entropy(logits, targets.flatten()[kept])


def mtp_loss(
    model: TinyModel,
    out: TrunkOutput,
    targets: Tensor,
    weights: Tensor,
    share: float,
    with_indexer: bool,
) -> Tensor:
    """The draft head's loss on a share of the rows.

    Part of the gradient reaches the trunk: to guess how a copy goes on, the head has to find the
    given token in earlier streams, and a trunk that hears nothing of that forgets it.
    """
    rows = int(targets.shape[0] * share)
    streams = out.streams[:rows]
    streams = streams.detach() + TRUNK_SHARE * (streams - streams.detach())
    _, mixed, balance, x = model.mtp(streams, targets[:rows])
    # Position i is given token i + 1 and guesses token i + 2; the last position has no target.
    kept = (weights[:rows, 1:] > 0).nonzero(as_tuple=True)
    head = model.params["output.weight"].detach()
    logits = layers.linear(mixed[:, :-1][kept], head)
    loss = F.cross_entropy(logits, targets[:rows, 1:][kept]) + BALANCE_WEIGHT * balance
    if with_indexer:
        loss = loss + INDEXER_WEIGHT / MTP_WEIGHT * indexer_loss(model, {model.shape.num_layers: x})
    return loss


def indexer_loss(model: TinyModel, inputs: dict[int, Tensor]) -> Tensor:
    """Makes block scores follow where attention looks (top-k itself passes no gradient).

    The target of a query is its attention mass by complete block, summed over heads; inputs and
    target are detached, so only the indexer's own tensors learn.
    """
    shape, total = model.shape, torch.zeros(())
    for layer, x in inputs.items():
        length = x.shape[1]
        ratio, blocks = shape.block_ratio, length // shape.block_ratio
        tables = layers.rope_tables(length, shape)
        with torch.no_grad():
            q, k, _, _ = layers.project_heads(x, model.params, layer, shape, tables)
            scores = (q @ k.mT) * shape.head_dim**-0.5
            causal = torch.ones(length, length, dtype=torch.bool).tril()
            mass = scores.masked_fill(~causal, -torch.inf).softmax(-1).sum(1)
            mass = mass[..., : blocks * ratio].unflatten(-1, (blocks, ratio)).sum(-1)
            complete = (torch.arange(length) + 1) // ratio
            visible = torch.arange(blocks) < complete.unsqueeze(-1)  # (time, blocks)
            mass = mass * visible
            mass = mass / mass.sum(-1, keepdim=True).clamp(min=1e-9)
        scores = layers.block_scores(x, model.params, layer, shape, tables)
        log_share = scores.masked_fill(~visible, -1e9).log_softmax(-1)
        entropy = -(mass * log_share).sum(-1)
        total = total + entropy[:, complete >= 2].mean()
    return total


def step_loss(
    model: TinyModel,
    tokens: Tensor,
    targets: Tensor,
    weights: Tensor,
    mtp_share: float,
    with_indexer: bool,
) -> StepLoss:
    """Returns the losses of one batch; tokens, targets, weights (rows, length).

    `mtp_share` is the share of the rows that the draft head learns from.
    """
    out = model.trunk(tokens)
    main = _token_loss(model, out.mixed, targets, weights)
    total = main + BALANCE_WEIGHT * out.balance
    mtp = indexer = torch.zeros(())
    if mtp_share > 0:
        mtp = mtp_loss(model, out, targets, weights, mtp_share, with_indexer)
        total = total + MTP_WEIGHT * mtp
    if with_indexer:
        indexer = indexer_loss(model, out.attention_inputs)
        total = total + INDEXER_WEIGHT * indexer
    return StepLoss(total, main.item(), mtp.item(), indexer.item())
