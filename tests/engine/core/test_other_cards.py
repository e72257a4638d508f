from __future__ import annotations

from pathlib import Path

from engine.core.other_cards import (
    ListedCard,
    Maker,
    linux_cards,
    list_cards,
    parse_lspci,
    windows_card,
)

LSPCI = '0000:0a:00.0 "VGA compatible controller" "Advanced Micro Devices, Inc." "Navi 31" -rc8 "A" "B"\n'


def make_device(
    folder: Path, address: str, kind: str, vendor: str, driver: str | None = None
) -> None:
    device = folder / "devices" / address
    device.mkdir(parents=True)
    for name, text in (("class", kind), ("vendor", vendor), ("device", "0x744c")):
        (device / name).write_text(text + "\n", encoding="ascii")
    if driver is not None:
        target = folder / "drivers" / driver
        target.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(target)


def test_graphics_cards_are_found_among_the_devices(tmp_path: Path) -> None:
    make_device(tmp_path, "0000:00:02.0", "0x030000", "0x8086", "i915")
    make_device(tmp_path, "0000:01:00.0", "0x030200", "0x10de")
    make_device(tmp_path, "0000:02:00.0", "0x010802", "0x1002")  # a drive's controller
    make_device(tmp_path, "0000:0a:00.0", "0x030000", "0x1002", "amdgpu")
    found = linux_cards(tmp_path / "devices", parse_lspci(LSPCI))
    assert found == (
        ListedCard(Maker.INTEL, "Intel graphics (8086:744c)", "i915"),
        ListedCard(Maker.NVIDIA, "NVIDIA graphics (10de:744c)"),
        ListedCard(Maker.AMD, "Advanced Micro Devices, Inc. Navi 31", "amdgpu"),
    )


def test_a_system_without_a_pci_bus_has_no_cards(tmp_path: Path) -> None:
    assert linux_cards(tmp_path / "nothing", {}) == ()


def test_a_device_that_says_nonsense_is_of_another_maker(tmp_path: Path) -> None:
    make_device(tmp_path, "0000:00:01.0", "0x030000", "what")
    assert linux_cards(tmp_path / "devices", {})[0].maker is Maker.OTHER


def test_the_registry_of_windows_names_a_card() -> None:
    values = {
        "DriverDesc": "AMD Radeon RX 7900 XTX",
        "MatchingDeviceId": r"PCI\VEN_1002&DEV_744C",
        "DriverVersion": "31.0.1",
    }
    assert windows_card(values) == ListedCard(Maker.AMD, "AMD Radeon RX 7900 XTX", "31.0.1")
    assert windows_card(values | {"MatchingDeviceId": r"root\basicdisplay"}) is None
    assert windows_card({"DriverDesc": 3}) is None


def test_lines_of_lspci_that_are_none_are_left_out() -> None:
    assert parse_lspci('nonsense\n0000:00:00.0 "Host bridge"\n') == {}


def test_this_machine_can_be_asked() -> None:
    assert all(card.name for card in list_cards())
