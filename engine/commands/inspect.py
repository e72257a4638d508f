"""`engine inspect [FILE.gguf] [--json]`: what a model file holds, and where it would live here.

Reads headers only. A file that cannot be used gets one sentence and exit status 2, never a traceback.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from engine.commands import Subparsers
from engine.commands.inspect_cards import card_report
from engine.core.config import RunConfig
from engine.core.config_flags import add_config_flags, config_from_arguments
from engine.core.draft_head_file import read_draft_head
from engine.core.gguf_header import ModelHeader, read_model_header
from engine.core.gguf_values import printable
from engine.core.machine import probe_machine
from engine.core.model_numbers import numbers_of_header
from engine.core.model_sizes import model_config_of
from engine.core.placement import Placement, place_on_cpu
from engine.core.processor import warn_of_processor
from engine.core.sizes import size_in_words

if TYPE_CHECKING:
    from engine.core.model_config import ModelConfig


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("inspect", help="what a model file holds, and whether it fits")
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        metavar="FILE.gguf",
        help="model file or any shard; default: the setting model, else the bundled model",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the report.

    Raises:
        EngineError: the file or a setting cannot be used.
    """
    config = config_from_arguments(arguments)
    header = read_model_header(arguments.file or config.model_path)
    model = model_config_of(header)
    warn_of_processor(config)
    head = read_draft_head(config, header)
    machine = probe_machine()
    on_cpu = place_on_cpu(machine, header, config, draft_head=head)
    cards = card_report(config, header, head, machine, on_cpu)
    if arguments.json:
        report = _report(header, model, cards.placement, config)
        report["cards"] = [card.as_json() for card in cards.lines]
        print(json.dumps(report, ensure_ascii=False))
    else:
        where = "CPU" if cards.placement is on_cpu else "CPU and graphics cards"
        lines = _lines(header, model, cards.placement, where)
        if cards.lines:
            lines.append("  graphics cards")
            lines += [f"    {card.words}" for card in cards.lines]
        for line in lines:
            print(line)
    return 0


def _formats(header: ModelHeader) -> list[tuple[str, int, int]]:
    """(format, tensors, bytes) of each block format, largest first."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for _shard, info in header.tensors.values():
        counts[info.type.name] += 1
        sizes[info.type.name] += info.num_bytes
    return [(name, counts[name], size) for name, size in sizes.most_common()]


def _report(
    header: ModelHeader, model: ModelConfig, placement: Placement, config: RunConfig
) -> dict[str, object]:
    return {
        "files": [str(path) for path in header.paths],
        "name": _name(header),
        "architecture": header.metadata.get("general.architecture"),
        "layers": model.num_layers,
        "layer_kinds": [kind.value for kind in model.layer_kinds],
        "mtp_layers": model.num_mtp_layers,
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "experts": model.num_experts,
        "experts_used": model.num_experts_used,
        "context_length": model.context_length,
        "bytes_per_token": numbers_of_header(header, config).active_bytes,
        "has_ngram_layer": model.ple is not None,
        "formats": [
            {"type": name, "tensors": count, "bytes": size}
            for name, count, size in _formats(header)
        ],
        "placement": {
            "verdict": placement.verdict.value,
            "reasons": list(placement.reasons),
            "context": placement.context,
            "parallel": config.parallel,
            "needed_bytes": placement.needed_bytes,
            "private_bytes": placement.private_bytes,
            "experts": {
                "mode": placement.experts.mode.value,
                "kept_bytes": placement.experts.keep_bytes,
                "ram_bytes": placement.experts.ram_bytes,
                "disk_bytes": placement.experts.disk_bytes,
                "looks_ahead": placement.experts.looks_ahead,
            },
            "parts": [
                {
                    "name": part.name,
                    "tier": part.tier.value,
                    "bytes": part.num_bytes,
                    "reason": part.reason,
                }
                for part in placement.parts
            ],
        },
    }


def _name(header: ModelHeader) -> str:
    name = header.metadata.get("general.name")
    return name if isinstance(name, str) and name else header.paths[0].stem


def _lines(header: ModelHeader, model: ModelConfig, placement: Placement, where: str) -> list[str]:
    files = "1 file" if len(header.paths) == 1 else f"{len(header.paths)} files"
    attention = sum(kind.value == "attention" for kind in model.layer_kinds)
    lines = [
        f"{printable(_name(header), 200)} ({files})",
        f"  layers      {model.num_layers} ({model.num_layers - attention} DeltaNet, "
        f"{attention} attention), {model.num_mtp_layers} MTP, "
        f"n-gram layer: {'yes' if model.ple is not None else 'no'}",
        f"  sizes       hidden {model.hidden_size}, vocabulary {model.vocab_size}, "
        f"{model.num_experts} experts of which {model.num_experts_used} are used, "
        f"context {model.context_length}",
        "  formats",
    ]
    lines += [
        f"    {name:<8} {count:>5} tensors  {size_in_words(size):>10}"
        for name, count, size in _formats(header)
    ]
    lines.append(f"  placement on this machine ({where})")
    parts = [part for part in placement.parts if part.num_bytes]
    width = max(len(part.name) for part in parts)
    lines += [
        f"    {part.name:<{width}} {part.tier.value:<10} {size_in_words(part.num_bytes):>10}  {part.reason}"
        for part in parts
    ]
    lines += [f"  {reason}" for reason in placement.reasons]
    return lines
