"""Graphics cards of all makers, from the system's own lists.

NVIDIA's driver knows only its own cards. This names the others, so that a person reads that they are
not used instead of wondering; and an NVIDIA card here that the driver does not show is one without a
working driver.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.core.programs import output_of

_PCI_DEVICES = Path("/sys/bus/pci/devices")
_DISPLAY_CLASSES = ("0x0300", "0x0302", "0x0380")  # VGA, 3D, other display controllers
_WINDOWS_CARDS = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"


class Maker(enum.StrEnum):
    """Who made a card."""

    NVIDIA = "NVIDIA"
    AMD = "AMD"
    INTEL = "Intel"
    OTHER = "other"


_MAKERS = {0x10DE: Maker.NVIDIA, 0x1002: Maker.AMD, 0x1022: Maker.AMD, 0x8086: Maker.INTEL}


@dataclass(frozen=True, slots=True)
class ListedCard:
    """A card as the system lists it.

    Attributes:
        maker: who made it.
        name: the system's name for it.
        driver: of the system; empty without one or when unknown.
    """

    maker: Maker
    name: str
    driver: str = ""


def list_cards(timeout_s: float = 3.0) -> tuple[ListedCard, ...]:
    """All graphics cards that the system knows of; empty when it does not say."""
    if sys.platform == "win32":
        return _windows_cards()
    return linux_cards(_PCI_DEVICES, _lspci_names(timeout_s))


def linux_cards(devices: Path, names: Mapping[str, str]) -> tuple[ListedCard, ...]:
    """The cards in a folder such as `/sys/bus/pci/devices`.

    Args:
        devices: the folder.
        names: address on the bus (`0000:01:00.0`) -> name.
    """
    cards: list[ListedCard] = []
    try:
        folders = sorted(devices.iterdir())
    except OSError:
        return ()
    for folder in folders:
        if not _text(folder / "class").startswith(_DISPLAY_CLASSES):
            continue
        vendor, device = _text(folder / "vendor"), _text(folder / "device")
        maker = _maker(vendor)
        try:
            driver = (folder / "driver").resolve(strict=True).name
        except OSError:
            driver = ""
        fallback = f"{maker.value} graphics ({vendor[2:]}:{device[2:]})"
        cards.append(ListedCard(maker, names.get(folder.name, fallback), driver))
    return tuple(cards)


def parse_lspci(text: str) -> dict[str, str]:
    r"""Address -> name, of the lines of `lspci -D -mm`.

    >>> parse_lspci('0000:03:00.0 "VGA compatible controller" "AMD" "Navi 31" -rc8 "X" "Y"\n')
    {'0000:03:00.0': 'AMD Navi 31'}
    """
    names: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split('"')
        if len(parts) >= 7:
            names[parts[0].strip()] = f"{parts[3]} {parts[5]}"
    return names


def windows_card(values: Mapping[str, object]) -> ListedCard | None:
    """The card in the values of one key of the registry's class of display adapters."""
    name = values.get("DriverDesc")
    identity = values.get("MatchingDeviceId")
    if not isinstance(name, str) or not isinstance(identity, str):
        return None
    lower = identity.lower()
    if not lower.startswith("pci\\ven_"):
        return None  # remote desktops and virtual screens
    version = values.get("DriverVersion")
    driver = version if isinstance(version, str) else ""
    return ListedCard(_maker("0x" + lower[8:12]), name, driver)


def _windows_cards() -> tuple[ListedCard, ...]:
    cards: list[ListedCard] = []
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415  # exists on Windows only

        for number in range(64):
            try:
                path = rf"{_WINDOWS_CARDS}\{number:04d}"
                with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
                    values = {}
                    for name in ("DriverDesc", "MatchingDeviceId", "DriverVersion"):
                        values[name] = winreg.QueryValueEx(key, name)[0]
            except OSError:
                continue
            card = windows_card(values)
            if card is not None:
                cards.append(card)
    return tuple(cards)


def _lspci_names(timeout_s: float) -> dict[str, str]:
    return parse_lspci(output_of(["lspci", "-D", "-mm"], timeout_s))


def _maker(vendor: str) -> Maker:
    try:
        return _MAKERS.get(int(vendor, 16), Maker.OTHER)
    except ValueError:
        return Maker.OTHER


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
