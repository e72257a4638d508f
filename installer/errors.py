"""What can go wrong while installing, in sentences for the person.

Each error has a stable code and parameters, so that the wizard can say it in the person's language.
Subclasses are what a caller treats differently; the code tells the exact cause.
"""

from __future__ import annotations

from engine.core.errors import EngineError

# Every code of a download's errors -> names of the parameters that a sentence in another language may
# use. There may be more parameters, for supporters.
DOWNLOAD_ERROR_CODES: dict[str, tuple[str, ...]] = {
    "checkpoint_damaged": ("file", "reason"),
    "checksum": ("file", "host"),
    "clock_wrong": ("host",),
    "connection_lost": ("host",),
    "disk_failed": ("path", "reason"),
    "disk_full": ("path",),
    "disk_short": ("path", "free_bytes", "needed_bytes", "missing_bytes"),
    "download_busy": ("pid", "path"),
    "download_cancelled": (),
    "download_stopped": (),
    "draft_head_failed": ("file", "reason"),
    "drive_gone": ("path",),
    "endpoint_unusable": ("endpoint",),
    "file_held": ("path",),
    "file_too_large_for_drive": ("path",),
    "folder_read_only": ("path", "reason"),
    "gated": ("host",),
    "hub_answer": ("host",),
    "hub_busy": ("host",),
    "hub_down": ("host",),
    "hub_file_changed": ("file", "host"),
    "hub_file_missing": ("file", "host"),
    "login_page": ("file",),
    "mirror_ignores_range": ("file", "host"),
    "no_network": ("host",),
    "proxy_login": ("host",),
    "proxy_unreachable": ("host",),
    "proxy_unusable": (),
    "repository_missing": ("host", "repository"),
    "revision_missing": ("host", "repository", "revision"),
    "stalled": ("host",),
    "tls_intercepted": ("host",),
    "token_refused": ("host", "repository"),
}


class InstallError(EngineError):
    """Base of all errors of the installer."""

    code = "install_failed"


class DownloadError(InstallError):
    """A download cannot go on by itself; what was fetched is kept, and a new start resumes."""

    code = "download_failed"


class NetworkError(DownloadError):
    """The hub cannot be reached, or not through this network. Trying again may help.

    Codes: `no_network`, `proxy_login`, `proxy_unreachable`, `tls_intercepted`, `clock_wrong`,
    `proxy_unusable`, `hub_down`, `hub_busy`, `stalled`, `connection_lost`.
    """

    code = "no_network"


class HubError(DownloadError):
    """The hub answers, but does not give the files. Trying again does not help.

    Codes: `gated`, `token_refused`, `repository_missing`, `revision_missing`, `hub_file_missing`,
    `mirror_ignores_range`, `hub_file_changed`, `endpoint_unusable`,
    `login_page`, `checkpoint_damaged`, `hub_answer`.
    """

    code = "hub_answer"


class ChecksumError(DownloadError):
    """A file was fetched twice and is not what its checksum says."""

    code = "checksum"


class DiskError(DownloadError):
    """The folder or its drive cannot take the files.

    Codes: `disk_short` (before), `disk_full` (while writing), `folder_read_only`, `drive_gone`,
    `file_too_large_for_drive`, `file_held`, `disk_failed`.
    """

    code = "disk_failed"


class BusyError(InstallError):
    """Another installer downloads into this data folder."""

    code = "download_busy"


class StoppedError(InstallError):
    """Stopped on request; the parts are kept, and a new start resumes."""

    code = "download_stopped"


class CancelledError(StoppedError):
    """Cancelled on request; the parts are deleted."""

    code = "download_cancelled"


class PreparationError(InstallError):
    """A downloaded part could not be prepared (the draft head: `draft_head_failed`)."""

    code = "preparation_failed"
