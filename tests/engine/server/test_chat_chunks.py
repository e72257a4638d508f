"""Chunks of chat completions that are written in a quicker way."""

import pytest

from engine.server.chat_chunks import ChatHead, ContentEvents, chunk_choice
from engine.server.sse import data_event


@pytest.mark.parametrize("include_usage", [False, True])
@pytest.mark.parametrize("text", ["", "Hello", 'a "b" \\ \n', "ä 中 😀", "the content", "\ud800"])
def test_an_event_of_plain_content_is_that_of_its_chunk(text: str, include_usage: bool):
    head = ChatHead("chatcmpl-1", 1234, 'the content "the content"', include_usage)
    for index in (0, 2):
        chunk = head.chunk("fp_1", [chunk_choice(index, {"content": text})])
        assert ContentEvents(head, "fp_1", index).event(text) == data_event(chunk)
