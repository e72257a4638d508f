"""A download in a process of its own, to be killed: `python kill_child.py CATALOG ENDPOINT DATA_DIR`."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.core.catalog_file import load_catalog
from installer.download.job import DownloadJob
from installer.download.options import DownloadOptions

if __name__ == "__main__":
    catalog, endpoint, data_dir = sys.argv[1:]
    options = DownloadOptions(Path(data_dir), endpoint=endpoint)
    DownloadJob(load_catalog(Path(catalog)), "m", options).run()
