"""`engine mtp-import --tensors LIST.json --model FILE --out HEAD.gguf`: makes a draft head file.

The list names raw tensors of the original checkpoint (`{"format": 1, "tensors": [{"name", "dtype",
"shape", "file"}]}`). With `--progress` each finished part is one line of JSON: `{"done", "total"}`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from engine.commands import Subparsers
from engine.core.errors import InputError
from engine.core.ggml_types import GgmlType
from engine.core.gguf_header import read_model_header
from engine.core.sizes import size_in_words
from engine.gguf.quantise import QUANTISABLE
from engine.model.mtp_import import CheckpointTensors, HeadFormats, import_draft_head

_MAX_THREADS = 1024


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "mtp-import", help="make a draft head file from a checkpoint's tensors"
    )
    types = sorted(ggml_type.name for ggml_type in QUANTISABLE)
    parser.add_argument(
        "--tensors", type=Path, required=True, metavar="LIST.json", help="list of raw tensors"
    )
    parser.add_argument(
        "--model", type=Path, required=True, metavar="FILE.gguf", help="the model it belongs to"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="HEAD.gguf", help="the result")
    parser.add_argument("--experts", choices=types, default="Q2_0", help="format of the experts")
    parser.add_argument("--dense", choices=types, default="Q8_0", help="format of other matrices")
    parser.add_argument("--threads", type=int, default=0, help="that quantise, 0 = one per core")
    parser.add_argument("--progress", action="store_true", help="one JSON object for each part")


def run(arguments: argparse.Namespace) -> int:
    """Make the file; 0.

    Raises:
        EngineError: tensors or model cannot be used, or the file cannot be written.
    """
    if not 0 <= arguments.threads <= _MAX_THREADS:
        raise InputError(f"--threads must be a whole number from 0 to {_MAX_THREADS}.")
    import_draft_head(
        CheckpointTensors(arguments.tensors),
        read_model_header(arguments.model),
        arguments.out,
        HeadFormats(GgmlType[arguments.experts], GgmlType[arguments.dense]),
        threads=arguments.threads,
        progress=_print_progress if arguments.progress else None,
    )
    if not arguments.progress:
        size = size_in_words(arguments.out.stat().st_size)
        print(f"{arguments.out}: {size}")
    return 0


def _print_progress(done: int, total: int) -> None:
    print(json.dumps({"done": done, "total": total}), flush=True)
