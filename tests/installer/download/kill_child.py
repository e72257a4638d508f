"""A download in a process of its own, to be killed: `python kill_child.py CATALOG ENDPOINT DATA_DIR`."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from engine.core.catalog_file import load_catalog
from installer.download.job import DownloadJob
from installer.download.options import DownloadOptions

connect = socket.create_connection


def connect_with_a_small_buffer(*arguments, **keywords) -> socket.socket:
    """What the system holds for a killed process is lost, however the program is made."""
    connection = connect(*arguments, **keywords)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    return connection


if __name__ == "__main__":
    socket.create_connection = connect_with_a_small_buffer
    catalog, endpoint, data_dir = sys.argv[1:]
    options = DownloadOptions(Path(data_dir), endpoint=endpoint)
    DownloadJob(load_catalog(Path(catalog)), "m", options).run()
