"""Makes a draft head file (layout A "shared", spec 7.3) from a checkpoint's tensors.

What changes on the way is in spec 3.4: norms become 1 + w, fused expert and index matrices are split,
the two projections are joined. The head takes its sizes from the trunk that it belongs to, but for
its experts, which it counts itself. Experts are quantised one after another, so that the 5 GB of a
real head never lie in memory, by as many threads as there are cores.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.core.errors import InputError, ResourceError
from engine.core.files import read_json
from engine.core.ggml_types import GgmlType
from engine.core.gguf_header import MetadataValue, ModelHeader
from engine.core.gguf_values import printable
from engine.core.model_config import ARCHITECTURE, ModelConfig, parse_config
from engine.core.model_shapes import check_layer_shapes, require
from engine.core.model_sizes import model_config_of
from engine.gguf.quantise import quantise
from engine.gguf.writer import GgufWriter

FloatArray = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Progress = Callable[[int, int], None]

TENSOR_LIST_FORMAT = 1

_PREFIX = ARCHITECTURE + "."
# Said anew, or of parts that a head does not have.
_NOT_COPIED = (
    "block_count",
    "nextn_",
    "ple.",
    "embedding_length_per_layer_input",
    "expert_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "attention.recurrent_layers",
    "attention.compress_ratios",
)
_DTYPES = {"BF16": "<u2", "F16": "<f2", "F32": "<f4"}
_LAYER = "mtp.layers.0."
_EXPERTS = _LAYER + "mlp.experts."
# Checkpoint name -> name in the head's block; matrices that only change their name.
_MATRICES = {
    _LAYER + "self_attn.q_proj.weight": "attn_q.weight",
    _LAYER + "self_attn.k_proj.weight": "attn_k.weight",
    _LAYER + "self_attn.v_proj.weight": "attn_v.weight",
    _LAYER + "self_attn.o_proj.weight": "attn_output.weight",
    _LAYER + "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight",
    _LAYER + "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight",
    _LAYER + "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight",
    "mtp.hyper_connection_mixer.input_mix_weight_down.weight": "nextn.hc_head_down.weight",
    "mtp.hyper_connection_mixer.input_mix_weight_up.weight": "nextn.hc_head_up.weight",
    _LAYER + "attn_hyper_connection.input_mix_weight_down.weight": "hc_attn_down.weight",
    _LAYER + "attn_hyper_connection.input_mix_weight_up.weight": "hc_attn_up.weight",
    _LAYER + "mlp_hyper_connection.input_mix_weight_down.weight": "hc_ffn_down.weight",
    _LAYER + "mlp_hyper_connection.input_mix_weight_up.weight": "hc_ffn_up.weight",
}
# Small, or decisive: kept as they are.
_EXACT = {
    _LAYER + "attn_hyper_connection.block_inject_weight.weight": "hc_attn_inject.weight",
    _LAYER + "mlp_hyper_connection.block_inject_weight.weight": "hc_ffn_inject.weight",
    _LAYER + "mlp.gate.weight": "ffn_gate_inp.weight",
}
_NORMS = {
    _LAYER + "attn_hyper_connection.hc_norm.weight": "hc_attn_norm.weight",
    _LAYER + "mlp_hyper_connection.hc_norm.weight": "hc_ffn_norm.weight",
    _LAYER + "self_attn.q_norm.weight": "attn_q_norm.weight",
    _LAYER + "self_attn.k_norm.weight": "attn_k_norm.weight",
    _LAYER + "self_attn.indexer.q_layernorm.weight": "indexer.q_norm.weight",
    _LAYER + "self_attn.indexer.k_layernorm.weight": "indexer.k_norm.weight",
    "mtp.pre_fc_norm_embedding.weight": "nextn.enorm.weight",
    "mtp.pre_fc_norm_hidden.weight": "nextn.hnorm.weight",
    "mtp.hyper_connection_mixer.hc_norm.weight": "nextn.hc_head_norm.weight",
}


@dataclass(frozen=True, slots=True)
class HeadFormats:
    """How the head's matrices are stored; norms, router and injection stay float32."""

    experts: GgmlType = GgmlType.Q2_0
    dense: GgmlType = GgmlType.Q8_0


class CheckpointTensors:
    """Raw tensors in files of their own, as a list names them."""

    def __init__(self, list_path: Path) -> None:
        """Open the list.

        Raises:
            InputError: the list, or a file that it names, is not what it should be.
        """
        content = read_json(list_path, TENSOR_LIST_FORMAT)
        entries = content.get("tensors")
        if not isinstance(entries, list):
            raise InputError(f"{list_path} has no list of tensors; name another file.")
        self._tensors: dict[str, npt.NDArray[np.generic]] = {}
        self._is_bf16: set[str] = set()
        for entry in entries:
            self._open(entry, list_path)

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape.

        Raises:
            InputError: it is not there.
        """
        return self._tensor(name).shape

    def read(self, name: str, *index: int | slice) -> FloatArray:
        """A tensor's values, or a part of them."""
        raw = self._tensor(name)[index] if index else self._tensor(name)[...]
        if name in self._is_bf16:
            return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return raw.astype(np.float32)

    def _tensor(self, name: str) -> npt.NDArray[np.generic]:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise InputError(
                f"The checkpoint's tensor {name} is missing, so no draft head can be made; "
                "download its tensors again."
            )
        return tensor

    def _open(self, entry: object, list_path: Path) -> None:
        match entry:
            case {"name": str(name), "dtype": str(dtype), "shape": list(sizes), "file": str(file)}:
                pass
            case _:
                raise InputError(f"{list_path} has an entry that names no tensor; make it again.")
        path = list_path.parent / file
        shape = tuple(size for size in sizes if isinstance(size, int) and 0 < size < 1 << 32)
        if dtype not in _DTYPES or len(shape) != len(sizes) or Path(file).name != file:
            raise InputError(f"{list_path}: the entry {printable(name, 80)} cannot be used.")
        try:
            self._tensors[name] = np.memmap(path, _DTYPES[dtype], mode="r", shape=shape)
        except (OSError, ValueError, OverflowError) as error:
            raise InputError(
                f"{path} does not hold the tensor {printable(name, 80)} ({error}); download it "
                "again."
            ) from error
        if path.stat().st_size != self._tensors[name].nbytes:
            raise InputError(f"{path} is longer than its tensor; download it again.")
        if dtype == "BF16":
            self._is_bf16.add(name)


class _Job(Protocol):
    def __call__(self) -> Bytes: ...


@dataclass(frozen=True, slots=True)
class _Output:
    """A tensor of the head: what makes its parts, one after another."""

    name: str
    type: GgmlType
    shape: tuple[int, ...]
    jobs: Sequence[_Job]


def import_draft_head(
    tensors: CheckpointTensors,
    trunk: ModelHeader,
    out: Path,
    formats: HeadFormats,
    *,
    threads: int = 0,
    progress: Progress | None = None,
) -> None:
    """Write the head's file; it has its name only when it is complete.

    Args:
        tensors: the checkpoint's.
        trunk: header of the model that the head belongs to.
        out: the file.
        formats: how matrices are stored.
        threads: that quantise; 0: one for each core.
        progress: told how many of how many parts are done.

    Raises:
        InputError: a tensor is missing.
        ModelFileError: the tensors do not fit the trunk.
        ResourceError: the file cannot be written.
    """
    config = model_config_of(trunk)
    metadata = _metadata(tensors, trunk, config)
    head = parse_config(metadata, config.vocab_size)
    outputs = _outputs(tensors, f"blk.{config.num_layers}.", formats)
    _check(head, f"blk.{config.num_layers}.", outputs)
    writer = GgufWriter(out, ARCHITECTURE)
    for key, value in metadata.items():
        if key != "general.architecture":
            writer.add_metadata(key, value)
    total = sum(len(output.jobs) for output in outputs)
    counter = _Counter(total, progress)
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        for output in outputs:
            writer.add_streamed_tensor(
                output.name, output.type, output.shape, _parts(pool, output.jobs, counter)
            )
        try:
            writer.write()
        except OSError as error:
            raise ResourceError(
                f"{out} cannot be written ({error.strerror or error}). Free some space or choose "
                "another folder.",
                code="file_not_writable",
                params={"path": str(out)},
            ) from error


class _Counter:
    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def count(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


def _parts(
    pool: ThreadPoolExecutor, jobs: Sequence[_Job], counter: _Counter
) -> Callable[[], Iterable[Bytes]]:
    """The parts in order, a few of them made ahead."""

    def make() -> Iterator[Bytes]:
        ahead = 2 * (os.cpu_count() or 1)
        waiting: deque[Future[Bytes]] = deque()
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
                counter.count()
        while waiting:
            yield waiting.popleft().result()
            counter.count()

    return make


def _metadata(
    tensors: CheckpointTensors, trunk: ModelHeader, config: ModelConfig
) -> dict[str, MetadataValue]:
    """The head's keys: the trunk's sizes, one block more, and the head's own experts."""
    num_experts, fused_width, _ = _three(tensors.shape(_EXPERTS + "gate_up_proj"))
    shared_width = tensors.shape(_LAYER + "mlp.shared_expert.gate_proj.weight")[0]
    kinds = [kind.value == "delta" for kind in config.layer_kinds]
    ratio = config.block_ratio
    name = trunk.metadata.get("general.name")
    metadata: dict[str, MetadataValue] = {
        "general.architecture": ARCHITECTURE,
        "general.name": f"{name if isinstance(name, str) else trunk.paths[0].stem} draft head",
        "general.type": "model",
    }
    for key, value in trunk.metadata.items():
        short = key.removeprefix(_PREFIX)
        if short != key and not short.startswith(_NOT_COPIED):
            metadata[key] = value
    metadata |= {
        _PREFIX + "block_count": config.num_layers + 1,
        _PREFIX + "nextn_predict_layers": 1,
        _PREFIX + "nextn_shared_target_tensors": True,
        _PREFIX + "vocab_size": config.vocab_size,
        _PREFIX + "expert_count": num_experts,
        _PREFIX + "expert_feed_forward_length": fused_width // 2,
        _PREFIX + "expert_shared_feed_forward_length": shared_width,
        _PREFIX + "attention.recurrent_layers": [*kinds, False],
        _PREFIX + "attention.compress_ratios": [*(0 if d else ratio for d in kinds), ratio],
    }
    return metadata


def _three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise InputError(f"The checkpoint's experts have the shape {shape} instead of three sizes.")
    return shape[0], shape[1], shape[2]


def _outputs(tensors: CheckpointTensors, prefix: str, formats: HeadFormats) -> list[_Output]:
    outputs = [
        *_experts(tensors, prefix, formats),
        _split_index(tensors, prefix, formats, is_query=True),
        _split_index(tensors, prefix, formats, is_query=False),
    ]
    for source, name in _MATRICES.items():
        outputs.append(_whole(prefix + name, tensors.read(source), formats.dense))
    for source, name in _EXACT.items():
        outputs.append(_whole(prefix + name, tensors.read(source), GgmlType.F32))
    for source, name in _NORMS.items():
        # Stored as the distance from 1; files hold the factor itself.
        outputs.append(_whole(prefix + name, tensors.read(source) + np.float32(1), GgmlType.F32))
    gate = tensors.read(_LAYER + "mlp.shared_expert_gate.weight").reshape(-1)
    outputs.append(_whole(prefix + "ffn_gate_inp_shexp.weight", gate, GgmlType.F32))
    joined = np.concatenate(
        [tensors.read("mtp.fc_embedding.weight"), tensors.read("mtp.fc_hidden.weight")], axis=1
    )
    outputs.append(_whole(prefix + "nextn.eh_proj.weight", joined, formats.dense))
    return outputs


def _experts(tensors: CheckpointTensors, prefix: str, formats: HeadFormats) -> Iterator[_Output]:
    """Gate, up and down of all experts, each made expert by expert."""
    fused, down = _EXPERTS + "gate_up_proj", _EXPERTS + "down_proj"
    num_experts, fused_width, hidden_size = _three(tensors.shape(fused))
    width = fused_width // 2

    def jobs(source: str, part: slice, ggml_type: GgmlType) -> list[_Job]:
        def of(expert_idx: int) -> _Job:
            return lambda: quantise(tensors.read(source, expert_idx, part), ggml_type).reshape(-1)

        return [of(expert_idx) for expert_idx in range(num_experts)]

    for name, source, part, shape in (
        ("ffn_gate_exps", fused, slice(0, width), (num_experts, width, hidden_size)),
        ("ffn_up_exps", fused, slice(width, 2 * width), (num_experts, width, hidden_size)),
        ("ffn_down_exps", down, slice(None), _three(tensors.shape(down))),
    ):
        ggml_type = _fitting(formats.experts, shape[-1])
        yield _Output(f"{prefix}{name}.weight", ggml_type, shape, jobs(source, part, ggml_type))


def _split_index(
    tensors: CheckpointTensors, prefix: str, formats: HeadFormats, *, is_query: bool
) -> _Output:
    """The indexer's query rows, or its key rows, which are as many as its key norm has values."""
    joined = tensors.read(_LAYER + "self_attn.indexer.index_qk_proj.weight")
    (key_size,) = tensors.shape(_LAYER + "self_attn.indexer.k_layernorm.weight")
    rows = joined[:-key_size] if is_query else joined[-key_size:]
    name = "q_proj" if is_query else "k_proj"
    return _whole(f"{prefix}indexer.{name}.weight", rows, formats.dense)


def _whole(name: str, values: FloatArray, wanted: GgmlType) -> _Output:
    """A tensor that is made in one part."""
    ggml_type = _fitting(wanted, values.shape[-1])
    return _Output(name, ggml_type, values.shape, [lambda: quantise(values, ggml_type).reshape(-1)])


def _fitting(wanted: GgmlType, row_length: int) -> GgmlType:
    """The wanted type, or BF16 for rows that are no whole number of its blocks."""
    return wanted if row_length % wanted.block_values == 0 else GgmlType.BF16


def _check(head: ModelConfig, prefix: str, outputs: Sequence[_Output]) -> None:
    """Refuse tensors that are not of this trunk, before hours are spent on them."""
    shapes: Mapping[str, _Output] = {output.name: output for output in outputs}
    hc, H, r = head.num_streams, head.hidden_size, head.low_rank
    check_layer_shapes(head, prefix, shapes, is_delta=False)
    require(shapes, f"{prefix}nextn.eh_proj.weight", ((H, 2 * H),))
    require(shapes, f"{prefix}nextn.enorm.weight", ((H,),))
    require(shapes, f"{prefix}nextn.hnorm.weight", ((hc * H,),))
    require(shapes, f"{prefix}nextn.hc_head_norm.weight", ((hc * H,),))
    require(shapes, f"{prefix}nextn.hc_head_down.weight", ((r, hc * H),))
    require(shapes, f"{prefix}nextn.hc_head_up.weight", ((hc * H, r),))
