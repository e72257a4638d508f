"""Writes the bundled model's GGUF file from a checkpoint.

Parameters are trained under the file's names and conventions, so nothing is converted here but the
number formats.
"""

import json
import logging
from array import array
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch

from engine.core.gguf_values import GgufValueType
from engine.gguf.reader import GgufFile
from engine.gguf.writer import GgufWriter
from tools.train_tiny import tokenizer as tokenizers_
from tools.train_tiny.shape import PleShape, TinyShape, metadata_of, shape_from_metadata
from tools.train_tiny.tensors import tensor_type

logger = logging.getLogger(__name__)

KINDS = {
    "u32": GgufValueType.UINT32,
    "f32": GgufValueType.FLOAT32,
    "i32[]": GgufValueType.INT32,
    "u64[]": GgufValueType.UINT64,
    "bool[]": GgufValueType.BOOL,
}
FILE_TYPE_MOSTLY_Q8_0 = 7
QUANTISATION_VERSION = 2


def shape_from_json(text: str) -> TinyShape:
    """Returns the sizes that a checkpoint stores."""
    values = json.loads(text)
    ple = values.pop("ple")
    values["rope_sections"] = tuple(values["rope_sections"])
    known = {f.name for f in fields(TinyShape)}
    shape_values = {k: v for k, v in values.items() if k in known}
    if ple is not None:
        ple = PleShape(**{k: tuple(v) if isinstance(v, list) else v for k, v in ple.items()})
    return TinyShape(ple=ple, **shape_values)


def load_checkpoint(folder: Path) -> tuple[TinyShape, dict[str, torch.Tensor]]:
    """Returns the sizes and parameters of a run's newest checkpoint."""
    saved = torch.load(folder / "checkpoint.pt", weights_only=True)
    return shape_from_json(saved["shape"]), saved["params"]


def load_file(path: Path) -> tuple[TinyShape, dict[str, torch.Tensor]]:
    """Returns the sizes and the dequantised parameters of a written file."""
    with GgufFile.open(path) as model:
        metadata = {k: list(v) if isinstance(v, array) else v for k, v in model.metadata.items()}
        params = {n: torch.from_numpy(t.dequantise()) for n, t in model.tensors.items()}
    return shape_from_metadata(metadata), params


def _add_tokenizer(writer: GgufWriter, path: Path, template: str) -> None:
    tokenizer = tokenizers_.load(path)
    special = tokenizers_.special_ids(tokenizer)
    tokens, types = tokenizers_.vocabulary(tokenizer)
    pairs = tokenizers_.merges(json.loads(path.read_text(encoding="utf-8")))
    writer.add_metadata("tokenizer.ggml.model", "gpt2")
    writer.add_metadata("tokenizer.ggml.pre", "qwen35")
    writer.add_metadata("tokenizer.ggml.tokens", tokens)
    writer.add_metadata("tokenizer.ggml.token_type", types, GgufValueType.INT32)
    writer.add_metadata("tokenizer.ggml.merges", pairs)
    end_of_text = special[tokenizers_.END_OF_TEXT]
    for key, token_id in (
        ("eos_token_id", special[tokenizers_.END_OF_TURN]),
        ("padding_token_id", end_of_text),
        ("bos_token_id", end_of_text),
    ):
        writer.add_metadata(f"tokenizer.ggml.{key}", token_id, GgufValueType.UINT32)
    writer.add_metadata("tokenizer.ggml.add_bos_token", False)
    writer.add_metadata("tokenizer.chat_template", template)


def export(folder: Path, out: Path, template_path: Path) -> None:
    """Writes `out` from the checkpoint and tokenizer in `folder`."""
    shape, params = load_checkpoint(folder)
    writer = GgufWriter(out, "qwen4exp")
    writer.add_metadata("general.name", "Stratum tiny")
    writer.add_metadata("general.type", "model")
    writer.add_metadata("general.license", "mit")
    writer.add_metadata(
        "general.description",
        "The tiny model bundled with Stratum, trained from scratch on WordNet 3.0, short functions "
        "of the Python library and made-up tasks.",
    )
    writer.add_metadata("general.file_type", FILE_TYPE_MOSTLY_Q8_0, GgufValueType.UINT32)
    writer.add_metadata("general.quantization_version", QUANTISATION_VERSION, GgufValueType.UINT32)
    for key, (value, kind) in metadata_of(shape).items():
        writer.add_metadata(f"qwen4exp.{key}", value, KINDS[kind])  # type: ignore[arg-type]
    special = tokenizers_.special_ids(tokenizers_.load(folder / "tokenizer.json"))
    writer.add_metadata(
        "qwen4exp.ple.image_token_id", special["<|image_pad|>"], GgufValueType.UINT32
    )
    template = template_path.read_text(encoding="utf-8") if template_path.exists() else ""
    _add_tokenizer(writer, folder / "tokenizer.json", template)
    for name, value in params.items():
        array = value.detach().float().numpy().astype(np.float32)
        writer.add_tensor(name, array, tensor_type(name, shape))
    for path in writer.write():
        logger.info("%s: %.2f MB", path, path.stat().st_size / 1e6)
