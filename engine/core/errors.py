"""Errors that people see: one sentence that names the thing, the cause and the way out.

Every error has a stable code and parameters, so that the app and the wizard can say it in the
person's language; `str(error)` is the English sentence. Each package adds its own subclasses.
"""

from __future__ import annotations

from collections.abc import Mapping

ParameterValue = str | int | float | bool | None


class EngineError(Exception):
    """Base of all errors with a sentence for the person.

    Attributes:
        code: stable identifier, such as `file_truncated`.
        message: one sentence in English.
        params: the values in the sentence, for translation.
        exit_status: what the command line returns (2: unusable input, 1: anything else).
    """

    code = "internal_error"
    exit_status = 1

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        params: Mapping[str, ParameterValue] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.params: dict[str, ParameterValue] = dict(params or {})
        if code is not None:
            self.code = code


class InputError(EngineError):
    """What the person gave cannot be used: a file, a flag, a setting. Exit status 2."""

    code = "unusable_input"
    exit_status = 2


class ModelFileError(InputError):
    """A model file is damaged, incomplete, hostile, or of a kind that we do not know."""

    code = "model_file"


class ConfigError(InputError):
    """A setting has a value that cannot be used; the message names the key."""

    code = "config"


class ResourceError(EngineError):
    """The machine lacks what the request needs (memory, disk, a free port)."""

    code = "resource"
