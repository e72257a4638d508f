"""Weight matrices of the CUDA operations: on the card, on the host, or both.

Matrices of one layer lie on the card as they lie in the file. Stacked experts and tables stay on the
host, where the CPU computes with them or copies of single experts are made from; so every matrix also
has a handle of the host operations, which costs nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.core.ggml_types import GgmlType
from engine.device.array import ArraySpace, DeviceArray
from engine.gguf.reader import Tensor
from engine.ops.host_structs import HostMatrix, HostRowTable
from engine.ops.weights import Matrix

ByteArray = npt.NDArray[np.uint8]


class CudaMatrix:
    """A `Matrix` of engine/ops/weights.py.

    Attributes:
        name: of its tensor.
        rows: output size.
        columns: input size.
        count: how many are stacked.
        type: block format.
        host: the same in the file's own memory, for the host operations.
        data: `[bytes]` uint8 on the card; None for stacked experts and tables.
        prepared: what the launch modules derive from it.
    """

    __slots__ = (
        *("_bytes", "columns", "count", "data", "host"),
        *("name", "prepared", "rows", "type"),
    )

    def __init__(self, tensor: Tensor, space: ArraySpace | None) -> None:
        """Describe a 2-D or 3-D tensor; its bytes are copied to `space`, None leaves them.

        Raises:
            DeviceMemoryError: there is no room for them.
        """
        self.name = tensor.name
        self.host = HostMatrix(tensor)
        self.rows, self.columns = self.host.rows, self.host.columns
        self.count = self.host.count
        self.type: GgmlType = tensor.type
        self._bytes = np.ascontiguousarray(tensor.data).reshape(-1)
        self.data: DeviceArray | None = None
        self.prepared: object | None = None
        if space is not None:
            self.data = space.upload(self._bytes)

    @property
    def address(self) -> int:
        """Where it lies on the card.

        Raises:
            TypeError: it does not.
        """
        if self.data is None:
            raise TypeError(f"{self.name} does not lie on the card")
        return self.data.address

    @property
    def stacked_bytes(self) -> ByteArray:
        """Its bytes on the host, `[count, bytes of one]`."""
        return self._bytes.reshape(self.count, -1)


class CudaRowTable:
    """A table whose rows the host's operations read from the disk: a `Matrix` for gathering alone.

    Attributes:
        host: handle of the host operations.
    """

    __slots__ = ("columns", "count", "host", "rows", "type")

    def __init__(self, host: HostRowTable) -> None:
        """Describe what the host reads."""
        self.host = host
        self.rows, self.columns, self.count, self.type = host.rows, host.columns, 1, host.type


def host_table(matrix: Matrix) -> HostMatrix | HostRowTable:
    """A table as the host's operations know it.

    Raises:
        TypeError: it was made by others.
    """
    return matrix.host if isinstance(matrix, CudaRowTable) else cuda_matrix(matrix).host


def cuda_matrix(matrix: Matrix) -> CudaMatrix:
    """The same, known to be of these operations.

    Raises:
        TypeError: it was made by others.
    """
    if not isinstance(matrix, CudaMatrix):
        raise TypeError("the matrix was made by another implementation of the operations")
    return matrix
