"""The form that a request wants its answer's text in (spec/api.md section 7).

Reads what the protocols share. Whether a schema can be enforced is for the grammar to say
(`engine.text.grammar`); nothing of it is added to the prompt.
"""

from __future__ import annotations

import json

from engine.server.errors import ApiError, invalid_value, missing
from engine.server.fields import Fields
from engine.text.output_rules import FREE_TEXT, FormatKind, ResponseFormat

MAX_SCHEMA_BYTES = 256 * 1024
# Where the schema stands in an object of its own.
WRAPPED = ("response_format",)


def read_response_format(table: Fields | None) -> ResponseFormat:
    """OpenAI's format object: `response_format` of chat, or `text.format` of responses.

    Chat wraps name, schema and strict in `json_schema`; responses write them beside `type`. A
    `json_object` with a `schema`, as llama.cpp's clients write it, is one of that schema.

    Raises:
        ApiError: 400 with the path of what is wrong.
    """
    if table is None:
        return FREE_TEXT
    match table.required_string("type"):
        case "text":
            return FREE_TEXT
        case "json_object" if table.get("schema") is not None:
            return read_schema_format(table)
        case "json_object":
            return ResponseFormat(FormatKind.JSON_OBJECT, path=table.path)
        case "json_schema":
            inner = table.table("json_schema")
            if inner is None and table.get("schema") is None and table.path in WRAPPED:
                raise missing(table.at("json_schema"))
            return read_schema_format(inner or table)
        case _:
            raise invalid_value(table.at("type"), "must be text, json_object or json_schema")


def read_schema_format(table: Fields) -> ResponseFormat:
    """The object that holds `schema`, and perhaps `strict`.

    Raises:
        ApiError: 400: no schema, or one that is too large.
    """
    table.string("name")
    is_strict = table.boolean("strict") is True
    schema = table.table("schema")
    if schema is None:
        raise missing(table.at("schema"))
    if (
        len(json.dumps(schema.data, ensure_ascii=False).encode("utf-8", "replace"))
        > MAX_SCHEMA_BYTES
    ):
        raise invalid_schema(schema.path, "is larger than 256 KiB")
    return ResponseFormat(FormatKind.JSON_SCHEMA, schema.data, is_strict, schema.path)


def invalid_schema(path: str, reason: str) -> ApiError:
    """400 for a schema that cannot be used."""
    return ApiError(400, "invalid_schema", f"{path} {reason}.", param=path)
