"""A command's error as one line for a program, with its code and parameters.

    STRATUM_ERROR_LINES=1 python -m engine serve ...
    {"error": {"code": "port_in_use", "message": "Port 8080 ...", "params": {"port": 8080}}}

Who starts the command line and must say its errors in the person's language sets the variable; the
line then stands on standard error, before the sentence for people.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from engine.core.errors import EngineError, ParameterValue

VARIABLE = "STRATUM_ERROR_LINES"
_BEGIN = '{"error": '


def wants_error_lines(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether whoever started this process reads such lines."""
    return environment.get(VARIABLE) == "1"


def error_line(error: EngineError) -> str:
    """The line, in ASCII and without its end."""
    content = {"code": error.code, "message": error.message, "params": error.params}
    return json.dumps({"error": content})


def parse_error_line(line: str) -> EngineError | None:
    """The error in a line; None for any other line."""
    if not line.startswith(_BEGIN):
        return None
    try:
        content = json.loads(line)["error"]
        code, message, params = content["code"], content["message"], content["params"]
    except (ValueError, KeyError, TypeError):
        return None
    if not (isinstance(code, str) and isinstance(message, str) and isinstance(params, dict)):
        return None
    known: dict[str, ParameterValue] = {
        key: value
        for key, value in params.items()
        if value is None or isinstance(value, str | int | float | bool)
    }
    return EngineError(message, code=code, params=known)
