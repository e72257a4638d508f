"""The losses of one step: next token, draft head, balance of the experts."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor

from tools.train_tiny import layers
from tools.train_tiny.model import TinyModel, TrunkOutput

BALANCE_WEIGHT = 0.01
MTP_WEIGHT = 0.3
TRUNK_SHARE = 0.5  # of the draft loss's gradient that reaches the trunk


@dataclass(frozen=True, slots=True)
class StepLoss:
    """The total and the parts worth logging (0 where a part was left out)."""

    total: Tensor
    main: float
    mtp: float


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
) -> Tensor:
    """The draft head's loss on a share of the rows.

    Part of the gradient reaches the trunk: to guess how a copy goes on, the head has to find the
    given token in earlier streams, and a trunk that hears nothing of that forgets it.
    """
    rows = int(targets.shape[0] * share)
    streams = out.streams[:rows]
    streams = streams.detach() + TRUNK_SHARE * (streams - streams.detach())
    _, mixed, balance, _ = model.mtp(streams, targets[:rows])
    # Position i is given token i + 1 and guesses token i + 2; the last position has no target.
    kept = (weights[:rows, 1:] > 0).nonzero(as_tuple=True)
    head = model.params["output.weight"].detach()
    logits = layers.linear(mixed[:, :-1][kept], head)
    return F.cross_entropy(logits, targets[:rows, 1:][kept]) + BALANCE_WEIGHT * balance


def step_loss(
    model: TinyModel,
    tokens: Tensor,
    targets: Tensor,
    weights: Tensor,
    mtp_share: float,
) -> StepLoss:
    """Returns the losses of one batch; tokens, targets, weights (rows, length).

    `mtp_share` is the share of the rows that the draft head learns from.
    """
    out = model.trunk(tokens)
    main = _token_loss(model, out.mixed, targets, weights)
    total = main + BALANCE_WEIGHT * out.balance
    mtp = torch.zeros(())
    if mtp_share > 0:
        mtp = mtp_loss(model, out, targets, weights, mtp_share)
        total = total + MTP_WEIGHT * mtp
    return StepLoss(total, main.item(), mtp.item())
