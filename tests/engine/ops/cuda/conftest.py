"""A card with the kernels of the mixers, for the tests of one file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.device.emulated import EmulatedDevice
from tests.support.cuda_mixers import KERNEL_FILES


@pytest.fixture(scope="module")
def mixer_card() -> Iterator[EmulatedDevice]:
    """Late and in odd orders, as an emulated card is; memory that nobody set is NaN."""
    device = EmulatedDevice()
    device.load_kernels(KERNEL_FILES)
    yield device
    device.close()
