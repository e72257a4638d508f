"""Content blocks of `/v1/messages` as text (spec/api.md section 9.3).

The model reads text: what of a block it can read is turned into text here, and what it cannot read
is refused by name. Knows nothing of roles, of calls and of thinking; those are anthropic_messages.py.
"""

from __future__ import annotations

from engine.server.answers import to_json
from engine.server.errors import (
    ApiError,
    invalid_type,
    invalid_value,
    missing,
    shortened,
    unsupported_value,
)
from engine.server.fields import Fields, objects

SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
SERVER_RESULT_SUFFIX = "_tool_result"
IMAGE_SOURCES = {"base64": ("media_type", "data"), "url": ("url",)}

# What only the service that wrote it can read; it would be noise in the prompt.
OPAQUE_PREFIX = "encrypted_"

BLANK_LINE = "\n\n"


def content_blocks(entry: Fields, key: str = "content") -> list[Fields]:
    """The blocks of a content that is a string or an array of blocks; none when it is null.

    Raises:
        ApiError: 400: it is something else.
    """
    content, path = entry.get(key), entry.at(key)
    if content is None:
        return []
    if isinstance(content, str):
        return [Fields({"type": "text", "text": content}, path)]
    if not isinstance(content, list):
        raise invalid_type(path, "a string or an array of blocks", content)
    return list(objects(content, path))


def text_of(block: Fields) -> str:
    """What the model reads of a block.

    Raises:
        ApiError: 400: the block is malformed, or of a kind that the model cannot read.
    """
    kind = block.required_string("type")
    match kind:
        case "text":
            return block.required_string("text")
        case "document":
            return _document_text(block)
        case "search_result":
            return _search_result_text(block)
        case "tool_reference":
            return block.required_string("tool_name")
        case "image":
            return _refuse_image(block)
    if kind in SERVER_CALLS:
        name, given = block.required_string("name"), block.table("input")
        return f"[{name}: {to_json(given.data if given is not None else {})}]"
    if kind.endswith(SERVER_RESULT_SUFFIX):
        return f"[{shortened(kind)}: {to_json(_readable(block.get('content')))}]"
    raise unknown_block(block, kind)


def joined(texts: list[str], separator: str) -> str:
    """The texts that are not empty, with the separator between them."""
    return separator.join(text for text in texts if text)


def unknown_block(block: Fields, kind: str) -> ApiError:
    """400 for a block of a kind that has no place here."""
    return invalid_value(
        block.at("type"), f"is {shortened(kind)}, a kind of block that cannot stand here"
    )


def _document_text(block: Fields) -> str:
    source = block.table("source")
    if source is None:
        raise missing(block.at("source"))
    head = [block.string("title") or "", block.string("context") or ""]
    kind = source.required_string("type")
    if kind == "text":
        return joined([*head, source.required_string("data")], BLANK_LINE)
    if kind == "content":
        texts = [text_of(part) for part in content_blocks(source)]
        return joined([*head, *texts], BLANK_LINE)
    raise unsupported_value(
        source.at("type"),
        f"is {shortened(kind)}, but only the text of documents can be read; "
        "send a source of type text",
    )


def _search_result_text(block: Fields) -> str:
    head = [block.string("title") or "", block.string("source") or ""]
    texts = [text_of(part) for part in content_blocks(block)]
    return joined([joined(head, "\n"), *texts], BLANK_LINE)


def _refuse_image(block: Fields) -> str:
    """Never drops an image: the answer would be about something that the model has not seen."""
    source = block.table("source")
    if source is None:
        raise missing(block.at("source"))
    kind = source.required_string("type")
    if kind not in IMAGE_SOURCES:
        raise unsupported_value(source.at("type"), "must be base64 or url")
    for key in IMAGE_SOURCES[kind]:
        source.required_string(key)
    raise ApiError(
        400,
        "image_unsupported",
        f"{block.path} is an image, and this model runs without its image encoder, so it cannot "
        "see images.",
        param=block.path,
    )


def _readable(value: object) -> object:
    """A server tool's result without its opaque parts."""
    if isinstance(value, dict):
        return {
            key: _readable(item) for key, item in value.items() if not key.startswith(OPAQUE_PREFIX)
        }
    return [_readable(item) for item in value] if isinstance(value, list) else value
