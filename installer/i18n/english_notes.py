"""English: notes by code, and those errors that the wizard says in the units of its pages.

An error without an entry here is said with its own sentence, which is English.
"""

from __future__ import annotations

from typing import Final

TEXTS: Final[dict[str, str]] = {
    # -- why this model, and the verdict -----------------------------------------------------------
    # -- a model's merits and risks ----------------------------------------------------------------
    # -- what was found about the PC ---------------------------------------------------------------
    # -- notices of a download plan ----------------------------------------------------------------
    "note.revision_replaced": "{repository} has replaced the version that we know ({revision}). The same files, by their checksums, are taken from the current one.",
    "note.found_on_disk": "{file} in {path} is what we need; it is not fetched again.",
    "note.found_but_different": "{file} in {path} looks like a file that we need, but has another content and is not used.",
    "note.draft_head_built": "{file} is made on this PC from {fetch_bytes:size} of the original model.",
    "note.must_download_again": "{file} in {path} is on another drive and cannot be shared, so it is fetched again.",
    "note.not_verified": "{file} in {path} is used as it is: its checksum could not be asked for.",
    # -- errors ------------------------------------------------------------------------------------
    "error.disk_short": "The drive of {path} has {free_bytes:size} free; the download needs {needed_bytes:size}, so {missing_bytes:size} are missing. Choose another folder or a smaller size, or free some space.",
}
