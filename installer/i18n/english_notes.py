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
    "note.found_on_disk": "{path} is what we need; it is not fetched again.",
    "note.found_but_different": "{path} has the name of a file that we need, but another content, and is not used.",
    "note.draft_head_built": "{file} is made on this PC from {bytes:size} of the original model.",
    "note.must_download_again": "{path} is on another drive and cannot be shared, so it is fetched again.",
    # -- errors ------------------------------------------------------------------------------------
    "error.disk_short": "The drive of {path} has {free_bytes:size} free; the download needs {needed_bytes:size}, so {missing_bytes:size} are missing. Choose another folder or a smaller size, or free some space.",
}
