"""The reasons of `slow.py` in the person's language: what was measured, and the way out."""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication, QLocale

from engine.core.note import Note
from engine.core.sizes import size_in_words

_CONTEXT = "Slow"

SENTENCES = {
    "plain_operations": QT_TRANSLATE_NOOP(
        "Slow",
        "The plain reference operations compute ({ops}), not the fast kernels. Set “Implementation” "
        "to auto; “Diagnostics” says what keeps the kernels from working.",
    ),
    "card_not_used": QT_TRANSLATE_NOOP(
        "Slow", "The processor computes alone. {reason} “Diagnostics” checks the card again."
    ),
    "was_restarted": QT_TRANSLATE_NOOP(
        "Slow",
        "The model process was started again {count} times after a crash. The log says why.",
    ),
    "slower_than_tuned": QT_TRANSLATE_NOOP(
        "Slow",
        "{now} tokens/s now; {tuned} were measured on this PC when the settings were tuned. A long "
        "conversation explains some of it, other programs the rest.",
    ),
    "card_too_hot": QT_TRANSLATE_NOOP(
        "Slow",
        "{card} is {celsius} °C hot and slows itself down. Clean its fans, or give it more air.",
    ),
    "card_at_power_limit": QT_TRANSLATE_NOOP(
        "Slow", "{card} runs at its power limit ({watts} W). That is usual under full load."
    ),
    "others_on_card": QT_TRANSLATE_NOOP(
        "Slow",
        "Other programs hold {size} of the memory of {card}. Close games and other programs that use "
        "the card.",
    ),
    "screen_on_card": QT_TRANSLATE_NOOP(
        "Slow",
        "A screen hangs on {card} and takes some of its memory. Where the processor has graphics of "
        "its own, connect the screen there.",
    ),
    "slow_slot": QT_TRANSLATE_NOOP(
        "Slow",
        "{card} is connected by PCIe {now}; {best} would be possible. Check the slot that it sits in.",
    ),
    "memory_is_swapped": QT_TRANSLATE_NOOP(
        "Slow",
        "The system fetches {rate} from the page file: memory is short. Close other programs, or "
        "choose a smaller model or a shorter context.",
    ),
    "memory_is_full": QT_TRANSLATE_NOOP(
        "Slow",
        "Only {free} of {total} of memory are free, so parts of the model may be pushed out. Close "
        "other programs.",
    ),
    "reads_from_disk": QT_TRANSLATE_NOOP(
        "Slow",
        "{rate} are read from the drive while the model answers: not all of it stays in memory. More "
        "memory, or a smaller model, helps.",
    ),
    "on_hard_disk": QT_TRANSLATE_NOOP(
        "Slow",
        "The model lies on a disk that turns, where single rows are read slowly. Move it to an SSD "
        "(Settings, Models).",
    ),
    "others_on_processor": QT_TRANSLATE_NOOP(
        "Slow", "{program} takes {percent} % of the processor. Close it, or wait until it is done."
    ),
    "on_battery": QT_TRANSLATE_NOOP(
        "Slow", "The PC runs on its battery and saves power. Plug it in."
    ),
    "low_clock": QT_TRANSLATE_NOOP(
        "Slow",
        "The processor runs at {ghz} of {best_ghz} GHz while the model answers. Choose the power plan "
        "for best performance, and check its cooling.",
    ),
    "low_priority": QT_TRANSLATE_NOOP(
        "Slow",
        "The engine runs with a lowered priority, so that other programs go first. Start it from this "
        "window.",
    ),
    "drafts_rejected": QT_TRANSLATE_NOOP(
        "Slow",
        "Only {percent} % of {offered} drafted tokens were right, so drafting costs more than it "
        "brings. Some languages and random text cannot be drafted well.",
    ),
    "prompts_read_anew": QT_TRANSLATE_NOOP(
        "Slow",
        "{percent} % of all prompt tokens were read anew instead of taken from memory. More memory for "
        "conversations helps programs that send long prompts.",
    ),
    "mostly_reading": QT_TRANSLATE_NOOP(
        "Slow",
        "{percent} % of the time went into reading prompts. Shorter conversations, or fewer attached "
        "files, answer sooner.",
    ),
    "requests_wait": QT_TRANSLATE_NOOP(
        "Slow",
        "Requests wait {seconds} s on average for their turn. Another program asks at the same time.",
    ),
    "memory_bound": QT_TRANSLATE_NOOP(
        "Slow",
        "Memory reads {gb_per_s} GB/s here, and a token of this model reads {size}: that allows at most "
        "about {most_per_s} tokens/s without drafts.",
    ),
    "slow_memory": QT_TRANSLATE_NOOP(
        "Slow",
        "{gb_per_s} GB/s is slow for today's memory. Two equal modules and the profile for their full "
        "speed (XMP or EXPO in the BIOS) can double it.",
    ),
}
# These tell a bound, and are no fault.
FOR_YOUR_INFORMATION = frozenset({"memory_bound", "card_at_power_limit", "screen_on_card"})


def sentence(note: Note) -> str:
    """One reason in words."""
    text = QCoreApplication.translate(_CONTEXT, str(SENTENCES[note.code]))
    values = {
        key: _number(value) if isinstance(value, float) else value
        for key, value in note.params.items()
    }
    words = {
        "size": _size(note, "num_bytes", "token_bytes"),
        "rate": f"{_size(note, 'bytes_per_s')}/s",
        "free": _size(note, "free_bytes"),
        "total": _size(note, "total_bytes"),
    }
    return text.format(**words, **values)


def _size(note: Note, *keys: str) -> str:
    for key in keys:
        value = note.params.get(key)
        if isinstance(value, int | float):
            return size_in_words(int(value))
    return ""


def _number(value: float) -> str:
    return QLocale().toString(value, "f", 1 if value < 100 else 0)
