"""A real server whose model lies on a disk that returns errors (EIO) for the last layer's experts.

The disk is an image behind a loop device whose backing file is cut; what lay behind the cut cannot be read.
"""

import os
import re
import shutil
import subprocess
import sys

import psutil
import pytest

from engine.core.config import BUNDLED_MODEL
from engine.kernels.library import CPU_VARIABLE
from tests.support.experts_last import write_with_experts_last

TOOLS = ("mkfs.ext4", "mount", "umount", "filefrag")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux")
        or os.geteuid() != 0
        or not all(shutil.which(tool) for tool in TOOLS),
        reason="needs root and the tools that make and mount a file system",
    ),
]
BLOCK = 4096
IMAGE_BYTES = 64 << 20


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def disk(tmp_path):
    """A mounted file system with the model; (model, image, place in the image of the last experts)."""
    image, folder = tmp_path / "disk.img", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    run("mkfs.ext4", "-q", "-b", str(BLOCK), str(image))
    try:
        run("mount", "-o", "loop", str(image), str(folder))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"nothing can be mounted here: {error.stderr.strip()}")
    try:
        model = folder / "model.gguf"
        cut = write_with_experts_last(BUNDLED_MODEL, model)
        os.sync()
        extents = run("filefrag", "-v", "-b4096", str(model))
        run("umount", str(folder))
        run("mount", "-o", "loop,ro", str(image), str(folder))
        yield model, image, place_in_image(extents, cut)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def place_in_image(extents, offset):
    """Where a byte of the file lies, by `filefrag -v`; everything behind it lies further back."""
    found = []
    for line in extents.splitlines():
        match = re.match(r"\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\.", line)
        if match:
            found.append(tuple(int(group) for group in match.groups()))
    block = -(-offset // BLOCK)
    behind = [physical + max(block - first, 0) for first, last, physical in found if last >= block]
    before = [
        physical + min(last, block - 1) - first for first, last, physical in found if first < block
    ]
    if not behind or max(before) >= min(behind):
        pytest.skip("the file system scattered the file")
    return min(behind) * BLOCK


def test_read_errors_cost_their_request_an_error_and_the_engine_lives(
    start_server, disk, monkeypatch
):
    # With AVX-512 so small a model's experts are held a second time, and read while loading.
    monkeypatch.setenv(CPU_VARIABLE, "avx2")
    model, image, place = disk
    content = image.read_bytes()
    # Loading touches no expert: what it has read ahead is in the cache, and can be dropped from there.
    server = start_server(
        None, "--model", str(model), "--context", "512", "--expert-look-ahead", "on"
    )
    (worker,) = psutil.Process(server.process.pid).children()
    os.truncate(image, place)
    with model.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(-BLOCK, os.SEEK_END)
        with pytest.raises(OSError, match="Input/output error"):
            file.read(1)
    reply = server.chat("hello", max_tokens=8)
    assert reply.status_code >= 500
    assert "model.gguf cannot be read any more" in reply.json()["error"]["message"]
    with image.open("r+b") as file:
        file.seek(place)
        file.write(content[place:])
    after = server.chat("hello", max_tokens=8, temperature=0)
    assert after.status_code == 200, after.text
    assert [child.pid for child in psutil.Process(server.process.pid).children()] == [worker.pid]
    server.process.terminate()
    server.process.wait(20)
    sound = start_server(None, "--context", "512")
    expected = sound.chat("hello", max_tokens=8, temperature=0).json()["choices"]
    assert after.json()["choices"] == expected
