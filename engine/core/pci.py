"""Places on the PCI bus, by which NVML's and CUDA's cards are told to be one."""

from __future__ import annotations


def pci_place(domain: int, bus: int, device: int) -> str:
    """A place on the PCI bus, such as `0000:01:00`."""
    return f"{domain:04x}:{bus:02x}:{device:02x}"
