"""The architecture's parts as differentiable torch functions (spec/qwen4exp.md sections 4 and 5).

Everything works in the conventions of the GGUF file: folded norms, tiled value heads, `ssm_a`
negative, parameters in a dictionary under their tensor names. So what is trained is what is
exported, and a reference model's tensors can be loaded and compared without any conversion.
Activations are float32; matrix products run in bfloat16 when `Precision.fast` is set (measured on
one core, 2026-11-30: 200 against 75 GFLOP/s).

It knows no data, no optimiser and no file format.
"""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch import Tensor

from tools.train_tiny.shape import PleShape, TinyShape

Params = Mapping[str, Tensor]


class Precision:
    """Whether matrix products run in bfloat16. A process-wide switch: checks turn it off."""

    fast = False


class _FastLinear(torch.autograd.Function):
    """`x @ w.T` with bfloat16 operands and float32 results, forward and backward."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, w: Tensor) -> Tensor:
        xb, wb = x.bfloat16(), w.bfloat16()
        ctx.save_for_backward(xb, wb)
        return (xb @ wb.T).float()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor]:
        xb, wb = ctx.saved_tensors  # type: ignore[attr-defined]
        gb = grad.bfloat16()
        return (gb @ wb).float(), (gb.T @ xb).float()


def linear(x: Tensor, w: Tensor) -> Tensor:
    """Returns `x @ w.T`; x (..., in), w (out, in)."""
    if not Precision.fast:
        return x @ w.T
    flat = x.reshape(-1, x.shape[-1])
    return _FastLinear.apply(flat, w).view(*x.shape[:-1], w.shape[0])


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Returns the root-mean-square norm over the last axis, times the folded weight."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


# --- gated residual streams (4.3) ---------------------------------------------------------------


def _grouped_norm(streams: Tensor, weight: Tensor, eps: float) -> Tensor:
    scale = torch.rsqrt(streams.square().mean(-1, keepdim=True) + eps)
    return streams * scale * weight.view(streams.shape[-2], streams.shape[-1])


def _gate_and_sum(normed: Tensor, gate_logits: Tensor) -> Tensor:
    return (torch.sigmoid(gate_logits) * normed).mean(-2)


def _add_injected(streams: Tensor, inject: Tensor, out: Tensor) -> Tensor:
    return streams + (2.0 * torch.sigmoid(inject)).unsqueeze(-1) * out.unsqueeze(-2)


def _add_and_norm(
    streams: Tensor, inject: Tensor, out: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    streams = _add_injected(streams, inject, out)
    return streams, _grouped_norm(streams, weight, eps)


class Fused:
    """The elementwise pieces; `compile_pieces` swaps them for compiled twins (same results)."""

    grouped_norm: Callable[[Tensor, Tensor, float], Tensor] = staticmethod(_grouped_norm)
    gate_and_sum: Callable[[Tensor, Tensor], Tensor] = staticmethod(_gate_and_sum)
    add_injected: Callable[[Tensor, Tensor, Tensor], Tensor] = staticmethod(_add_injected)
    add_and_norm: Callable[..., tuple[Tensor, Tensor]] = staticmethod(_add_and_norm)


class Streams:
    """The residual streams with the pending update of the last block.

    The update `S[s] += inj[s] * y` is kept back until the next mix so that adding and norming are
    one pass over memory.
    """

    def __init__(self, value: Tensor, params: Params, shape: TinyShape) -> None:
        """Starts from `value` (tokens, streams, hidden)."""
        self.value = value
        self.params = params
        self.shape = shape
        self.pending: tuple[Tensor, Tensor] | None = None

    def mix(self, prefix: str) -> Tensor:
        """Returns the block input x (tokens, hidden) of the mixer whose tensors start so."""
        shape, params = self.shape, self.params
        weight = params[f"{prefix}_norm.weight"]
        if self.pending is None:
            normed = Fused.grouped_norm(self.value, weight, shape.rms_eps)
        else:
            self.value, normed = Fused.add_and_norm(
                self.value, *self.pending, weight, shape.rms_eps
            )
            self.pending = None
        flat = normed.flatten(-2)  # (tokens, streams * hidden)
        down = params[f"{prefix}_down.weight"]
        has_inject = f"{prefix}_inject.weight" in params
        if has_inject:
            down = torch.cat((down, params[f"{prefix}_inject.weight"]))
        low = linear(flat, down) / shape.num_streams
        if has_inject:
            low, self._inject = low.split((low.shape[-1] - shape.num_streams, shape.num_streams), 1)
        gate = linear(F.silu(low), params[f"{prefix}_up.weight"]).view_as(normed)
        return Fused.gate_and_sum(normed, gate)

    def add(self, out: Tensor) -> None:
        """Adds a block's result (tokens, hidden) to every stream, weighted by its inject gate."""
        self.pending = (self._inject, out)

    def settle(self) -> Tensor:
        """Returns the streams with nothing pending."""
        if self.pending is not None:
            self.value = Fused.add_injected(self.value, *self.pending)
            self.pending = None
        return self.value


# --- linear attention (4.4) ---------------------------------------------------------------------


def _causal_conv(x: Tensor, taps: Tensor, dilation: int = 1) -> Tensor:
    """Depthwise causal convolution; x (batch, time, channels), taps (channels, K), newest last."""
    kernel = taps.shape[1]
    padded = F.pad(x, (0, 0, (kernel - 1) * dilation, 0))
    length = x.shape[1]
    total = x * taps[:, kernel - 1]
    for j in range(kernel - 1):
        total = total + padded[:, j * dilation : j * dilation + length] * taps[:, j]
    return total


def _l2(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, chunk: int = 64) -> Tensor:
    """Returns the gated delta rule's outputs in its chunked form.

    q, k (batch, heads, time, dk), already normed and scaled; v (batch, heads, time, dv);
    g, beta (batch, heads, time). Starts from an empty state.
    """
    length = q.shape[2]
    outs: list[Tensor] = []
    state: Tensor | None = None
    for start in range(0, length, chunk):
        qc, kc, vc, gc, bc = (t[:, :, start : start + chunk] for t in (q, k, v, g, beta))
        size = qc.shape[2]
        total = gc.cumsum(-1)  # (batch, heads, chunk)
        difference = total.unsqueeze(-1) - total.unsqueeze(-2)
        keep = torch.ones(size, size, dtype=torch.bool).tril()
        decay = difference.masked_fill(~keep, -torch.inf).exp()
        system = (bc.unsqueeze(-1) * (kc @ kc.mT) * decay).tril(-1) + torch.eye(size)
        rhs = bc.unsqueeze(-1) * vc
        grown = total.exp().unsqueeze(-1)
        if state is not None:
            # (I + A)(U - W M0) = diag(b) V - diag(b exp(G)) K M0: one solve instead of two.
            rhs = rhs - bc.unsqueeze(-1) * grown * (kc @ state)
        update = torch.linalg.solve_triangular(system, rhs, upper=False, unitriangular=True)
        out = ((qc @ kc.mT) * decay) @ update
        if state is not None:
            out = out + grown * (qc @ state)
        outs.append(out)
        if start + chunk < length:
            last = total[..., -1:]
            carried = ((last - total).exp().unsqueeze(-1) * kc).mT @ update
            state = carried if state is None else last.exp().unsqueeze(-1) * state + carried
    return torch.cat(outs, 2) if len(outs) > 1 else outs[0]


def _conv_to_heads(
    u: Tensor, taps: Tensor, num_k: int, num_v: int, dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns q, k, v with value head count each, (batch, heads, time, dim)."""
    batch, length, _ = u.shape
    c = F.silu(_causal_conv(u, taps))
    q, k, v = c.split((num_k * dim, num_k * dim, num_v * dim), -1)
    q = _l2(q.view(batch, length, num_k, dim)) * dim**-0.5
    k = _l2(k.view(batch, length, num_k, dim))
    v = v.view(batch, length, num_v, dim).transpose(1, 2).contiguous()
    # Value head v' reads key head v' % nk (the tiled order of the GGUF file).
    q = q.transpose(1, 2).repeat(1, num_v // num_k, 1, 1)
    k = k.transpose(1, 2).repeat(1, num_v // num_k, 1, 1)
    return q, k, v


def linear_attention(x: Tensor, params: Params, layer: int, shape: TinyShape) -> Tensor:
    """Returns the Gated DeltaNet block's result; x (batch, time, hidden)."""
    p = f"blk.{layer}."
    batch, length, _ = x.shape
    num_v, dim = shape.linear_v_heads, shape.linear_head_dim
    joined = torch.cat(
        [params[p + n] for n in ("attn_qkv.weight", "attn_gate.weight")]
        + [params[p + n] for n in ("ssm_alpha.weight", "ssm_beta.weight")]
    )
    parts = linear(x, joined).split((shape.conv_channels, num_v * dim, num_v, num_v), -1)
    u, z, alpha, beta = parts
    q, k, v = _conv_to_heads(u, params[p + "ssm_conv1d.weight"], shape.linear_k_heads, num_v, dim)
    g = params[p + "ssm_a"] * F.softplus(alpha + params[p + "ssm_dt.bias"])
    o = delta_rule(q, k, v, g.transpose(1, 2), torch.sigmoid(beta).transpose(1, 2))
    y = rms(o.transpose(1, 2), params[p + "ssm_norm.weight"], shape.rms_eps)
    y = y.reshape(batch, length, num_v * dim) * torch.sigmoid(z)
    return linear(y, params[p + "ssm_out.weight"])


# --- sparse attention (4.5) ---------------------------------------------------------------------


def rope_tables(length: int, shape: TinyShape) -> tuple[Tensor, Tensor]:
    """Returns cos and sin, (length, rope_dim / 2); text positions, so plain rope."""
    half = shape.rope_dim // 2
    # float64 here: at position 100,000 a float32 angle is off by a hundredth.
    frequency = shape.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(length, dtype=torch.float64).unsqueeze(-1) * frequency
    return angle.cos().float(), angle.sin().float()


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates the first dims of x (..., time, dim), pairs (d, d + rope_dim / 2)."""
    half = cos.shape[-1]
    a, b, rest = x.split((half, half, x.shape[-1] - 2 * half), -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


def block_scores(
    x: Tensor, params: Params, layer: int, shape: TinyShape, tables: tuple[Tensor, Tensor]
) -> Tensor:
    """Returns the indexer's score of every complete block, (batch, time, blocks).

    A block is scored also for queries that do not see it yet; the caller masks those.
    """
    p = f"blk.{layer}.indexer."
    batch, length, _ = x.shape
    ratio, dim = shape.block_ratio, shape.indexer_dim
    cos, sin = tables
    iq = linear(x, params[p + "q_proj.weight"]).view(batch, length, shape.indexer_heads, dim)
    iq = rms(iq, params[p + "q_norm.weight"], shape.rms_eps).transpose(1, 2)
    iq = rope(iq, cos, sin)  # (batch, index heads, time, dim)
    blocks = length // ratio
    ik = linear(x, params[p + "k_proj.weight"])[:, : blocks * ratio]
    pooled = ik.view(batch, blocks, ratio, dim).mean(2)
    kb = rms(pooled, params[p + "k_norm.weight"], shape.rms_eps)
    kb = rope(kb, cos[: blocks * ratio : ratio], sin[: blocks * ratio : ratio])
    return F.relu(iq @ kb.mT.unsqueeze(1)).sum(1) * dim**-0.5


def selection_mask(scores: Tensor, length: int, shape: TinyShape) -> Tensor:
    """Returns which tokens every query attends to, (batch, time, time) bool (section 4.5)."""
    ratio, blocks = shape.block_ratio, scores.shape[-1]
    query = torch.arange(length)
    complete = (query + 1) // ratio  # complete blocks that a query sees
    visible = torch.arange(blocks) < complete.unsqueeze(-1)
    masked = scores.masked_fill(~visible, -1.0)  # real scores are never negative
    budget = min(shape.indexer_top_k // ratio, blocks)
    chosen = torch.zeros_like(masked, dtype=torch.bool)
    chosen.scatter_(-1, masked.topk(budget, -1).indices, value=True)
    token_block = query // ratio
    padded = F.pad(chosen & visible, (0, int(token_block[-1]) + 1 - blocks))
    by_block = padded[..., token_block]  # (batch, time, time)
    is_tail = query >= (complete * ratio).unsqueeze(-1)
    return (by_block | is_tail) & (query <= query.unsqueeze(-1))


def project_heads(
    x: Tensor, params: Params, layer: int, shape: TinyShape, tables: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns q, k, v (batch, heads, time, head_dim) after norm and rope, and the output gate."""
    p = f"blk.{layer}."
    batch, length, _ = x.shape
    nh, nkv, hd = shape.num_heads, shape.num_kv_heads, shape.head_dim
    joined = torch.cat([params[p + f"attn_{n}.weight"] for n in "qkv"])
    qg, k, v = linear(x, joined).split((2 * nh * hd, nkv * hd, nkv * hd), -1)
    q, gate = qg.view(batch, length, nh, 2 * hd).split((hd, hd), -1)
    q = rope(rms(q, params[p + "attn_q_norm.weight"], shape.rms_eps).transpose(1, 2), *tables)
    k = k.view(batch, length, nkv, hd)
    k = rope(rms(k, params[p + "attn_k_norm.weight"], shape.rms_eps).transpose(1, 2), *tables)
    v = v.view(batch, length, nkv, hd).transpose(1, 2)
    groups = nh // nkv
    return q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1), gate


def sparse_attention(
    x: Tensor, params: Params, layer: int, shape: TinyShape, tables: tuple[Tensor, Tensor]
) -> Tensor:
    """Returns the attention block's result; x (batch, time, hidden).

    Up to the budget every block is selected and attention is simply causal.
    """
    batch, length, _ = x.shape
    q, k, v, gate = project_heads(x, params, layer, shape, tables)
    if length // shape.block_ratio <= shape.indexer_top_k // shape.block_ratio:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        mask = selection_mask(block_scores(x, params, layer, shape, tables), length, shape)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.unsqueeze(1))
    y = y.transpose(1, 2) * torch.sigmoid(gate)
    return linear(y.reshape(batch, length, -1), params[f"blk.{layer}.attn_output.weight"])


# --- mixture of experts (4.6) -------------------------------------------------------------------


class _FastExperts(torch.autograd.Function):
    """SwiGLU of every expert over its own rows; bfloat16 products."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        x: Tensor,
        gate_up: Tensor,
        down: Tensor,
        counts: list[int],
    ) -> Tensor:
        xb, wb, db = x.bfloat16(), gate_up.bfloat16(), down.bfloat16()
        hidden = torch.cat([xe @ w.T for xe, w in zip(xb.split(counts), wb, strict=True)]).float()
        gate, up = hidden.chunk(2, -1)
        ab = (F.silu(gate) * up).bfloat16()
        y = torch.cat([a @ w.T for a, w in zip(ab.split(counts), db, strict=True)]).float()
        ctx.save_for_backward(xb, wb, db, hidden, ab)
        ctx.counts = counts  # type: ignore[attr-defined]
        return y

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, None]:
        xb, wb, db, hidden, ab = ctx.saved_tensors  # type: ignore[attr-defined]
        counts = ctx.counts  # type: ignore[attr-defined]
        gs = grad.bfloat16().split(counts)
        d_act = torch.cat([g @ w for g, w in zip(gs, db, strict=True)]).float()
        d_down = torch.stack([g.T @ a for g, a in zip(gs, ab.split(counts), strict=True)]).float()
        gate, up = hidden.chunk(2, -1)
        sig = torch.sigmoid(gate)
        silu = gate * sig
        d_gate = d_act * up * (sig + silu * (1 - sig))
        hs = torch.cat((d_gate, d_act * silu), -1).bfloat16().split(counts)
        dx = torch.cat([h @ w for h, w in zip(hs, wb, strict=True)]).float()
        d_gate_up = torch.stack(
            [h.T @ xe for h, xe in zip(hs, xb.split(counts), strict=True)]
        ).float()
        return dx, d_gate_up, d_down, None


def _experts(x: Tensor, gate_up: Tensor, down: Tensor, counts: list[int]) -> Tensor:
    if Precision.fast:
        return _FastExperts.apply(x, gate_up, down, counts)
    outs = []
    for xe, wgu, wd in zip(x.split(counts), gate_up.unbind(), down.unbind(), strict=True):
        gate, up = (xe @ wgu.T).chunk(2, -1)
        outs.append((F.silu(gate) * up) @ wd.T)
    return torch.cat(outs)


def moe(x: Tensor, params: Params, layer: int, shape: TinyShape) -> tuple[Tensor, Tensor]:
    """Returns the experts' result and the balance loss; x (tokens, hidden)."""
    p = f"blk.{layer}."
    used, count = shape.num_experts_used, shape.num_experts
    # The router stays float32: a choice of experts must not hang on bfloat16 rounding.
    router = torch.cat(
        (params[p + "ffn_gate_inp.weight"], params[p + "ffn_gate_inp_shexp.weight"].unsqueeze(0))
    )
    logits = x @ router.T
    probabilities = F.softmax(logits[:, :count], -1)
    top, chosen = probabilities.topk(used, -1)  # (tokens, used)
    weight = top / top.sum(-1, keepdim=True)
    slots = chosen.flatten()
    order = slots.argsort()
    counts = torch.bincount(slots, minlength=count)
    gate_up = torch.cat((params[p + "ffn_gate_exps.weight"], params[p + "ffn_up_exps.weight"]), 1)
    rows = x[order // used]
    y = _experts(rows, gate_up, params[p + "ffn_down_exps.weight"], counts.tolist())
    y = y * weight.flatten()[order].unsqueeze(-1)
    # index_add over sorted rows; the inverse order makes it a plain gather and a sum.
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(order.shape[0])
    routed = y[inverse].view(x.shape[0], used, -1).sum(1)
    shared_in = torch.cat((params[p + "ffn_gate_shexp.weight"], params[p + "ffn_up_shexp.weight"]))
    gate, up = linear(x, shared_in).chunk(2, -1)
    shared = linear(F.silu(gate) * up, params[p + "ffn_down_shexp.weight"])
    balance = count * (counts / slots.shape[0] * probabilities.mean(0)).sum()
    return routed + torch.sigmoid(logits[:, count:]) * shared, balance


# --- n-gram layer (4.7, 5) ----------------------------------------------------------------------


def ple_rows(tokens: Tensor, ple: PleShape) -> Tensor:
    """Returns the table rows of every token, (batch, time, heads) int64 (section 5)."""
    context = tokens
    products = [tokens * ple.multipliers[0]]
    blocked = torch.zeros_like(tokens, dtype=torch.bool)
    for step in range(1, ple.ngram_size):
        context = F.pad(tokens, (step, 0), value=ple.segment_token_id)[:, : tokens.shape[1]]
        blocked = blocked | (context == ple.segment_token_id)
        context = context.masked_fill(blocked, ple.segment_token_id)
        products.append(context * ple.multipliers[step])
    rows = []
    mixed = products[0]
    for order in range(1, ple.ngram_size):
        mixed = mixed ^ products[order]
        heads = range((order - 1) * ple.heads_per_ngram, order * ple.heads_per_ngram)
        rows.extend(mixed % ple.head_sizes[h] + ple.head_offsets[h] for h in heads)
    return torch.stack(rows, -1)


def ple_update(
    streams: Tensor, rows: Tensor, params: Params, shape: TinyShape, ple: PleShape
) -> Tensor:
    """Returns the streams after the n-gram layer.

    streams (batch, time, streams, hidden); rows (batch, time, heads, width), read from the table.
    """
    p = f"blk.{ple.layer_idx}.ple_"
    batch, length, count, hidden = streams.shape
    joined = torch.cat((params[p + "key.weight"], params[p + "value.weight"]))
    key, value = linear(rows.flatten(-2), joined).split((count * hidden, hidden), -1)
    # Flat over batch and time, so that per-token work has one shape whatever the row length.
    key = key.reshape(-1, count, hidden)
    key = Fused.grouped_norm(key, params[p + "norm_key.weight"], shape.rms_eps)
    flat = streams.flatten(0, 1)
    query = Fused.grouped_norm(flat, params[p + "norm_query.weight"], shape.rms_eps)
    score = (key * query).sum(-1) * hidden**-0.5
    gate = torch.sigmoid(score.sign() * score.abs().clamp(min=1e-6).sqrt())
    gated = gate.unsqueeze(-1) * value.reshape(-1, 1, hidden)  # (tokens, streams, hidden)
    normed = Fused.grouped_norm(gated, params[p + "norm_conv.weight"], shape.rms_eps)
    normed = normed.view(batch, length, count * hidden)
    conv = F.silu(_causal_conv(normed, params[p + "conv1d.weight"], ple.ngram_size))
    return streams + gated.view_as(streams) + conv.view_as(streams)


def compile_pieces() -> None:
    """Swaps the elementwise pieces for compiled ones (needs a C++ compiler on this machine)."""
    torch._dynamo.config.recompile_limit = 64  # one shape for each row length
    Fused.grouped_norm = staticmethod(torch.compile(_grouped_norm, dynamic=False))
    Fused.gate_and_sum = staticmethod(torch.compile(_gate_and_sum, dynamic=False))
    Fused.add_injected = staticmethod(torch.compile(_add_injected, dynamic=False))
    Fused.add_and_norm = staticmethod(torch.compile(_add_and_norm, dynamic=False))
    globals()["_conv_to_heads"] = torch.compile(_conv_to_heads, dynamic=False)
