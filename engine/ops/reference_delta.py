"""Gated DeltaNet of the reference operations: recurrence and chunked form (spec 4.4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.ops.base import CHUNK_TOKENS, FloatArray
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool
from engine.ops.reference_math import l2_normalise, rms, sigmoid, silu, softplus
from engine.ops.weights import DeltaWeights

Float64Array = npt.NDArray[np.float64]


def delta_mix(
    weights: DeltaWeights,
    pool: DeltaPool,
    plan: PassPlan,
    qkv: FloatArray,
    z: FloatArray,
    alpha: FloatArray,
    beta: FloatArray,
    out: FloatArray,
) -> None:
    """See `Ops.delta_mix`."""
    nk, nv, d = weights.num_k_heads, weights.num_v_heads, weights.head_dim
    decay = (weights.a * softplus(alpha + weights.dt.astype(np.float64))).astype(np.float32)
    strength = sigmoid(beta).astype(np.float32)  # (R, nv) each
    for s, (slot, half) in enumerate(zip(plan.seq_slot, plan.seq_half, strict=True)):
        first, stop = int(plan.seq_start[s]), int(plan.seq_start[s + 1])
        num_rows = stop - first
        mixed, inputs = _convolve(weights, pool.conv[slot, half], qkv[first:stop])
        q = l2_normalise(mixed[:, : nk * d].reshape(num_rows, nk, d)) / np.sqrt(d)
        k = l2_normalise(mixed[:, nk * d : 2 * nk * d].reshape(num_rows, nk, d))
        # Rounded as the window stores them, so that a partial commit repeats the same numbers.
        k32 = k.astype(np.float32)
        v32 = mixed[:, 2 * nk * d :].reshape(num_rows, nv, d).astype(np.float32)
        g32, b32 = decay[first:stop], strength[first:stop]

        state = pool.state[slot, half].copy()  # (nv, d, d)
        heads = np.empty((num_rows, nv, d))
        start_position = int(plan.seq_length[s])
        row = 0
        while row < num_rows:
            aligned = (start_position + row) % CHUNK_TOKENS == 0
            count = CHUNK_TOKENS if aligned and num_rows - row >= CHUNK_TOKENS else 1
            part = slice(row, row + count)
            if count == 1:
                state = delta_step(state, k32[row], v32[row], g32[row], b32[row])
                heads[row] = _read_state(state, q[row], nv)
            else:
                state, heads[part] = delta_chunk(
                    state, q[part], k32[part], v32[part], g32[part], b32[part]
                )
            row += count

        normed = rms(heads, weights.norm, weights.eps).reshape(num_rows, nv * d)
        out[first:stop] = normed * sigmoid(z[first:stop])
        pool.state[slot, 1 - half] = state
        pool.conv[slot, 1 - half] = inputs[num_rows:]
        if num_rows <= pool.window_k.shape[1]:
            pool.window_conv[slot, :num_rows] = inputs[weights.conv_kernel - 1 :]
            pool.window_k[slot, :num_rows] = k32
            pool.window_v[slot, :num_rows] = v32
            pool.window_decay[slot, :num_rows] = g32
            pool.window_beta[slot, :num_rows] = b32


def delta_commit(
    weights: DeltaWeights, pool: DeltaPool, slot: int, half: int, num_tokens: int
) -> None:
    """See `Ops.delta_commit`."""
    del weights  # the window holds all that the recurrence needs
    state = pool.state[slot, half].copy()
    for i in range(num_tokens):
        state = delta_step(
            state,
            pool.window_k[slot, i],
            pool.window_v[slot, i],
            pool.window_decay[slot, i],
            pool.window_beta[slot, i],
        )
    pool.state[slot, 1 - half] = state
    inputs = np.concatenate([pool.conv[slot, half], pool.window_conv[slot, :num_tokens]])
    pool.conv[slot, 1 - half] = inputs[num_tokens:]


def _convolve(
    weights: DeltaWeights, history: FloatArray, u: FloatArray
) -> tuple[Float64Array, FloatArray]:
    """Causal depthwise convolution and silu.

    Args:
        weights: conv `[C, K]` is used.
        history: `[K - 1, C]` inputs before the first row, oldest first.
        u: `[R, C]`.

    Returns:
        The result `[R, C]`, and history and inputs joined, `[K - 1 + R, C]`.
    """
    inputs = np.concatenate([history, u])
    total = np.zeros(u.shape)
    for j in range(weights.conv_kernel):
        total += inputs[j : j + len(u)] * weights.conv[:, j].astype(np.float64)
    return silu(total), inputs


def delta_step(
    state: FloatArray, k: FloatArray, v: FloatArray, decay: FloatArray, beta: FloatArray
) -> FloatArray:
    """The state `[nv, dk, dv]` after one more token, rounded to float32.

    Args:
        state: before the token.
        k: `[nk, dk]` normalised.
        v: `[nv, dv]`.
        decay: `[nv]` log decay, <= 0.
        beta: `[nv]`.
    """
    num_v_heads = len(v)
    keys = _per_v_head(k, num_v_heads)  # (nv, dk), float64
    faded = np.exp(decay.astype(np.float64))[:, None, None] * state
    predicted = np.einsum("vk,vkd->vd", keys, faded)  # what the state holds for this key
    correction = beta[:, None].astype(np.float64) * (v - predicted)  # (nv, dv)
    new: FloatArray = (faded + keys[:, :, None] * correction[:, None, :]).astype(np.float32)
    return new


def _read_state(state: FloatArray, q: Float64Array, num_v_heads: int) -> Float64Array:
    result: Float64Array = np.einsum(
        "vk,vkd->vd", _per_v_head(q, num_v_heads), state.astype(np.float64)
    )
    return result


def _per_v_head(x: npt.NDArray[np.floating], num_v_heads: int) -> Float64Array:
    """Rows of the k heads for each v head: v head i uses k head i % nk (tiled order)."""
    return np.asarray(x, np.float64)[np.arange(num_v_heads) % len(x)]


def delta_chunk(
    state: FloatArray,
    q: Float64Array,
    k: FloatArray,
    v: FloatArray,
    decay: FloatArray,
    beta: FloatArray,
) -> tuple[FloatArray, Float64Array]:
    """State and outputs `[c, nv, dv]` after c tokens at once (spec 4.4, chunked form).

    Args:
        state: `[nv, dk, dv]` before the chunk.
        q: `[c, nk, dk]` normalised and scaled.
        k: `[c, nk, dk]` normalised.
        v: `[c, nv, dv]`.
        decay: `[c, nv]` log decays.
        beta: `[c, nv]`.
    """
    num_tokens, num_v_heads, v_dim = v.shape
    num_k_heads = k.shape[1]
    outputs = np.empty(v.shape)
    new_state = np.empty_like(state)
    causal = np.tri(num_tokens, dtype=np.bool_)
    for head in range(num_v_heads):
        queries = q[:, head % num_k_heads]  # (c, dk)
        keys = k[:, head % num_k_heads].astype(np.float64)
        b = beta[:, head].astype(np.float64)[:, None]  # (c, 1)
        log_decay = np.cumsum(decay[:, head].astype(np.float64))  # G of the spec
        since_start = np.exp(log_decay)[:, None]
        until_end = np.exp(log_decay[-1] - log_decay)[:, None]
        before = state[head].astype(np.float64)  # (dk, dv), M0 of the spec
        between = np.where(causal, log_decay[:, None] - log_decay[None, :], -np.inf)
        gamma = np.exp(between)  # (c, c), zero above the diagonal
        lower = np.tril(b * (keys @ keys.T) * gamma, -1)  # A of the spec
        right = np.concatenate([b * v[:, head], b * since_start * keys], axis=1)
        solved = np.linalg.solve(np.eye(num_tokens) + lower, right)  # U and W of the spec
        corrected = solved[:, :v_dim] - solved[:, v_dim:] @ before
        outputs[:, head] = (
            since_start * (queries @ before) + ((queries @ keys.T) * gamma) @ corrected
        )
        new_state[head] = since_start[-1] * before + (until_end * keys).T @ corrected
    return new_state, outputs
