"""`engine logits --model FILE --tokens FILE.json --out FILE.npz`: the logits after every given token.

The tokens are a JSON list of ids, or an object with such a list under `tokens`. The result holds one
array, `logits`: `[tokens, vocabulary]` float32, one row per position.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.commands import Subparsers
from engine.core.errors import InputError, ResourceError
from engine.core.files import read_json_value, replacing
from engine.core.kv_type import KvType
from engine.core.model_config import ModelConfig
from engine.gguf.reader import GgufFile
from engine.model.limits import ModelLimits
from engine.model.trunk import Model
from engine.ops.select import OPS_NAMES, make_ops
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted

_MAX_THREADS = 1024  # as in the run config
_CHUNK_TOKENS = 256  # rows of a pass, a multiple of DeltaNet's blocks


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("logits", help="compute the logits of given tokens")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE.gguf")
    parser.add_argument(
        "--tokens", type=Path, required=True, metavar="FILE.json", help="a list of token ids"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE.npz", help="where the result goes"
    )
    parser.add_argument("--ops", choices=OPS_NAMES, default="auto", help="what computes")
    parser.add_argument("--threads", type=int, default=0, help="worker threads, 0 = own choice")


def run(arguments: argparse.Namespace) -> int:
    """Compute and write; 0.

    Raises:
        EngineError: model or tokens cannot be used, or the result cannot be written.
    """
    if not 0 <= arguments.threads <= _MAX_THREADS:
        raise InputError(f"--threads must be a whole number from 0 to {_MAX_THREADS}.")
    token_ids = read_token_ids(arguments.tokens)
    with GgufFile.open(arguments.model) as file:
        config = ModelConfig.from_metadata(file.metadata, file.tensors)
        if len(token_ids) > config.context_length:
            raise InputError(
                f"{arguments.tokens} holds {len(token_ids)} tokens, but the model's context is "
                f"{config.context_length}; give it fewer tokens."
            )
        with np.errstate(all="ignore"):  # what a damaged file gives is in the result for all to see
            logits = compute_logits(file, token_ids, arguments.ops, arguments.threads)
    write_logits(arguments.out, logits)
    return 0


def compute_logits(
    file: GgufFile, token_ids: list[int], ops_name: str, threads: int
) -> npt.NDArray[np.float32]:
    """Logits `[tokens, vocabulary]` of one sequence, float32 caches.

    Raises:
        EngineError: the model cannot be used, or an id is not in its vocabulary.
    """
    limits = ModelLimits(
        max_rows=min(_CHUNK_TOKENS, len(token_ids)),
        max_window=1,
        context=len(token_ids),
        kv_type=KvType.F32,
        threads=threads,
    )
    ops = make_ops(ops_name, limits.for_ops())
    try:
        model = Model.load(file, ops, limits)
        sequence = model.new_sequence()
        logits = np.empty((len(token_ids), model.config.vocab_size), np.float32)
        for start in range(0, len(token_ids), _CHUNK_TOKENS):
            chunk = token_ids[start : start + _CHUNK_TOKENS]
            result = model.forward(Batch([BatchEntry(sequence, chunk, LogitsWanted.ALL)]))
            logits[start : start + len(chunk)] = result.logits
            sequence.commit(len(chunk))
    except MemoryError as error:
        raise ResourceError(
            f"There is not enough memory for the logits of {len(token_ids)} tokens; give it fewer."
        ) from error
    else:
        return logits
    finally:
        ops.close()


def read_token_ids(path: Path) -> list[int]:
    """The token ids of a JSON file.

    Raises:
        InputError: the file cannot be read or holds something else.
    """
    content = read_json_value(path, "write a list of token ids, such as [1, 2, 3]")
    if isinstance(content, dict):
        content = content.get("tokens")
    if not isinstance(content, list) or not content:
        raise InputError(f"{path} holds no list of token ids; write one, such as [1, 2, 3].")
    if not all(isinstance(t, int) and not isinstance(t, bool) for t in content):
        raise InputError(f"{path} holds something else than token ids; write whole numbers only.")
    return [int(t) for t in content]


def write_logits(path: Path, logits: npt.NDArray[np.float32]) -> None:
    """Write the result whole or not at all.

    Raises:
        ResourceError: the folder cannot be written or the disk is full.
    """
    with replacing(path) as file:
        np.savez(file, logits=logits)
