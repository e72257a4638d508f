"""Windows' `.lnk` files and known folders, by the system's own functions through ctypes.

No PowerShell and no script host: virus scanners stop scripts that write links.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from installer.entries_windows import Folder, Link

_CLSID_SHELL_LINK = "{00021401-0000-0000-C000-000000000046}"
_IID_SHELL_LINK = "{000214F9-0000-0000-C000-000000000046}"
_IID_PERSIST_FILE = "{0000010B-0000-0000-C000-000000000046}"
_IN_PROCESS = 1
_APARTMENT = 2

# Places in the tables of functions of IUnknown, IShellLinkW and IPersistFile.
_QUERY, _RELEASE = 0, 2
_SET_DESCRIPTION, _SET_FOLDER, _SET_ARGUMENTS, _SET_ICON, _SET_PATH = 7, 9, 11, 17, 20
_SAVE = 6


class _Guid(ctypes.Structure):
    _fields_ = (("data", ctypes.c_ubyte * 16),)


if sys.platform == "win32":

    def known_folder(folder: Folder) -> Path:
        """The path of a known folder.

        Raises:
            OSError: Windows does not know it.
        """
        guid = _guid(folder.value)
        text = ctypes.c_wchar_p()
        shell = ctypes.OleDLL("shell32")
        shell.SHGetKnownFolderPath(ctypes.byref(guid), 0, None, ctypes.byref(text))
        try:
            if text.value is None:
                raise OSError(f"Windows has no folder {folder.name}")
            return Path(text.value)
        finally:
            ctypes.windll.ole32.CoTaskMemFree(text)

    def write_link(path: Path, link: Link) -> None:
        """Write a `.lnk` file.

        Raises:
            OSError: Windows refuses.
        """
        ole = ctypes.OleDLL("ole32")
        # Whoever initialised this thread in another way did initialise it.
        ctypes.windll.ole32.CoInitializeEx(None, _APARTMENT)
        shell_link, file = ctypes.c_void_p(), ctypes.c_void_p()
        try:
            ole.CoCreateInstance(
                ctypes.byref(_guid(_CLSID_SHELL_LINK)),
                None,
                _IN_PROCESS,
                ctypes.byref(_guid(_IID_SHELL_LINK)),
                ctypes.byref(shell_link),
            )
            for index, text in (
                (_SET_PATH, str(link.target)),
                (_SET_ARGUMENTS, link.arguments),
                (_SET_FOLDER, str(link.folder)),
                (_SET_DESCRIPTION, link.summary),
            ):
                _call(shell_link, index, ctypes.c_wchar_p(text))
            if link.icon is not None:
                _call(shell_link, _SET_ICON, ctypes.c_wchar_p(str(link.icon)), ctypes.c_int(0))
            guid = _guid(_IID_PERSIST_FILE)
            _call(shell_link, _QUERY, ctypes.byref(guid), ctypes.byref(file))
            _call(file, _SAVE, ctypes.c_wchar_p(str(path)), ctypes.c_int(1))
        finally:
            for pointer in (file, shell_link):
                if pointer:
                    _call(pointer, _RELEASE)
            ctypes.windll.ole32.CoUninitialize()

    def _guid(text: str) -> _Guid:
        guid = _Guid()
        ctypes.OleDLL("ole32").CLSIDFromString(ctypes.c_wchar_p(text), ctypes.byref(guid))
        return guid

    def _call(pointer: ctypes.c_void_p, index: int, *arguments: object) -> None:
        """Call a function of an object; OSError when it answers with a failure."""
        table = ctypes.cast(pointer, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))
        kind = ctypes.WINFUNCTYPE(
            ctypes.c_ulong if index == _RELEASE else ctypes.HRESULT,
            ctypes.c_void_p,
            *(_type_of(argument) for argument in arguments),
        )
        kind(table[0][index] or 0)(pointer, *arguments)

    def _type_of(argument: object) -> type:
        return (
            type(argument)
            if isinstance(argument, ctypes.c_wchar_p | ctypes.c_int)
            else ctypes.c_void_p
        )
