"""Write a random model with the real model's shapes, to measure with where no real one is.

    python -m bench.make_synthetic --preset q4_k --out /tmp/q4_k.gguf
    python -m bench.make_synthetic --preset gsq-like --layers 4 --experts 64 --out /tmp/small.gguf
    python -m bench.make_synthetic --preset q8_0 --expert-format IQ3_S --down-format Q2_0 --out x.gguf

Its answers are random words. The tokenizer is the bundled model's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.synthetic_blocks import RANDOM_TYPES
from bench.synthetic_model import Formats, Sizes, write_model
from bench.synthetic_presets import PRESETS
from engine.core.config import BUNDLED_MODEL
from engine.core.ggml_types import GgmlType


def main(words: Sequence[str] | None = None) -> int:
    """Write the file that the command line describes; 0."""
    defaults = Sizes()
    parser = argparse.ArgumentParser(description="write a random model of the real shapes")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="q4_k")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    for flag, default in (
        ("--layers", defaults.num_layers),
        ("--experts", defaults.num_experts),
        ("--vocab-size", defaults.vocab_size),
        ("--table-rows-per-head", defaults.table_rows_per_head),
        ("--seed", 1),
    ):
        parser.add_argument(flag, type=int, default=default, metavar="N")
    names = sorted(ggml_type.name for ggml_type in RANDOM_TYPES)
    for flag in ("--expert-format", "--down-format", "--dense-format", "--streams-format"):
        parser.add_argument(flag, choices=names, metavar="FORMAT", help="not the preset's")
    arguments = parser.parse_args(words)
    try:
        sizes = Sizes(
            num_layers=arguments.layers,
            num_experts=arguments.experts,
            vocab_size=arguments.vocab_size,
            table_rows_per_head=arguments.table_rows_per_head,
        )
        began_at = time.perf_counter()
        write_model(arguments.out, sizes, _formats(arguments), BUNDLED_MODEL, arguments.seed)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    took_s = time.perf_counter() - began_at
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e9:.2f} GB in {took_s:.0f} s")
    return 0


def _formats(arguments: argparse.Namespace) -> Formats:
    formats = PRESETS[arguments.preset]
    if arguments.expert_format or arguments.down_format:
        formats = replace(
            formats,
            experts=tuple(
                (
                    GgmlType[arguments.expert_format or gate.name],
                    GgmlType[arguments.down_format or down.name],
                )
                for gate, down in formats.experts
            ),
        )
    if arguments.dense_format:
        formats = replace(formats, dense=(GgmlType[arguments.dense_format],))
    if arguments.streams_format:
        formats = replace(formats, streams=GgmlType[arguments.streams_format])
    return formats


if __name__ == "__main__":
    raise SystemExit(main())
