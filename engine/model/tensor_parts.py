"""Parts of stored tensors as tensors of their own, and tensors in another format.

Parts are not decoded where the blocks allow it. Row ranges of a 2-D tensor are views. Row ranges of stacked experts and column ranges are copies:
they happen once, at load, and only for files that store two matrices as one.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from engine.core.ggml_types import GgmlType, row_bytes
from engine.core.requant import REQUANT_TYPE
from engine.gguf.blocks import dequantise
from engine.gguf.quantise import quantise
from engine.gguf.reader import Tensor

# Values converted at a time: temporaries stay in the cache, and threads share a matrix.
_VALUES_PER_STEP = 1 << 18
_MOST_THREADS = 8


def row_range(tensor: Tensor, start: int, stop: int) -> Tensor:
    """Rows start..stop-1 of a 2-D tensor, or of each matrix of a 3-D one."""
    if len(tensor.shape) == 2:
        data = tensor.data[start * tensor.row_bytes : stop * tensor.row_bytes]
        return Tensor(tensor.name, tensor.type, (stop - start, tensor.shape[1]), data)
    count, rows, columns = tensor.shape
    parts = tensor.data.reshape(count, rows, tensor.row_bytes)[:, start:stop]
    data = np.ascontiguousarray(parts).reshape(-1)
    return Tensor(tensor.name, tensor.type, (count, stop - start, columns), data)


def row_selection(tensor: Tensor, rows: npt.NDArray[np.int64]) -> Tensor:
    """Some rows of a 2-D tensor, in this order; a copy."""
    data = tensor.data.reshape(tensor.shape[0], tensor.row_bytes)[rows]
    return Tensor(tensor.name, tensor.type, (len(rows), tensor.shape[1]), data.reshape(-1))


def column_range(tensor: Tensor, start: int, stop: int) -> Tensor:
    """Columns start..stop-1 of a 2-D tensor; decoded to float32 where a block would be cut."""
    rows = tensor.shape[0]
    shape = (rows, stop - start)
    block = tensor.type.block_values
    if start % block or stop % block:
        values = np.ascontiguousarray(tensor.dequantise()[:, start:stop])
        return Tensor(tensor.name, GgmlType.F32, shape, values.reshape(-1).view(np.uint8))
    first, last = start // block * tensor.type.block_bytes, stop // block * tensor.type.block_bytes
    parts = tensor.data.reshape(rows, tensor.row_bytes)[:, first:last]
    return Tensor(tensor.name, tensor.type, shape, np.ascontiguousarray(parts).reshape(-1))


def requantised(tensor: Tensor) -> Tensor:
    """The values of a 2-D tensor in the format of the setting `requant`, in memory of its own."""
    rows, columns = tensor.shape
    source = tensor.data.reshape(rows, tensor.row_bytes)
    result = np.empty((rows, row_bytes(REQUANT_TYPE, columns)), np.uint8)
    step = max(1, _VALUES_PER_STEP // columns)

    def convert(start: int) -> None:
        part = source[start : start + step]
        values = dequantise(part, tensor.type, (len(part), columns))
        result[start : start + step] = quantise(values, REQUANT_TYPE)

    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS)) as pool:
        for _ in pool.map(convert, range(0, rows, step)):
            pass  # an error of a thread is raised here
    return Tensor(tensor.name, REQUANT_TYPE, tensor.shape, result.reshape(-1))
