"""What is done before a worker may load: a program of the person's, and a look at free memory.

A household's graphics card has other users. The program can make them leave (stop a game, unload
another server); the check refuses to load while too little is free. Knows nothing of models.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
from pathlib import Path

from engine.core.config import RunConfig
from engine.core.errors import ConfigError, ResourceError
from engine.server.vram import free_vram_bytes

logger = logging.getLogger(__name__)

MIB = 1 << 20


async def before_load(config: RunConfig) -> None:
    """Run the configured program, then check for free graphics memory.

    Raises:
        ConfigError: the program cannot be run, fails or takes too long.
        ResourceError: less graphics memory is free than configured (`insufficient_vram`).
    """
    if config.before_load:
        await _run(config.before_load, config.before_load_timeout_s)
    if config.min_free_vram_mib:
        await _check_free(config)


async def _run(command: tuple[str, ...], timeout_s: float) -> None:
    # Only the name: arguments may hold what nobody else should read.
    name = Path(command[0]).name
    logger.info("before_load: running %s", name)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        raise _failed(name, f"cannot be started ({error.strerror or error})") from error
    try:
        async with asyncio.timeout(timeout_s):
            status = await process.wait()
    except TimeoutError as error:
        raise _failed(name, f"took longer than {timeout_s:g} seconds") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if status != 0:
        raise _failed(name, f"ended with exit status {status}")


def _failed(name: str, what: str) -> ConfigError:
    return ConfigError(
        f"The model was not loaded: the program {name} (setting before_load) {what}. "
        "Correct it, or leave the setting out.",
        code="before_load_failed",
        params={"program": name},
    )


async def _check_free(config: RunConfig) -> None:
    wanted_mib = config.min_free_vram_mib
    free = await asyncio.to_thread(free_vram_bytes, config.gpus)
    if free is None:
        logger.warning("min_free_vram_mib is not checked: no graphics card tells its free memory")
    elif free < wanted_mib * MIB:
        raise ResourceError(
            f"The graphics card has {free // MIB} MiB free; {wanted_mib} MiB are wanted "
            "(setting min_free_vram_mib). Close other programs that use it, or lower the setting.",
            code="insufficient_vram",
            params={"free_mib": free // MIB, "wanted_mib": wanted_mib},
        )
