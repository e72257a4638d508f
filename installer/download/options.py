"""How a download is done: folders, endpoint, patience."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.keep_awake import KeepAwake, NoKeepAwake

DEFAULT_ENDPOINT = "https://huggingface.co"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to try again after a failure that may pass.

    Attributes:
        max_attempts: tries without a byte of progress before the download gives up.
        first_wait_s: before the second try; doubled each time.
        longest_wait_s: no wait of ours is longer.
        longest_retry_after_s: a server's `Retry-After` is honoured up to this.
        stall_s: without a byte for so long the connection is given up.
        connect_s: for a connection to come up.
    """

    max_attempts: int = 12
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    longest_retry_after_s: float = 600.0
    stall_s: float = 60.0
    connect_s: float = 20.0


@dataclass(frozen=True, slots=True)
class DownloadOptions:
    """What the person chose, and what tests change.

    Attributes:
        data_dir: models go to `models/ID` below it.
        endpoint: the hub or a mirror of it; None: `HF_ENDPOINT`, else the hub itself.
        token: for repositories that ask for an account; None: what the hub's own tools have stored.
        proxy: such as `http://user:password@proxy:8080`; None: the system's settings.
        search: folders in which the person has model files, looked through with their subfolders.
        with_draft_head: fetch or build the draft head (MTP) too.
        with_image_encoder: fetch the image encoder too.
        accept_unverified: when the hub cannot be asked for checksums, use the person's own files by
            their names; nothing is fetched then.
        max_bytes_per_s: rate limit at the start; None: none.
        retry: patience.
        keep_awake: keeps the PC from sleeping while `run` works.
        engine_command: how the engine's command line is started, for the draft head.
    """

    data_dir: Path
    endpoint: str | None = None
    token: str | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    search: tuple[Path, ...] = ()
    with_draft_head: bool = True
    with_image_encoder: bool = False
    accept_unverified: bool = False
    max_bytes_per_s: float | None = None
    retry: RetryPolicy = RetryPolicy()
    keep_awake: KeepAwake = field(default_factory=NoKeepAwake)
    engine_command: tuple[str, ...] | None = None

    def resolved_endpoint(self, environment: Mapping[str, str] = os.environ) -> str:
        """The address that is asked, without a slash at its end."""
        return (self.endpoint or environment.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")

    @property
    def models_dir(self) -> Path:
        """Where all models are."""
        return self.data_dir / "models"
