"""The listening sockets."""

import asyncio
import contextlib
import errno
import socket

import pytest

from engine.server.listen import bound_port, open_sockets, outward_address


async def test_connections_send_small_pieces_at_once():
    options = asyncio.Queue()

    async def note(_reader, writer):
        accepted = writer.get_extra_info("socket")
        await options.put(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    for listener in open_sockets("127.0.0.1", 0):
        server = await asyncio.start_server(note, sock=listener)
        address = listener.getsockname()[0]
        _reader, writer = await asyncio.open_connection(address, bound_port(listener))
        with contextlib.closing(writer):
            assert await asyncio.wait_for(options.get(), 60)
        server.close()


def test_the_loopback_port_is_the_same_for_both_addresses():
    sockets = open_sockets("localhost", 0)
    assert len({bound_port(listener) for listener in sockets}) == 1
    for listener in sockets:
        listener.close()


def test_the_outward_address_is_one_that_this_machine_can_listen_on():
    address = outward_address()
    if address is None:
        pytest.skip("this machine has no network")
    with socket.create_server((address, 0)):
        pass


def test_without_a_network_there_is_no_outward_address(monkeypatch):
    def unreachable(_self, _address):
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    assert outward_address() is None
