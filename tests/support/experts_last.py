"""A model file whose experts come last, so that cutting its end takes experts and nothing else."""

from __future__ import annotations

from pathlib import Path

from engine.core.gguf_header import read_model_header
from engine.core.gguf_values import GgufValueType
from engine.core.placement import model_config_of
from engine.gguf.reader import GgufFile
from engine.gguf.writer import GgufWriter


def write_with_experts_last(source: Path, target: Path) -> int:
    """Copy a single-file model in that order; the offset of its last layer's first expert tensor.

    The draft head's experts count as everything else.
    """
    last_layer = model_config_of(read_model_header(source)).num_layers - 1
    experts = {
        f"blk.{layer}.ffn_{kind}_exps.weight"
        for layer in range(last_layer + 1)
        for kind in ("gate", "up", "down")
    }
    with GgufFile.open(source) as file:
        writer = GgufWriter(target, str(file.metadata["general.architecture"]))
        for key, value in file.metadata.items():
            if key != "general.architecture":
                empty = isinstance(value, (list, tuple)) and not value
                writer.add_metadata(key, value, GgufValueType.STRING if empty else None)
        names = sorted(file.tensors, key=lambda name: (name in experts, name))
        for name in names:
            tensor = file.tensors[name]
            writer.add_tensor(name, tensor.data, tensor.type, tensor.shape)
        writer.write()
    header = read_model_header(target)
    last = [
        info.offset
        for name, (_, info) in header.tensors.items()
        if name in experts and name.startswith(f"blk.{last_layer}.")
    ]
    return header.shards[0].data_start + min(last)
