"""Tokens per second of a model on a card and a processor that are not at hand: `python -m bench.timeline`.

    python -m bench.timeline --model qwen-iq2_xs --vram-gib 12 --card 672 --memory 62 --cores 6

Rates are in GB/s. Without options: the reference machine, beside its published figures.
"""

from __future__ import annotations

import argparse
import json
import sys

from engine.core.catalog import CatalogModel
from engine.core.catalog_file import load_catalog
from engine.core.config import RunConfig
from engine.core.gpu import Gpu
from engine.core.machine import Machine
from engine.core.model_numbers import numbers_of_catalog
from engine.core.placement_hybrid import place
from engine.core.timeline import Rates, WindowTime, link_bytes_per_s, window_time
from installer.speed import expert_rate, window_load

PUBLISHED = {"qwen-q2_0": 93.0, "qwen-iq2_xs": 79.0, "qwen-iq3_xxs": 62.0, "qwen-iq3_s": 53.0}


def predict(model: CatalogModel, options: argparse.Namespace) -> WindowTime:
    """The time line of one model.

    Raises:
        ValueError: the card is too small for the model.
    """
    catalog = load_catalog()
    config = RunConfig(prompt_chunk=options.prompt_chunk or None)
    numbers = numbers_of_catalog(catalog, model, config)
    shape = catalog.family_of(model).shape
    vram = int(options.vram_gib * (1 << 30))
    gpu = Gpu(0, "card", vram, vram - (600 << 20), memory_bytes_per_s=options.card * 1e9)
    ram = int(options.ram_gib * (1 << 30))
    machine = Machine("Linux", "", int(options.cores), int(options.cores), ram, ram, 0)
    placement = place(numbers, machine, gpu, options.context)
    if placement.gpu_index is None or not placement.expert_slots:
        raise ValueError(f"A card with {options.vram_gib:g} GiB holds nothing of {model.id}.")
    experts = expert_rate(model.size, options.isa) * 1e9 * options.cores
    bus = link_bytes_per_s(options.pcie_generation, options.pcie_width)
    rates = Rates(options.card * 1e9, bus, options.memory * 1e9, experts)
    return window_time(window_load(numbers, shape, placement), rates)


def main() -> int:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Formatter)
    parser.add_argument("--model", action="append", help="id of models.json; more than once")
    parser.add_argument("--vram-gib", type=float, default=12.0)
    parser.add_argument("--ram-gib", type=float, default=62.7)
    parser.add_argument("--card", type=float, default=672.0, help="the card's memory, GB/s")
    parser.add_argument("--memory", type=float, default=62.0, help="RAM, GB/s")
    parser.add_argument("--cores", type=float, default=6.0)
    parser.add_argument("--isa", default="avx2", choices=("avx2", "avxvnni", "avx512"))
    parser.add_argument("--pcie-generation", type=int, default=4)
    parser.add_argument("--pcie-width", type=int, default=16)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument(
        "--prompt-chunk", type=int, default=256, help="rows whose memory experts lack; 0: as chosen"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    catalog = load_catalog()
    rows: list[dict[str, float | str | None]] = []
    for name in options.model or list(PUBLISHED):
        model = catalog.find(name)
        if model is None:
            print(f"models.json has no model called {name!r}.", file=sys.stderr)
            return 2
        try:
            found = predict(model, options)
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2
        rows.append(
            {
                "model": name,
                "window_ms": round(found.window_s * 1e3, 1),
                "card_ms": round(found.card_s * 1e3, 1),
                "experts_ms": round(found.experts_s * 1e3, 1),
                "other_ms": round(found.other_s * 1e3, 1),
                "hit_rate": round(found.hit_rate, 3),
                "tokens_per_s": round(found.tokens_per_s, 1),
                "published": PUBLISHED.get(name) if options.model is None else None,
            }
        )
    if options.json:
        print(json.dumps({"rows": rows}))
        return 0
    print("model          window  card   experts  other  hits   tokens/s  published")
    for row in rows:
        published = row["published"] if row["published"] is not None else ""
        print(
            f"{row['model']:<13} {row['window_ms']:>6} ms {row['card_ms']:>5} {row['experts_ms']:>8}"
            f" {row['other_ms']:>6} {row['hit_rate']:>6} {row['tokens_per_s']:>8} {published:>9}"
        )
    return 0


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the example's lines."""


if __name__ == "__main__":
    sys.exit(main())
