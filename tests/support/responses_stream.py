"""Reading a Responses stream in tests, and checking the official order of its events."""

import json

TERMINAL = ("response.completed", "response.incomplete", "response.failed")
DELTAS = {
    "message": ("response.output_text", "text"),
    "reasoning": ("response.reasoning_text", "text"),
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
}


def parse(text):
    """The events of a body; each block must be one named event with JSON data."""
    assert text.endswith("\n\n")
    events = []
    for block in text.split("\n\n")[:-1]:
        if block.startswith(":"):
            continue
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def check_order(events):
    """Assert everything that clients rely on; the final response is returned."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[0]["response"]["output"] == []
    assert sum(event["type"] in TERMINAL for event in events) == 1
    final = events[-1]["response"]
    assert events[-1]["type"] == f"response.{final['status']}"
    lifecycle = [event["response"]["id"] for event in events if "response" in event]
    assert set(lifecycle) == {final["id"]}
    items = {}
    for event in events[2:-1]:
        if "response" not in event:
            items.setdefault(event["output_index"], []).append(event)
    assert list(items) == list(range(len(items)))  # one after the other, none missing
    order = [event["output_index"] for event in events[2:-1] if "output_index" in event]
    assert order == sorted(order)
    assert len(items) == len(final["output"])
    for item, own in zip(final["output"], items.values(), strict=True):
        check_item(item, own)
    return final


def check_item(item, events):
    """Assert the order of one item's events, and that they add up to the item."""
    base, key = DELTAS[item["type"]]
    names = [event["type"] for event in events]
    assert names[0] == "response.output_item.added"
    added = events[0]["item"]
    assert added["id"] == item["id"]
    assert added["status"] == "in_progress"
    assert all(event.get("item_id", item["id"]) == item["id"] for event in events)
    has_parts = item["type"] in ("message", "reasoning")
    is_closed = names[-1] == "response.output_item.done"
    middle = names[1 : -1 if is_closed else None]
    if has_parts:
        assert added["content"] == []
        assert middle[0] == "response.content_part.added"
        middle = middle[1:]
        if is_closed:
            assert middle[-1] == "response.content_part.done"
            part = next(event["part"] for event in events if event["type"].endswith("part.done"))
            assert [part] == item["content"]
            middle = middle[:-1]
    else:
        assert added[key] == ""
    text = item["content"][0]["text"] if has_parts else item[key]
    assert "".join(event["delta"] for event in events if "delta" in event) == text
    if middle and middle[-1] == f"{base}.done":
        done = next(event for event in events if event["type"] == f"{base}.done")
        assert done[key] == text
        middle = middle[:-1]
    assert set(middle) <= {f"{base}.delta"}
    if is_closed:
        assert events[-1]["item"] == item
