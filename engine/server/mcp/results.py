"""What a tool returned, as the text that the model reads."""

from __future__ import annotations

import json

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

# Failures begin with this, so that the model (and a test) can tell them from results.
ERROR_PREFIX = "error: "


def result_text(result: CallToolResult, max_chars: int) -> str:
    """The text of a result, cut to a length; a cut is said at its end."""
    text = "\n".join(_block_text(block) for block in result.content)
    if not text.strip() and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if not text.strip():
        text = "(the tool returned nothing)"
    if result.is_error and not text.lower().startswith(ERROR_PREFIX):
        text = ERROR_PREFIX + text
    return cut(text, max_chars)


def cut(text: str, max_chars: int) -> str:
    """The text, or its beginning with a note about what is missing."""
    if len(text) <= max_chars:
        return text
    note = f"\n[The result was cut: these are its first {max_chars} of {len(text)} characters.]"
    return text[:max_chars] + note


def _block_text(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            kind = "image" if isinstance(block, ImageContent) else "audio"
            return f"[{kind} of type {block.mime_type}, which cannot be shown here]"
        case ResourceLink():
            return f"[resource {block.name}: {block.uri}]"
        case EmbeddedResource():
            contents = block.resource
            if isinstance(contents, TextResourceContents):
                return contents.text
            return f"[binary resource {contents.uri}, which cannot be shown here]"
