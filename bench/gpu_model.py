"""A synthetic model of the real shapes on a card that holds only a part of its experts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.synthetic_model import EXPERTS_USED, Formats, Sizes, write_model
from bench.synthetic_presets import PRESETS
from engine.device.base import Device
from engine.gguf.reader import GgufFile
from engine.model.limits import ModelLimits
from engine.model.trunk import Model
from engine.ops.cuda import CudaOps
from engine.ops.cuda_settings import CudaSettings
from engine.sequence.batch import Batch, BatchEntry, LogitsForm, LogitsWanted
from engine.sequence.state import SequenceState

Report = dict[str, Any]
TOKENIZER = Path(__file__).resolve().parents[1] / "assets" / "models" / "stratum-tiny.gguf"


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """How much is measured.

    Attributes:
        sizes: of the model.
        presets: formats, by the names of `synthetic_presets`.
        held: what a card of so many GiB holds of all experts, beside everything else
            (docs/how-it-works/timeline.md; Q2_0, 4,096 tokens of context).
        prompt: tokens of a prompt.
        windows: decode windows that are timed.
        rows: of a window.
        real_layers: of the real model, for tokens a second of all layers.
    """

    sizes: Sizes = field(default_factory=lambda: Sizes(num_layers=8, num_experts=128))
    presets: tuple[str, ...] = ("q2_0", "iq2_xs")
    held: tuple[tuple[int, float], ...] = ((12, 0.135), (16, 0.27), (24, 0.53))
    prompt: int = 512
    windows: int = 40
    rows: tuple[int, ...] = (1, 4)
    real_layers: int = 48

    @classmethod
    def small(cls) -> ModelSizes:
        """For the emulated card."""
        sizes = Sizes(
            num_layers=2, num_experts=EXPERTS_USED + 2, vocab_size=4_096, table_rows_per_head=50
        )
        return cls(sizes, ("q2_0",), ((12, 0.3),), prompt=3, windows=2, rows=(1,))


def measure_model(
    opened: Callable[[], Device], folder: Path, sizes: ModelSizes, progress: Callable[[str], None]
) -> list[Report]:
    """Decode windows and a prompt with each share of the experts on the card.

    Args:
        opened: opens the card.
        folder: for the models' files.
        sizes: how much.
        progress: told a line for each.
    """
    reports: list[Report] = []
    for preset in sizes.presets:
        path = folder / f"{preset}.gguf"
        write_model(path, sizes.sizes, _formats(preset), TOKENIZER, seed=1)
        with GgufFile.open(path) as file:
            for gib, share in sizes.held:
                for report in _measure(opened(), file, sizes, share):
                    report |= {"preset": preset, "card_gib": gib, "held_share": share}
                    reports.append(report)
                    progress(_line(report))
        path.unlink()
    return reports


def _formats(preset: str) -> Formats:
    return replace(PRESETS[preset])


def _measure(device: Device, file: GgufFile, sizes: ModelSizes, share: float) -> list[Report]:
    experts = sum(
        tensor.data.nbytes for name, tensor in file.tensors.items() if name.endswith("_exps.weight")
    )
    limits = ModelLimits(
        max_rows=max(sizes.prompt, *sizes.rows), context=4096, max_sequences=1, page_tokens=256
    )
    settings = CudaSettings(cache_bytes=int(share * experts) + _ring_bytes(experts, sizes))
    ops = CudaOps(limits.for_ops(), device, settings)
    model = Model.load(file, ops, limits)
    random = np.random.default_rng(7)
    vocabulary = sizes.sizes.vocab_size

    def tokens(count: int) -> list[int]:
        return [int(token) for token in random.integers(300, vocabulary, count)]

    sequence = model.new_sequence()
    began_at = time.perf_counter()
    model.forward(Batch([BatchEntry(sequence, tokens(sizes.prompt))]))
    ops.synchronize()
    prompt_s = time.perf_counter() - began_at
    sequence.commit(sizes.prompt)
    reports = []
    for rows in sizes.rows:
        graphs = ops.graph_bytes
        for _ in range(3):  # records the window, lets the cache follow
            model.forward(_window(sequence, tokens(rows)))
            sequence.commit(rows)
        reports.append(
            _windows(ops, model, sequence, sizes, [tokens(rows) for _ in range(sizes.windows)])
        )
        reports[-1]["prompt_tokens_per_s"] = sizes.prompt / prompt_s
        reports[-1]["graphs_mib"] = (ops.graph_bytes - graphs) / (1 << 20)
    sequence.release()
    ops.close()
    return reports


def _windows(
    ops: CudaOps,
    model: Model,
    sequence: SequenceState,
    sizes: ModelSizes,
    windows: Sequence[list[int]],
) -> Report:
    """Times of decode windows, and where they go."""
    times, before = [], replace(ops.moe_work.times)
    memory = ops.moe_work.memory
    hits, misses = (0, 0) if memory is None else (memory.cache.hits, memory.cache.misses)
    for token_ids in windows:
        began_at = time.perf_counter()
        model.forward(_window(sequence, token_ids))
        times.append(time.perf_counter() - began_at)
        sequence.commit(len(token_ids))
    spent, count = ops.moe_work.times, max(1, len(windows))
    window_s = statistics.median(times)
    layers = len(model.trunk_layers)
    all_layers_s = window_s * sizes.real_layers / layers
    report: Report = {
        "rows": len(windows[0]),
        "window_ms": window_s * 1e3,
        "waited_for_card_ms": (spent.waited_s - before.waited_s) / count * 1e3,
        "computed_on_cpu_ms": (spent.computed_s - before.computed_s) / count * 1e3,
        "layer_us": window_s / layers * 1e6,
        "rows_per_s_of_all_layers": len(windows[0]) / all_layers_s,
    }
    if memory is not None:
        seen = memory.cache.hits + memory.cache.misses - hits - misses
        report["hit_rate"] = (memory.cache.hits - hits) / max(1, seen)
    return report


def _window(sequence: SequenceState, token_ids: list[int]) -> Batch:
    """A window as it is verified: logits of each row, of which the card gives the largest."""
    return Batch([BatchEntry(sequence, token_ids, LogitsWanted.ALL)], LogitsForm.CANDIDATES)


def _ring_bytes(experts: int, sizes: ModelSizes) -> int:
    """The ring's halves of 16 experts each."""
    return 32 * experts // (sizes.sizes.num_layers * sizes.sizes.num_experts)


def _line(report: Report) -> str:
    return (
        f"{report['preset']} {report['card_gib']} GiB, {report['rows']} rows: "
        f"{report['window_ms']:.2f} ms a window, {report['rows_per_s_of_all_layers']:.1f} rows/s of "
        f"all layers, hits {report.get('hit_rate', 0):.0%}, waited {report['waited_for_card_ms']:.2f},"
        f" CPU {report['computed_on_cpu_ms']:.2f} ms, prompt {report['prompt_tokens_per_s']:.0f}/s, "
        f"graphs {report['graphs_mib']:.1f} MiB"
    )
