"""What a card's memory is taken for beside weights, states and experts; known without looking at any card."""

from __future__ import annotations

# Of CUDA itself: context and streams, which a card that is opened lacks already; compiled kernels; graphs of
# recorded passes, which may take so much and no more (engine/ops/cuda_recording.py), as no driver says it before.
CONTEXT_BYTES = 300 << 20
KERNEL_BYTES = 64 << 20
GRAPH_BYTES = 128 << 20
CUDA_BYTES = CONTEXT_BYTES + KERNEL_BYTES + GRAPH_BYTES
# Beside what grows with a pass's rows: groups of rows in mixes and mixers, logits, the draft layer's rows.
OTHER_SCRATCH_BYTES = 256 << 20
