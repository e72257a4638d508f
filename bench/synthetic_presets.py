"""Formats of synthetic models, by the names of published sizes."""

from __future__ import annotations

from bench.synthetic_model import Formats
from engine.core.ggml_types import GgmlType


def _experts(gate_up: GgmlType, down: GgmlType) -> Formats:
    """Dense part Q8_0, all experts alike."""
    return Formats(experts=((gate_up, down),))


# Down projections have rows of 640, which no 256-value format divides: where gate and up are in one,
# down is what published files of that size hold there.
PRESETS: dict[str, Formats] = {
    "q2_0": _experts(GgmlType.Q2_0, GgmlType.Q2_0),
    "iq2_xs": _experts(GgmlType.IQ2_XS, GgmlType.IQ4_NL),
    "iq3_xxs": _experts(GgmlType.IQ3_XXS, GgmlType.IQ4_NL),
    "iq3_s": _experts(GgmlType.IQ3_S, GgmlType.IQ4_NL),
    "q4_k": _experts(GgmlType.Q4_K, GgmlType.Q5_1),
    "q8_0": _experts(GgmlType.Q8_0, GgmlType.Q8_0),
    "gsq-like": Formats(
        streams=GgmlType.BF16,
        dense=(GgmlType.Q4_K, GgmlType.Q5_K, GgmlType.Q6_K, GgmlType.IQ4_XS),
        shared_down=GgmlType.Q5_1,
        embedding=GgmlType.Q4_K,
        head=GgmlType.Q6_K,
        experts=((GgmlType.IQ2_XS, GgmlType.Q2_0), (GgmlType.IQ3_XXS, GgmlType.IQ4_NL)),
    ),
}
