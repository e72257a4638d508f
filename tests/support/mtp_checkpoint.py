"""The golden draft head as the checkpoint that it could come from, and files in that checkpoint's form."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.model.mtp_import import _EXACT, _EXPERTS, _LAYER, _MATRICES, _NORMS
from tests.support.golden import arrays, model_file

FloatArray = npt.NDArray[np.float32]
BLOCK = "blk.4."


def golden_checkpoint() -> dict[str, FloatArray]:
    """Checkpoint name -> values, all 31: the importer's changes taken back."""
    tensors = {t.name: t.dequantise() for t in model_file("full-mtp").tensors.values()}

    def own(name: str) -> FloatArray:
        return tensors[BLOCK + name]

    checkpoint = {source: own(name) for source, name in (_MATRICES | _EXACT).items()}
    checkpoint |= {source: own(name) - np.float32(1) for source, name in _NORMS.items()}
    gate, up = own("ffn_gate_exps.weight"), own("ffn_up_exps.weight")
    checkpoint[_EXPERTS + "gate_up_proj"] = np.concatenate([gate, up], axis=1)
    checkpoint[_EXPERTS + "down_proj"] = own("ffn_down_exps.weight")
    checkpoint[_LAYER + "mlp.shared_expert_gate.weight"] = own("ffn_gate_inp_shexp.weight")[None]
    checkpoint[_LAYER + "self_attn.indexer.index_qk_proj.weight"] = np.concatenate(
        [own("indexer.q_proj.weight"), own("indexer.k_proj.weight")]
    )
    embedding, hidden = np.split(own("nextn.eh_proj.weight"), 2, axis=1)
    checkpoint["mtp.fc_embedding.weight"], checkpoint["mtp.fc_hidden.weight"] = embedding, hidden
    golden = arrays("full-mtp")
    wanted = {
        str(name): str(list(json.loads(str(shape))))
        for name, shape in zip(golden["hf_tensor_names"], golden["hf_tensor_shapes"], strict=True)
    }
    assert {name: str(list(values.shape)) for name, values in checkpoint.items()} == wanted
    return checkpoint


def write_tensor_list(folder: Path, checkpoint: dict[str, FloatArray]) -> Path:
    """The tensors as files of their own, and the list that names them."""
    entries = []
    for name, values in checkpoint.items():
        (folder / f"{name}.bin").write_bytes(values.tobytes())
        shape = list(values.shape)
        entries.append({"name": name, "dtype": "F32", "shape": shape, "file": f"{name}.bin"})
    path = folder / "tensors.json"
    path.write_text(json.dumps({"format": 1, "tensors": entries}))
    return path


def safetensors_shards(
    checkpoint: dict[str, FloatArray], num_shards: int
) -> tuple[dict[str, bytes], dict[str, str]]:
    """The checkpoint's files, with other tensors between, and the SHA-256 of each wanted tensor."""
    files: dict[str, bytes] = {}
    weight_map: dict[str, str] = {}
    names = sorted(checkpoint)
    for index in range(num_shards):
        shard = f"model-{index + 1:05d}-of-{num_shards:05d}.safetensors"
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        data = b""
        for name in ["model.other.weight", *names[index::num_shards]]:
            raw = b"\x7f" * 1000 if name not in checkpoint else checkpoint[name].tobytes()
            shape = [250] if name not in checkpoint else list(checkpoint[name].shape)
            ends = [len(data), len(data) + len(raw)]
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": ends}
            data += raw
            weight_map[name] = shard
        packed = json.dumps(header).encode()
        files[shard] = len(packed).to_bytes(8, "little") + packed + data
    files["model.safetensors.index.json"] = json.dumps({"weight_map": weight_map}).encode()
    return files, {n: hashlib.sha256(checkpoint[n].tobytes()).hexdigest() for n in names}
