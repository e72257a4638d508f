"""What a request asks of an answer's form: which tools may be called, and which format it has.

Plain data in no protocol's spelling. The protocols' readers make it; the prompt is not changed by
it (the cache of earlier turns depends on every byte), only what the sampler may choose is.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class CallMode(enum.Enum):
    """Whether the answer may hold calls."""

    NONE = "none"  # the tools stay in the prompt, calls are masked
    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Which declared tools the answer may call.

    Attributes:
        mode: none, as the model likes, or at least one.
        names: the tools that may be called; None = all that are declared.
    """

    mode: CallMode = CallMode.AUTO
    names: frozenset[str] | None = None

    def allows(self, name: str) -> bool:
        """Whether a declared tool may be called."""
        return self.mode is not CallMode.NONE and (self.names is None or name in self.names)


class FormatKind(enum.Enum):
    """The form of the answer's text."""

    TEXT = "text"
    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The form of the answer's text; thinking is always free.

    Attributes:
        kind: free text, one JSON object, or one JSON value of a schema.
        schema: for `JSON_SCHEMA`: an object, as the client wrote it.
        is_strict: refuse a schema that cannot be enforced in full.
        path: where the schema stands in the request, for errors.
    """

    kind: FormatKind = FormatKind.TEXT
    schema: Mapping[str, object] | None = None
    is_strict: bool = False
    path: str = "response_format"


ANY_TOOL = ToolChoice()
FREE_TEXT = ResponseFormat()
