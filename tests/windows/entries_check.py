"""Run by a Windows Python: makes the real entries, reads them back, removes them.

    python entries_check.py REPOSITORY FOLDER

Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import types
import winreg
from pathlib import Path


class _Model:
    """Stands for pydantic's, which this Python has not."""

    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)


pydantic = types.ModuleType("pydantic")
pydantic.BaseModel = _Model  # type: ignore[attr-defined]
pydantic.ConfigDict = dict  # type: ignore[attr-defined]
sys.modules["pydantic"] = pydantic
sys.path.insert(0, sys.argv[1])

from installer.entries import (  # noqa: E402  # after the stand-in
    UNINSTALL_KEY,
    EntryPlan,
    add_entries,
    remove_entries,
    system_entries,
)

root = Path(sys.argv[2])
system = system_entries()
made = add_entries(system, EntryPlan(root, "1.2.3", 5 << 20, with_desktop=True))
with winreg.OpenKey(winreg.HKEY_CURRENT_USER, UNINSTALL_KEY) as key:
    location = winreg.QueryValueEx(key, "InstallLocation")[0]
    size = winreg.QueryValueEx(key, "EstimatedSize")
links = [Path(entry.place) for entry in made if entry.place.endswith(".lnk")]
content = links[0].read_bytes()
report = {
    "kinds": [entry.kind.value for entry in made],
    "location": location,
    "size": size,
    "is_link": content[:4] == b"L\0\0\0",
    "has_target": "pythonw.exe".encode("utf-16-le") in content or b"pythonw.exe" in content,
    "has_arguments": "-m installer".encode("utf-16-le") in content,
    "has_folder": str(root).encode("utf-16-le") in content,
}
left = remove_entries(system, made)
try:
    winreg.OpenKey(winreg.HKEY_CURRENT_USER, UNINSTALL_KEY)
    has_key = True
except FileNotFoundError:
    has_key = False
report["left"] = len(left) + has_key + sum(link.exists() for link in links)
print(json.dumps(report))  # noqa: T201
