"""Compares the torch model with stored logits of reference models: proof of what is trained.

python -m tools.train_tiny check tests/golden
"""

from pathlib import Path

import numpy as np
import torch

from tools.train_tiny.gguf_arrays import read_arrays
from tools.train_tiny.layers import Precision
from tools.train_tiny.model import TinyModel
from tools.train_tiny.shape import TinyShape, shape_from_metadata


def _load(paths: list[Path]) -> tuple[TinyShape, TinyModel]:
    metadata: dict[str, object] = {}
    params: dict[str, torch.Tensor] = {}
    for path in paths:
        more, arrays = read_arrays(path)
        metadata |= more
        params |= {name: torch.from_numpy(array) for name, array in arrays.items()}
    shape = shape_from_metadata(metadata)
    return shape, TinyModel(shape, params)


def differences(golden: Path) -> dict[str, float]:
    """Returns the largest logit difference for every reference model in a folder."""
    Precision.fast = False
    found: dict[str, float] = {}
    for name in ("nople", "odd", "full"):
        _, model = _load([golden / f"{name}.gguf"])
        stored = np.load(golden / f"{name}.npz")
        tokens = torch.from_numpy(stored["tokens"].astype(np.int64)).unsqueeze(0)
        with torch.no_grad():
            logits = model.logits(model.trunk(tokens).mixed)[0].numpy()
        found[name] = float(np.abs(logits - stored["logits"]).max())
    _, model = _load([golden / "full.gguf", golden / "full-mtp.gguf"])
    stored = np.load(golden / "full-mtp.npz")
    streams = torch.from_numpy(stored["in_streams"]).float().unsqueeze(0)
    following = torch.from_numpy(stored["next_tokens"].astype(np.int64)).unsqueeze(0)
    with torch.no_grad():
        logits = model.logits(model.mtp(streams, following)[1])[0].numpy()
    found["full-mtp"] = float(np.abs(logits - stored["mtp_logits"]).max())
    return found
