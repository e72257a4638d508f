"""The CUDA kernels of streams, DeltaNet, attention and the n-gram layer behind the contract of numpy arrays.

For the checks of engine/ops/check_*.py: every call uploads what it reads and downloads what it may
write. Outputs start as memory that nobody has set.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from engine.device.array import DeviceArray
from engine.device.base import Device
from engine.gguf.reader import Tensor
from engine.ops.base import FloatArray, IntArray, Limits
from engine.ops.cuda_attention import CudaAttention, FarAddresses
from engine.ops.cuda_delta import CudaDelta
from engine.ops.cuda_launch import Launcher
from engine.ops.cuda_matrix import CudaMatrix
from engine.ops.cuda_ple import CudaPle
from engine.ops.cuda_products import CudaProducts
from engine.ops.cuda_streams import CudaStreams
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool, KvPool, PlePool
from engine.ops.reference import ReferenceOps
from engine.ops.weights import (
    AttentionWeights,
    DeltaWeights,
    HyperConnectionWeights,
    Matrix,
    PleWeights,
)

KERNEL_FILES = (
    *("streams", "delta", "attention_prepare", "attention_select", "attention_join"),
    *("attention_f32", "attention_f16", "attention_i8"),
    *("ple", "ranges", "sampling", "hc_up_quantised", "hc_up_floats", "quantise"),
    *("products_f32", "products_f16", "products_bf16", "products_q8_0"),
)


class MixerOps(ReferenceOps):
    """The reference, with these operations on a card."""

    name = "cuda mixers"

    def __init__(self, limits: Limits, device: Device) -> None:
        super().__init__(limits)
        self.launcher = Launcher(device)
        self.streams = CudaStreams(self.launcher, CudaProducts(self.launcher))
        self.delta = CudaDelta(self.launcher)
        self.attending = CudaAttention(self.launcher)
        self.ple = CudaPle(self.launcher)
        self.num_near: int | None = None  # pages that lie on the card, when not all do

    def up(self, array: np.ndarray) -> DeviceArray:
        """The array on the card, behind other values: a base that is no allocation's."""
        wide = self.launcher.space.empty((array.size + 64,), array.dtype)
        part = wide[64:].reshape(*array.shape)
        part[...] = array
        return part

    def empty(self, array: np.ndarray) -> DeviceArray:
        """Room for the array on the card, not set."""
        return self.launcher.space.empty(array.shape, array.dtype)

    def uploaded(self, group: object) -> object:
        """A dataclass with its arrays on the card."""
        fields = {
            f.name: self.up(value)
            for f in dataclasses.fields(group)
            if isinstance(value := getattr(group, f.name), np.ndarray)
        }
        return dataclasses.replace(group, **fields)

    @staticmethod
    def download(group: object, device_group: object) -> None:
        """Back into the arrays that were uploaded."""
        for f in dataclasses.fields(group):
            value = getattr(group, f.name)
            if isinstance(value, np.ndarray):
                value[...] = getattr(device_group, f.name).numpy()

    def matrix(self, tensor: Tensor) -> Matrix:
        return CudaMatrix(tensor, self.launcher.space)

    # -- streams -----------------------------------------------------------------------------------

    def fill_streams(self, x: FloatArray, streams: FloatArray) -> None:
        to = self.empty(streams)
        self.streams.fill_streams(self.up(x), to)
        streams[...] = to.numpy()

    def add_to_streams(self, x: FloatArray, streams: FloatArray) -> None:
        to = self.up(streams)
        self.streams.add_to_streams(self.up(x), to)
        streams[...] = to.numpy()

    def rms_norm(self, x: FloatArray, weight: FloatArray, eps: float, out: FloatArray) -> None:
        to = self.empty(out)
        self.streams.rms_norm(self.up(x), self.up(weight), eps, to)
        out[...] = to.numpy()

    def hc_mix(
        self,
        weights: HyperConnectionWeights,
        streams: FloatArray,
        x: FloatArray,
        inject: FloatArray | None,
    ) -> None:
        to, to_inject = self.empty(x), None if inject is None else self.empty(inject)
        self.streams.hc_mix(self.uploaded(weights), self.up(streams), to, to_inject)
        x[...] = to.numpy()
        if inject is not None:
            inject[...] = to_inject.numpy()

    def hc_combine(self, streams: FloatArray, inject: FloatArray, y: FloatArray) -> None:
        to = self.up(streams)
        self.streams.hc_combine(to, self.up(inject), self.up(y))
        streams[...] = to.numpy()

    # -- Gated DeltaNet ----------------------------------------------------------------------------

    def delta_mix(
        self,
        weights: DeltaWeights,
        pool: DeltaPool,
        plan: PassPlan,
        qkv: FloatArray,
        z: FloatArray,
        alpha: FloatArray,
        beta: FloatArray,
        out: FloatArray,
    ) -> None:
        device_pool, to = self.uploaded(pool), self.empty(out)
        self.delta.delta_mix(
            self.uploaded(weights),
            device_pool,
            self.uploaded(plan),
            *(self.up(qkv), self.up(z), self.up(alpha), self.up(beta), to),
        )
        out[...] = to.numpy()
        self.download(pool, device_pool)

    def delta_commit(
        self, weights: DeltaWeights, pool: DeltaPool, slot: int, half: int, num_tokens: int
    ) -> None:
        device_pool = self.uploaded(pool)
        self.delta.delta_commit(weights, device_pool, slot, half, num_tokens)
        self.download(pool, device_pool)

    # -- sparse attention --------------------------------------------------------------------------

    def _pages(self, pool: KvPool) -> tuple[KvPool, FarAddresses | None]:
        whole = self.uploaded(pool)
        if self.num_near is None:
            return whole, None
        parts = ("keys", "values", "index_raw", "key_scales", "value_scales")
        cut = {name: getattr(whole, name) for name in parts if getattr(pool, name) is not None}
        far = FarAddresses(
            self.num_near, **{name: array[self.num_near :].address for name, array in cut.items()}
        )
        near = {name: array[: self.num_near].copy() for name, array in cut.items()}
        for array in cut.values():  # what is far is not looked for near
            array[: self.num_near] = np.full(array[: self.num_near].shape, 77, array.dtype)
        self._whole = whole
        return dataclasses.replace(whole, **near), far

    def _download_pages(self, pool: KvPool, device_pool: KvPool) -> None:
        if self.num_near is not None:
            for name in ("keys", "values", "index_raw", "key_scales", "value_scales"):
                if getattr(pool, name) is not None:
                    getattr(self._whole, name)[: self.num_near] = getattr(device_pool, name)
            device_pool = self._whole
        self.download(pool, device_pool)

    def attention_append(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        k: FloatArray,
        v: FloatArray,
        index_k: FloatArray,
    ) -> None:
        device_pool, far = self._pages(pool)
        self.attending.attention_append(
            self.uploaded(weights),
            device_pool,
            self.uploaded(plan),
            *(self.up(k), self.up(v), self.up(index_k), far),
        )
        self._download_pages(pool, device_pool)

    def attention(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        q: FloatArray,
        index_q: FloatArray,
        out: FloatArray,
        selected: IntArray | None = None,
    ) -> None:
        device_pool, far = self._pages(pool)
        to, chosen = self.empty(out), None if selected is None else self.empty(selected)
        self.attending.attention(
            self.uploaded(weights),
            device_pool,
            self.uploaded(plan),
            *(self.up(q), self.up(index_q), to, chosen, far),
        )
        out[...] = to.numpy()
        if selected is not None:
            selected[...] = chosen.numpy()

    # -- n-gram layer ------------------------------------------------------------------------------

    def ple_mix(
        self,
        weights: PleWeights,
        pool: PlePool,
        plan: PassPlan,
        key: FloatArray,
        value: FloatArray,
        streams: FloatArray,
    ) -> None:
        device_pool, to = self.uploaded(pool), self.up(streams)
        self.ple.ple_mix(
            self.uploaded(weights),
            device_pool,
            self.uploaded(plan),
            *(self.up(key), self.up(value), to),
        )
        streams[...] = to.numpy()
        self.download(pool, device_pool)

    def ple_commit(
        self, weights: PleWeights, pool: PlePool, slot: int, half: int, num_tokens: int
    ) -> None:
        device_pool = self.uploaded(pool)
        self.ple.ple_commit(self.uploaded(weights), device_pool, slot, half, num_tokens)
        self.download(pool, device_pool)
