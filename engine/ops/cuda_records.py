"""Which rows lie on the card in 8-bit blocks already, because what made them wrote both.

At most one array at a time, the result of the last residual mix: its readers (the mixer's projections,
experts, shared expert, head) need not quantise it again. It is forgotten when the next operation on
streams comes, which every other writer of that array stands behind.
"""

from __future__ import annotations

from engine.device.array import DeviceArray


class KnownRecords:
    """The records of one array."""

    __slots__ = ("_key", "_records")

    def __init__(self) -> None:
        self._key: tuple[int, int, int] | None = None  # address, rows, columns
        self._records = 0

    def remember(self, x: DeviceArray, records: int) -> None:
        """The rows x `[R, n]` lie at the address `records`, too."""
        rows, columns = x.shape
        self._key = (x.address, rows, columns)
        self._records = records

    def forget(self) -> None:
        """The array may have other values from now on."""
        self._key = None

    def find(self, address: int | None, num_rows: int, columns: int) -> int | None:
        """Where the records of these rows lie; None when they must be made."""
        return self._records if (address, num_rows, columns) == self._key else None
