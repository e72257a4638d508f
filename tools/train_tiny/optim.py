"""The optimisers: Adam for most tensors, Muon for plain matrices, sparse Adam for the n-gram table.

Muon (Jordan, 2024, kellerjordan.github.io/posts/muon): the momentum of a matrix is replaced by its
nearest orthogonal matrix, found by Newton-Schulz steps, so that all directions learn alike.
"""

from collections import defaultdict

import torch
from torch import Tensor

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
PLE_TABLE = "per_layer_token_embd.weight"


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """Returns the nearest orthogonal matrices, roughly; matrices (batch, rows, columns)."""
    a, b, c = NEWTON_SCHULZ
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = (matrices.mT if is_tall else matrices).bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if is_tall else x).float()


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised; tensors of one shape are handled as one batch."""

    def __init__(self, params: list[Tensor], lr: float, momentum: float = 0.95) -> None:
        """Takes 2-D tensors, or 3-D ones as stacks of matrices."""
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Applies one update."""
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
                buffer = state["momentum"]
                buffer.lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp(buffer, group["momentum"])
                by_shape[tuple(p.shape[-2:])].append((p, update.view(-1, *p.shape[-2:])))
            for (rows, columns), items in by_shape.items():
                stacked = orthogonalise(torch.cat([u for _, u in items]))
                # An orthogonal matrix has entries of 1 / sqrt(longer side).
                scale = group["lr"] * max(1.0, rows / columns) ** 0.5
                at = 0
                for p, u in items:
                    p.add_(stacked[at : at + u.shape[0]].view_as(p), alpha=-scale)
                    at += u.shape[0]


class Optimisers:
    """All optimisers of a model, with one learning-rate scale."""

    def __init__(self, params: dict[str, Tensor], use_muon: bool, adam_lr: float) -> None:
        """Sorts the tensors by name and rank."""
        muon, vectors, matrices = [], [], []
        for name, p in params.items():
            if name == PLE_TABLE:
                continue
            if p.ndim == 1 or "conv1d" in name:
                vectors.append(p)
            elif use_muon and name.startswith("blk.") and p.ndim == 2 and min(p.shape) >= 16:
                if "ffn_gate_inp" in name:
                    matrices.append(p)
                else:
                    muon.append(p)
            else:
                matrices.append(p)
        self.all: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(
                [
                    {"params": matrices, "weight_decay": 0.05, "lr": adam_lr},
                    {"params": vectors, "weight_decay": 0.0, "lr": adam_lr},
                ],
                betas=(0.9, 0.98),
                eps=1e-9,
                fused=True,
            )
        ]
        if muon:
            self.all.append(Muon(muon, lr=0.02))
        if PLE_TABLE in params:
            self.all.append(torch.optim.SparseAdam([params[PLE_TABLE]], lr=3 * adam_lr))
        self._base = [[g["lr"] for g in o.param_groups] for o in self.all]
        self._dense = [p for name, p in params.items() if name != PLE_TABLE]

    def step(self, scale: float) -> float:
        """Clips, updates with the learning rates times `scale`; returns the gradient norm."""
        norm = torch.nn.utils.clip_grad_norm_([p for p in self._dense if p.grad is not None], 1.0)
        for optimiser, rates in zip(self.all, self._base, strict=True):
            for group, rate in zip(optimiser.param_groups, rates, strict=True):
                group["lr"] = rate * scale
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return float(norm)

    def state_dict(self) -> list[dict[str, object]]:
        """Returns every optimiser's state."""
        return [o.state_dict() for o in self.all]

    def load_state_dict(self, states: list[dict[str, object]]) -> None:
        """Takes the states back."""
        for optimiser, state in zip(self.all, states, strict=True):
            optimiser.load_state_dict(state)
