"""English: updating, repairing, removing."""

from __future__ import annotations

from typing import Final

TEXTS: Final[dict[str, str]] = {
    # -- a newer version ---------------------------------------------------------------------------
    "update.updated": "Stratum was updated to {version}. The version before it is kept.",
    "update.kept_former": "Version {new} did not pass its self-test ({reason}). Version {version} in {root} is started instead; nothing of yours was changed.",
    "update.put_back": "Version {new} did not pass its self-test ({reason}). Version {version} was put back; start Stratum again. Nothing of yours was changed.",
    "update.failed": "This version does not pass its self-test ({reason}). Start setup with --repair.",
    # -- repair ------------------------------------------------------------------------------------
    "repair.start": "Verifying everything that is installed …",
    "repair.nothing": "No model is installed yet; start setup without --repair to install one.",
    "repair.model_well": "{title}: all {num_files} files are right.",
    "repair.model_repaired": "{title}: {files} fetched again, and right now.",
    "repair.model_bad": "{title}: {files} could not be repaired. {reason}",
    "repair.program_well": "The program's files are right.",
    "repair.program_bad": "Files of the program are missing or changed: {files}. Unpack the release again over this folder.",
    "repair.config_aside": "The run config {file} could not be read and was set aside as .bak. Run setup once more to write it anew.",
    "repair.engine_well": "The engine passes its self-test.",
    "repair.engine_bad": "The engine does not pass its self-test: {reason}",
    "repair.done": "Everything is right.",
    "repair.not_done": "Some things are not right yet; see above.",
    # -- uninstall ---------------------------------------------------------------------------------
    "remove.intro": "This is installed:",
    "remove.program": "The program and its packages: {num_bytes:size}",
    "remove.models": "Models and their settings: {num_bytes:size}",
    "remove.chats": "Chats: {num_bytes:size}",
    "remove.other": "Caches, logs and former versions: {num_bytes:size}",
    "remove.settings": "Settings: {num_bytes:size}",
    "remove.entries": "Entries in menus: {count}",
    "remove.item": "    {name}, {num_bytes:size}",
    "remove.ask": "Remove Stratum? Type y and Enter: ",
    "remove.ask_models": "Remove the models too ({num_bytes:size})? A later installation would fetch them again. Type y and Enter to remove them: ",
    "remove.ask_chats": "Remove the chats too? They cannot be brought back. Type y and Enter to remove them: ",
    "remove.not_confirmed": "Nothing was removed.",
    "remove.needs_yes": "Nobody can be asked here. Add --yes to remove Stratum and keep models and chats.",
    "remove.done": "Stratum was removed.",
    "remove.kept": "Kept in {path}: {num_bytes:size}. A later installation finds it.",
    "remove.strangers": "These files in {path} are not Stratum's and stay: {names}",
    "remove.problem": "{reason}. Delete it by hand.",
}
