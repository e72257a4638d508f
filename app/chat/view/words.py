"""Numbers, states and problems in the person's language."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QDateTime, QLocale

from app.chat.activity import Activity, Phase, Wait
from app.history.records import MessageStats, Sampling
from engine.core.config import Effort

# A speed is said of answers that are at least as long as this.
_LEAST_TOKENS = 8
_LEAST_S = 0.2


def number(value: int) -> str:
    """A count with its separators: 12,400."""
    locale = QLocale()
    if locale.language() is QLocale.Language.C:  # nobody has said how numbers look here
        locale = QLocale(QLocale.Language.English)
    return locale.toString(value)


def duration(seconds: float) -> str:
    """A time as people say it: 12 s, 2 min 5 s."""
    whole = max(0, round(seconds))
    if whole < 60:
        return QCoreApplication.translate("ChatWords", "{0} s").format(whole)
    return QCoreApplication.translate("ChatWords", "{0} min {1} s").format(whole // 60, whole % 60)


def size(num_bytes: int) -> str:
    """A size: 3.2 KB."""
    return QLocale().formattedDataSize(
        num_bytes, 1 if num_bytes >= 1000 else 0, QLocale.DataSizeFormat.DataSizeSIFormat
    )


def tokens(count: int) -> str:
    """A number of tokens."""
    return QCoreApplication.translate("ChatWords", "{0} tokens").format(number(count))


def moment(unix_s: float) -> str:
    """When something was, shortly: the time today, else the day."""
    when, now = QDateTime.fromSecsSinceEpoch(int(unix_s)), QDateTime.currentDateTime()
    locale = QLocale()
    if when.date() == now.date():
        return locale.toString(when.time(), QLocale.FormatType.ShortFormat)
    return locale.toString(when.date(), QLocale.FormatType.ShortFormat)


def activity_words(activity: Activity) -> str:
    """What happens now, in one line."""
    translate = QCoreApplication.translate
    phase = activity.phase
    if phase is Phase.WAITING_FOR_ENGINE:
        return wait_words(activity)
    if phase is Phase.READING and activity.prompt_tokens:
        return translate("ChatWords", "Reading {0} of {1} tokens").format(
            number(activity.prompt_read), number(activity.prompt_tokens)
        )
    if phase is Phase.WRITING_CALL:
        return translate("ChatWords", "Writing a call to {0}").format(activity.tool)
    if phase is Phase.RUNNING_TOOL:
        return translate("ChatWords", "{0} is at work").format(activity.tool)
    if phase is Phase.ASKING:
        return translate("ChatWords", "{0} asks for your consent").format(activity.tool)
    plain = {
        Phase.QUEUED: translate("ChatWords", "Waiting: another answer comes first"),
        Phase.READING: translate("ChatWords", "Reading"),
        Phase.THINKING: translate("ChatWords", "Thinking"),
        Phase.ANSWERING: translate("ChatWords", "Answering"),
        Phase.STOPPING: translate("ChatWords", "Stopping"),
    }
    return plain.get(phase, "")


def wait_words(activity: Activity) -> str:
    """Why the engine is waited for."""
    translate = QCoreApplication.translate
    if activity.wait is Wait.LOADING:
        share = round(activity.load_share * 100)
        return translate("ChatWords", "The model is loading: {0} %").format(share)
    return {
        Wait.STOPPED: translate(
            "ChatWords", "The model is stopped. The answer begins when it is started."
        ),
        Wait.STARTING: translate("ChatWords", "The model is starting"),
        Wait.RESTARTING: translate("ChatWords", "The model is starting again after it ended"),
        Wait.BUSY: translate("ChatWords", "The model is busy; trying again"),
    }.get(activity.wait, translate("ChatWords", "Waiting for the model"))


def speed(per_s: float) -> str:
    """Tokens in a second."""
    digits = 1 if per_s < 100 else 0
    shown = QLocale().toString(per_s, "f", digits)
    return QCoreApplication.translate("ChatWords", "{0} tokens/s").format(shown)


def writing_speed(stats: MessageStats) -> str:
    """How fast an answer was written; empty for one that is too short to say.

    The first token comes with the prompt: of three tokens in a millisecond nobody learns anything.
    """
    if stats.generated_per_s <= 0 or stats.generated_tokens < _LEAST_TOKENS:
        return ""
    if 0 < stats.generated_s < _LEAST_S:  # 0: not measured; then the speed is that of some seconds
        return ""
    return speed(stats.generated_per_s)


def stats_line(stats: MessageStats) -> str:
    """Under an answer: how fast, how much context, how many drafts were right."""
    translate = QCoreApplication.translate
    parts: list[str] = []
    if shown_speed := writing_speed(stats):
        parts.append(shown_speed)
    if stats.context_used:
        used = number(stats.context_used)
        parts.append(
            translate("ChatWords", "context {0} of {1}").format(used, number(stats.context_size))
            if stats.context_size
            else translate("ChatWords", "context {0}").format(used)
        )
    if stats.draft_tokens:
        share = round(100 * stats.draft_accepted / stats.draft_tokens)
        parts.append(translate("ChatWords", "drafts {0} %").format(share))
    return "  ·  ".join(parts)


def stats_details(stats: MessageStats) -> str:
    """The same with everything that was measured, on lines of their own."""
    translate = QCoreApplication.translate
    lines = []
    if stats.model:
        lines.append(translate("ChatWords", "Model: {0}").format(stats.model))
    lines.append(
        translate("ChatWords", "Prompt: {0} tokens, {1} of them remembered").format(
            number(stats.prompt_tokens), number(stats.cached_tokens)
        )
    )
    if stats.prompt_per_s > 0:
        lines.append(
            translate("ChatWords", "Reading: {0}, {1}").format(
                duration(stats.prompt_s), speed(stats.prompt_per_s)
            )
        )
    lines.append(
        translate("ChatWords", "Answer: {0} tokens, {1} of them thinking").format(
            number(stats.generated_tokens), number(stats.thinking_tokens)
        )
    )
    if shown_speed := writing_speed(stats):
        lines.append(
            translate("ChatWords", "Writing: {0}, {1}").format(
                duration(stats.generated_s), shown_speed
            )
        )
    if stats.draft_tokens:
        lines.append(
            translate("ChatWords", "Drafts: {0} of {1} accepted").format(
                number(stats.draft_accepted), number(stats.draft_tokens)
            )
        )
    if stats.effort:
        words = effort_words(Effort(stats.effort)) if stats.effort in set(Effort) else stats.effort
        lines.append(translate("ChatWords", "Thinking level: {0}").format(words))
    sampling = sampling_words(stats.sampling)
    if sampling:
        lines.append(translate("ChatWords", "Sampling: {0}").format(sampling))
    return "\n".join(lines)


def sampling_words(sampling: Sampling) -> str:
    """Sampling values in a line; those that change nothing are left out."""
    names = {
        "temperature": "temperature",
        "top_p": "top-p",
        "top_k": "top-k",
        "min_p": "min-p",
        "presence_penalty": "presence",
        "frequency_penalty": "frequency",
        "repetition_penalty": "repetition",
        "seed": "seed",
    }
    neutral = {
        "top_k": 0,
        "min_p": 0,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "repetition_penalty": 1,
    }
    values = {name: getattr(sampling, name) for name in names}
    return ", ".join(
        f"{names[name]} {value if name == 'seed' else format(value, 'g')}"
        for name, value in values.items()
        if value is not None and value != neutral.get(name)
    )


def effort_words(effort: Effort) -> str:
    """A thinking level."""
    translate = QCoreApplication.translate
    return {
        Effort.NONE: translate("ChatWords", "No thinking"),
        Effort.LOW: translate("ChatWords", "Short"),
        Effort.MEDIUM: translate("ChatWords", "Medium"),
        Effort.HIGH: translate("ChatWords", "Thorough"),
    }[effort]


def fold_words(num_chars: int, *, is_unfolded: bool) -> str:
    """On the button that shows all of a long message."""
    translate = QCoreApplication.translate
    if is_unfolded:
        return translate("ChatWords", "Show less")
    return translate("ChatWords", "Show all ({0} characters)").format(number(num_chars))
