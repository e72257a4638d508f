"""The port: taken before anything is loaded, and named when somebody else has it."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys

from engine.core.errors import InputError

BACKLOG = 256
IPV4_LOOPBACK = "127.0.0.1"
IPV6_LOOPBACK = "::1"
PORT_IN_USE = "port_in_use"
IN_USE = frozenset({errno.EADDRINUSE, errno.EACCES, getattr(errno, "WSAEADDRINUSE", 0)})
# Addresses of documentation, which nobody has: only the way to them is asked for.
FAR_AWAY = {socket.AF_INET: "203.0.113.1", socket.AF_INET6: "2001:db8::1"}


def open_sockets(host: str, port: int, *, owner: str | None = None) -> list[socket.socket]:
    """Listening sockets; for 127.0.0.1 also one on ::1 where the machine has it.

    Args:
        host: address or name.
        port: 0 takes any free one.
        owner: who has the port if it is taken, when that is known, for the sentence.

    Raises:
        InputError: the port is in use, or the address is none of this machine's.
    """
    name = IPV4_LOOPBACK if host.lower() == "localhost" else host.strip("[]")
    try:
        info = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        first = _listen(info[0], info[4][0], port)
    except OSError as error:
        raise _unusable(host, port, error, owner) from error
    if name != IPV4_LOOPBACK or not socket.has_ipv6:
        return [first]
    # Many programs resolve localhost to ::1 first, and would reach whoever listens there.
    try:
        return [first, _listen(socket.AF_INET6, IPV6_LOOPBACK, bound_port(first))]
    except OSError as error:
        if error.errno not in IN_USE:  # no IPv6 here
            return [first]
        first.close()
        if port == 0:
            return open_sockets(host, port)  # any other port will do
        raise _unusable(IPV6_LOOPBACK, port, error, owner) from error


def bound_port(listener: socket.socket) -> int:
    """The port that a socket really has."""
    return int(listener.getsockname()[1])


def outward_address(family: socket.AddressFamily = socket.AF_INET) -> str | None:
    """The address of this machine that others in its network see; None without a network."""
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((FAR_AWAY[family], 9))  # chooses a way and sends nothing
        return str(probe.getsockname()[0])
    return None


def _listen(family: int, host: str | int, port: int) -> socket.socket:
    # With the protocol named asyncio sets TCP_NODELAY on its connections; without, every answer
    # waits 40 ms for the client's delayed acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":
            # On Windows SO_REUSEADDR would let two servers have the same port.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _unusable(host: str, port: int, error: OSError, owner: str | None) -> InputError:
    if error.errno in IN_USE:
        who = owner or "another program"
        return InputError(
            f"Port {port} on {host} is in use by {who}. Stop it, or choose another port with "
            f"--port {suggested_port(port)} (0 takes any free one).",
            code=PORT_IN_USE,
            params={"port": port, "host": host, "owner": who},
        )
    return InputError(
        f"The server cannot listen on {host}: {error.strerror or error}. Set host to an address "
        "of this machine, such as 127.0.0.1.",
        code="host_not_usable",
        params={"host": host},
    )


def suggested_port(port: int) -> int:
    """Another port to offer."""
    return port + 1 if port < 65535 else port - 1
