"""The listening sockets."""

import asyncio
import contextlib
import socket

from engine.server.listen import bound_port, open_sockets


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
            assert await asyncio.wait_for(options.get(), 5)
        server.close()


def test_the_loopback_port_is_the_same_for_both_addresses():
    sockets = open_sockets("localhost", 0)
    assert len({bound_port(listener) for listener in sockets}) == 1
    for listener in sockets:
        listener.close()
