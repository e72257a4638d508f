"""How other devices reach this PC: its addresses, the firewall's command, a key, a QR code."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import sys

import psutil

from engine.core.config import RunConfig

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  # what the switch is about; only together with a key
THIS_PC = "127.0.0.1"

_KEY_BYTES = 24
_VIRTUAL = (
    "docker",
    "veth",
    "br-",
    "virbr",
    "vmnet",
    "vboxnet",
    "vethernet",
    "wsl",
    "tun",
    "tap",
    "zt",
)


def make_key() -> str:
    """A new key: 192 random bits, letters that survive every shell and URL."""
    return f"sk-stratum-{secrets.token_urlsafe(_KEY_BYTES)}"


def lan_addresses() -> list[str]:
    """This PC's addresses in its networks, those of real adapters first."""
    found: list[tuple[int, str]] = []
    states = psutil.net_if_stats()
    for name, addresses in psutil.net_if_addrs().items():
        state = states.get(name)
        if state is not None and not state.isup:
            continue
        is_virtual = name.lower().startswith(_VIRTUAL)
        found += [
            (int(is_virtual), entry.address)
            for entry in addresses
            if entry.family == socket.AF_INET and is_lan(entry.address)
        ]
    return [address for _rank, address in sorted(set(found))]


def is_lan(address: str) -> bool:
    """Whether other devices could reach an address: not this PC alone, not a stopgap."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_link_local or found.is_unspecified)


def urls(config: RunConfig, port: int | None = None) -> list[str]:
    """Base addresses at which other devices reach the engine, as it is configured."""
    port = port or config.port
    host = config.host.strip("[]")
    if host in (EVERY_ADDRESS, "::"):
        return [f"http://{address}:{port}" for address in lan_addresses()]
    if not is_lan(host):
        return []
    return [f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"]


def firewall_commands(port: int, system: str = sys.platform) -> list[str]:
    """Commands that let other devices through the firewall, most usual first."""
    if system == "win32":
        return [
            'netsh advfirewall firewall add rule name="Stratum" dir=in action=allow '
            f"protocol=TCP localport={port} profile=private"
        ]
    return [
        f"sudo ufw allow {port}/tcp",
        f"sudo firewall-cmd --add-port={port}/tcp --permanent && sudo firewall-cmd --reload",
    ]


def qr_rows(text: str) -> list[list[bool]]:
    """The modules of a QR code, row by row; True is dark. Has the quiet zone around it."""
    import segno  # noqa: PLC0415  # only when a code is shown

    code = segno.make(text, error="m", micro=False)
    return [[bool(module) for module in row] for row in code.matrix_iter(border=4)]
