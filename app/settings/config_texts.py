"""What the settings of the run config are called, for Qt Linguist.

The descriptions are `RunConfig`'s own: they stand here only so that `lupdate` finds them, and a test
compares them with `RunConfig`. A setting without a label is shown by its key.
"""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.settings.config_fields import ConfigRow, Group, Kind, Limits

_CONTEXT = "RunConfig"

LABELS = {
    "model": QT_TRANSLATE_NOOP("RunConfig", "Model file"),
    "mtp_file": QT_TRANSLATE_NOOP("RunConfig", "Draft head file"),
    "model_id": QT_TRANSLATE_NOOP("RunConfig", "Served name"),
    "aliases": QT_TRANSLATE_NOOP("RunConfig", "Further names"),
    "context": QT_TRANSLATE_NOOP("RunConfig", "Context length"),
    "ops": QT_TRANSLATE_NOOP("RunConfig", "Implementation"),
    "reproducible": QT_TRANSLATE_NOOP("RunConfig", "Reproducible answers"),
    "threads": QT_TRANSLATE_NOOP("RunConfig", "Threads"),
    "pin_threads": QT_TRANSLATE_NOOP("RunConfig", "Hold threads to cores"),
    "lock_memory": QT_TRANSLATE_NOOP("RunConfig", "Lock the model into memory"),
    "ngram_mode": QT_TRANSLATE_NOOP("RunConfig", "N-gram table"),
    "ngram_cache_rows": QT_TRANSLATE_NOOP("RunConfig", "Rows of the n-gram table kept"),
    "expert_mode": QT_TRANSLATE_NOOP("RunConfig", "Where experts are kept"),
    "expert_ram_mib": QT_TRANSLATE_NOOP("RunConfig", "Memory for experts (MiB)"),
    "expert_look_ahead": QT_TRANSLATE_NOOP("RunConfig", "Ask the disk for experts early"),
    "expert_profile": QT_TRANSLATE_NOOP("RunConfig", "File with counts of experts"),
    "expert_profile_learn": QT_TRANSLATE_NOOP("RunConfig", "Count which experts are used"),
    "gpus": QT_TRANSLATE_NOOP("RunConfig", "Graphics cards"),
    "pcie_frac": QT_TRANSLATE_NOOP("RunConfig", "Share of experts copied to the card"),
    "expert_vram_mib": QT_TRANSLATE_NOOP("RunConfig", "Graphics memory for experts (MiB)"),
    "vram_reserve_mib": QT_TRANSLATE_NOOP("RunConfig", "Graphics memory left to others (MiB)"),
    "kv_type": QT_TRANSLATE_NOOP("RunConfig", "KV cache format"),
    "kv_vram_tokens": QT_TRANSLATE_NOOP("RunConfig", "Tokens on the graphics card"),
    "requant": QT_TRANSLATE_NOOP("RunConfig", "Projections as Q8_0"),
    "prompt_chunk": QT_TRANSLATE_NOOP("RunConfig", "Prompt chunk"),
    "parallel": QT_TRANSLATE_NOOP("RunConfig", "Requests at once"),
    "spec_lookup": QT_TRANSLATE_NOOP("RunConfig", "Drafts from the conversation"),
    "spec_mtp": QT_TRANSLATE_NOOP("RunConfig", "Drafts of the draft head"),
    "spec_min_p": QT_TRANSLATE_NOOP("RunConfig", "Least probability of a draft"),
    "spec_vocabulary": QT_TRANSLATE_NOOP("RunConfig", "Draft vocabulary"),
    "spec_ngram": QT_TRANSLATE_NOOP("RunConfig", "Drafts from frequent words"),
    "spec_ngram_file": QT_TRANSLATE_NOOP("RunConfig", "Corpus for these drafts"),
    "spec_ngram_learn": QT_TRANSLATE_NOOP("RunConfig", "Learn from requests"),
    "prompt_slice_ms": QT_TRANSLATE_NOOP("RunConfig", "Pause for other prompts (ms)"),
    "session_cache_mib": QT_TRANSLATE_NOOP("RunConfig", "Memory for conversations (MiB)"),
    "save_sessions": QT_TRANSLATE_NOOP("RunConfig", "Keep conversations on disk"),
    "save_sessions_mib": QT_TRANSLATE_NOOP("RunConfig", "Disk space for conversations (MiB)"),
    "host": QT_TRANSLATE_NOOP("RunConfig", "Address to listen on"),
    "port": QT_TRANSLATE_NOOP("RunConfig", "Port"),
    "api_keys": QT_TRANSLATE_NOOP("RunConfig", "API keys"),
    "allowed_hosts": QT_TRANSLATE_NOOP("RunConfig", "Further host names"),
    "trusted_origins": QT_TRANSLATE_NOOP("RunConfig", "Trusted pages"),
    "cors_origins": QT_TRANSLATE_NOOP("RunConfig", "Pages that may generate (CORS)"),
    "strict_model": QT_TRANSLATE_NOOP("RunConfig", "Refuse other model names"),
    "queue_max": QT_TRANSLATE_NOOP("RunConfig", "Longest queue"),
    "queue_timeout_s": QT_TRANSLATE_NOOP("RunConfig", "Longest wait (s)"),
    "max_body_mib": QT_TRANSLATE_NOOP("RunConfig", "Largest request (MiB)"),
    "sse_keepalive_s": QT_TRANSLATE_NOOP("RunConfig", "Keep-alive of streams (s)"),
    "lazy_load": QT_TRANSLATE_NOOP("RunConfig", "Load with the first request"),
    "idle_unload_s": QT_TRANSLATE_NOOP("RunConfig", "Unload when idle (s)"),
    "min_free_vram_mib": QT_TRANSLATE_NOOP("RunConfig", "Free graphics memory needed (MiB)"),
    "before_load": QT_TRANSLATE_NOOP("RunConfig", "Program before loading"),
    "before_load_timeout_s": QT_TRANSLATE_NOOP("RunConfig", "Its longest run (s)"),
    "sampling.temperature": QT_TRANSLATE_NOOP("RunConfig", "Temperature"),
    "sampling.top_p": QT_TRANSLATE_NOOP("RunConfig", "Top P"),
    "sampling.top_k": QT_TRANSLATE_NOOP("RunConfig", "Top K"),
    "sampling.min_p": QT_TRANSLATE_NOOP("RunConfig", "Min P"),
    "sampling.presence_penalty": QT_TRANSLATE_NOOP("RunConfig", "Presence penalty"),
    "sampling.frequency_penalty": QT_TRANSLATE_NOOP("RunConfig", "Frequency penalty"),
    "sampling.repetition_penalty": QT_TRANSLATE_NOOP("RunConfig", "Repetition penalty"),
    "default_reasoning_effort": QT_TRANSLATE_NOOP("RunConfig", "Thinking level"),
    "anthropic_thinking": QT_TRANSLATE_NOOP("RunConfig", "Thinking of Anthropic clients"),
    "reasoning_budget_tokens": QT_TRANSLATE_NOOP("RunConfig", "Thinking budget (tokens)"),
    "fit_max_tokens": QT_TRANSLATE_NOOP("RunConfig", "Fit output to the context"),
    "repeat_stop_tokens": QT_TRANSLATE_NOOP("RunConfig", "Stop at repetition (tokens)"),
    "mcp_servers": QT_TRANSLATE_NOOP("RunConfig", "MCP servers"),
    "mcp.max_rounds": QT_TRANSLATE_NOOP("RunConfig", "Rounds of tools"),
    "mcp.timeout_s": QT_TRANSLATE_NOOP("RunConfig", "Longest run of a tool (s)"),
    "mcp.max_result_chars": QT_TRANSLATE_NOOP("RunConfig", "Longest result (characters)"),
    "mcp.consent_timeout_s": QT_TRANSLATE_NOOP("RunConfig", "Wait for permission (s)"),
    "mcp.start_timeout_s": QT_TRANSLATE_NOOP("RunConfig", "Wait for a server's start (s)"),
    "upstream": QT_TRANSLATE_NOOP("RunConfig", "Other server"),
    "upstream_key": QT_TRANSLATE_NOOP("RunConfig", "Its key"),
    "upstream_timeout_s": QT_TRANSLATE_NOOP("RunConfig", "Its longest silence (s)"),
}

DESCRIPTIONS = (
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "An answer depends on the request, its seed, the model and the version alone, not on what is kept warm, drafted or answered beside it. On the processor that holds anyway; a graphics card computes what its cache has just then, so it is not used, and answers may take longer.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Where experts are: `mapped` leaves them to the system's file cache, `resident` keeps all of them in memory, `budget` those that are used most. `auto` is `mapped`.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Memory in MiB for the experts that `budget` keeps. Default: 80 % of what everything else leaves free.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Ask the disk for experts as soon as they are known, and for those that the next layer will probably want; `auto` does so when memory does not hold all of them.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "File with counts of which experts are used. Default: this model's in the data folder.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Count which experts are used, and write the counts when the model is unloaded. The file holds no text.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Share of the experts that the graphics card lacks which is copied to it and computed there, instead of on the processor.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Graphics memory in MiB for experts, of all cards together. Default: all that is left beside the reserve.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Graphics memory in MiB that is left to other programs, on each card, also to those that are started later. Default: 700, or 1500 where a screen may hang on the card.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "NVIDIA cards that compute, by the numbers of `nvidia-smi` or the UUIDs of `nvidia-smi -L`; several share the layers of the model. `auto` takes those that make answers faster, and leaves out what cannot be used; cards that are named are all used.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Count what all requests hold for these guesses, and keep the counts in the data folder. The file holds what was said.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig", "A corpus for these guesses, made by `engine lookup build` for this model."
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Guess by which tokens followed the same one to four tokens most often, where nothing better is known.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Tokens that the draft head may guess: `all`, those of a script (`en`, `cjk`, `cyrillic`, each with ASCII), or a file of `python -m tools.draft_vocabulary`. Fewer make each guess cheaper, and leave texts in other scripts without any.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig", "The draft head stops guessing at a token that it gives a smaller probability."
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig", "Most tokens in a row that the model's draft head (MTP) may guess; 0 = none."
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Guess the next tokens from what the conversation already holds. Guesses are verified: they make answers faster where text is repeated, and never change them.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig", "Model file (GGUF); any shard of a split model. Default: the bundled model."
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "File with the draft head (MTP layer) for a model that brings none itself. Default: what the model file has.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig", "Name under which the model is served. Default: the file's name."
    ),
    QT_TRANSLATE_NOOP("RunConfig", "Further names in the model list, comma-separated as a flag."),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Context length in tokens, prompt and answer together. Default: the smaller of what the model was trained for and 32768.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Implementation of the operations: `auto` takes a graphics card that passed its check on this PC, "
        "else the fastest of the processor.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Threads of the CPU kernels; 0 = one for each physical core, less on processors with many slow cores and in containers with a limit.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig", "Hold each of these threads to one core. For a machine that does nothing else."
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Lock the model into memory, so that other programs cannot push parts of it out. Needs the permission to do so; without it a warning says why and the engine runs on.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "How rows of the n-gram table come from the disk: `direct` reads them early and past the system's cache, `mapped` leaves it to the system's paging, `ram` holds the whole table. `auto` is `direct`, or `ram` for a small table or a slow drive if memory is free.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Rows of the n-gram table that `direct` keeps in memory, about 95 bytes each.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Number format of the KV cache; `i8` takes about half of what `f16` does, and needs a graphics card that computes.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Tokens whose keys and values stay in graphics memory; those of all others lie in RAM, where the card reads them over the bus. Default: those of one full context, as far as everything else leaves room for them; more only where all experts fit too.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Hold stream projections that the file keeps in 16 or 32 bits as Q8_0: faster, with a small change of the output; takes memory of its own and some seconds.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Prompt tokens computed in one pass; also bounds workspaces. Default: 256 on the processor; on a graphics card 256 to 8192, as its memory and the bus make prompts and answers fastest together.",
    ),
    QT_TRANSLATE_NOOP("RunConfig", "Requests that decode together; others wait."),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "How long a running answer waits for its next token while another request's prompt is read, in milliseconds. More reads prompts faster, less keeps answers fluent.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Memory in MiB that keeps conversations warm, so that a further turn reads only what is new; 0 = none. Default: the smaller of 8192 and 40 % of what is left free.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Write warm conversations to the data folder when the model is unloaded, and read them when it is loaded again. The file holds what was said.",
    ),
    QT_TRANSLATE_NOOP("RunConfig", "Most disk space in MiB for them, all models together."),
    QT_TRANSLATE_NOOP("RunConfig", "Address to listen on."),
    QT_TRANSLATE_NOOP("RunConfig", "Port to listen on; 0 = any free one."),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Keys that clients must send, 16 characters or more each. Needed to listen beyond this machine.",
    ),
    QT_TRANSLATE_NOOP("RunConfig", "Further host names that requests may carry."),
    QT_TRANSLATE_NOOP("RunConfig", "Origins of web pages that may use and control the server."),
    QT_TRANSLATE_NOOP("RunConfig", "Origins of web pages that may generate text (CORS)."),
    QT_TRANSLATE_NOOP("RunConfig", "Refuse requests that name another model than the served one."),
    QT_TRANSLATE_NOOP("RunConfig", "Requests that may wait; further ones get 429."),
    QT_TRANSLATE_NOOP("RunConfig", "Longest wait in the queue in seconds; then 503."),
    QT_TRANSLATE_NOOP("RunConfig", "Largest request body in MiB."),
    QT_TRANSLATE_NOOP("RunConfig", "Silence in seconds after which a stream gets a keep-alive."),
    QT_TRANSLATE_NOOP("RunConfig", "Load the model with the first request instead of at start."),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Seconds without generation after which the model is unloaded; the next request loads it again. 0 = never.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Refuse to load while less graphics memory is free, in MiB; needs the package `nvidia-ml-py`. 0 = not checked.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Program with its arguments, run before each load (to free a graphics card, say); loading goes on when it ends with exit status 0.",
    ),
    QT_TRANSLATE_NOOP("RunConfig", "Longest time in seconds that this program may take."),
    QT_TRANSLATE_NOOP("RunConfig", "Thinking level of requests that name none."),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Whether requests to /v1/messages that name no thinking level think: `when_asked` does not (Anthropic's own rule), `always` takes the level above.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Most tokens that one answer may think for; 0 = no limit. A request may ask for less.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Lower a request's output cap to the room that the context leaves (said in a header) instead of refusing it.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig", "End an answer when one token repeats this often in a row; 0 = never."
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "MCP servers whose tools the chat window, and requests that ask for it, may use (docs/mcp.md).",
    ),
    QT_TRANSLATE_NOOP("RunConfig", "Times that one answer may stop to call tools."),
    QT_TRANSLATE_NOOP("RunConfig", "Longest run of one tool."),
    QT_TRANSLATE_NOOP("RunConfig", "Length at which a result is cut; the model is told."),
    QT_TRANSLATE_NOOP("RunConfig", "How long a question waits for its answer; then it is no."),
    QT_TRANSLATE_NOOP("RunConfig", "How long a server may take to start."),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Base URL of an OpenAI-compatible server, such as http://host:8000/v1, that answers instead of a model on this machine (docs/scale.md).",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig",
        "Key that the upstream asks for; as STRATUM_UPSTREAM_KEY in the environment no other user of the machine sees it.",
    ),
    QT_TRANSLATE_NOOP(
        "RunConfig", "Silence of the upstream in seconds after which a request ends with an error."
    ),
)

# The model's published values stand in for these: what they do is said here alone.
SAMPLING_HINTS = {
    "sampling.temperature": QT_TRANSLATE_NOOP(
        "RunConfig", "How freely words are chosen; 0 takes the likeliest always."
    ),
    "sampling.top_p": QT_TRANSLATE_NOOP(
        "RunConfig", "Chooses among the likeliest tokens that together have this probability."
    ),
    "sampling.top_k": QT_TRANSLATE_NOOP(
        "RunConfig", "Chooses among so many of the likeliest tokens; 0 = all."
    ),
    "sampling.min_p": QT_TRANSLATE_NOOP(
        "RunConfig", "Leaves out tokens less likely than this share of the likeliest."
    ),
    "sampling.presence_penalty": QT_TRANSLATE_NOOP(
        "RunConfig", "Makes tokens that were used less likely, however often they were."
    ),
    "sampling.frequency_penalty": QT_TRANSLATE_NOOP(
        "RunConfig", "Makes tokens less likely the more often they were used."
    ),
    "sampling.repetition_penalty": QT_TRANSLATE_NOOP(
        "RunConfig", "Divides the likelihood of tokens that were used; 1 = off."
    ),
}

GROUPS = {
    Group.MODEL: QT_TRANSLATE_NOOP("RunConfig", "Model"),
    Group.COMPUTING: QT_TRANSLATE_NOOP("RunConfig", "Computing"),
    Group.SESSIONS: QT_TRANSLATE_NOOP("RunConfig", "Conversations in memory"),
    Group.SERVER: QT_TRANSLATE_NOOP("RunConfig", "Server"),
    Group.LOADING: QT_TRANSLATE_NOOP("RunConfig", "Loading"),
    Group.ANSWERS: QT_TRANSLATE_NOOP("RunConfig", "Answers"),
    Group.TOOLS: QT_TRANSLATE_NOOP("RunConfig", "Tools and other servers"),
}


def label_of(row: ConfigRow) -> str:
    """What a setting is called."""
    label = LABELS.get(row.key)
    return QCoreApplication.translate(_CONTEXT, str(label)) if label is not None else row.key


def description_of(row: ConfigRow) -> str:
    """What it does."""
    text = row.description or SAMPLING_HINTS.get(row.key, "")
    return QCoreApplication.translate(_CONTEXT, str(text)) if text else ""


def group_title(group: Group) -> str:
    """What a group is called."""
    return QCoreApplication.translate(_CONTEXT, str(GROUPS[group]))


def allowed_in_words(row: ConfigRow) -> str:
    """What a value must be, such as `a whole number from 0 to 65535`."""
    translate = QCoreApplication.translate
    match row.kind:
        case Kind.SWITCH:
            return translate("RunConfig", "on or off")
        case Kind.CHOICE:
            return translate("RunConfig", "one of {choices}").format(choices=", ".join(row.choices))
        case Kind.INTEGER:
            return _in_range(translate("RunConfig", "a whole number"), row.limits)
        case Kind.NUMBER:
            return _in_range(translate("RunConfig", "a number"), row.limits)
        case Kind.PATH:
            return translate("RunConfig", "a file")
        case Kind.LINES:
            if row.limits.min_chars:
                text = translate("RunConfig", "texts of {n} characters or more, one a line")
                return text.format(n=row.limits.min_chars)
            return translate("RunConfig", "texts, one a line")
        case _:
            return translate("RunConfig", "text")


def _in_range(noun: str, limits: Limits) -> str:
    translate = QCoreApplication.translate
    low, above, high = limits.low, limits.above, limits.high
    if low is not None and high is not None:
        text = translate("RunConfig", "{what} from {low} to {high}")
    elif low is not None:
        text = translate("RunConfig", "{what} of {low} or more")
    elif above is not None and high is not None:
        text = translate("RunConfig", "{what} above {above} and up to {high}")
    elif above is not None:
        text = translate("RunConfig", "{what} above {above}")
    elif high is not None:
        text = translate("RunConfig", "{what} up to {high}")
    else:
        return noun
    return text.format(what=noun, low=_plain(low), above=_plain(above), high=_plain(high))


def _plain(number: float | None) -> str:
    return "" if number is None else f"{number:g}" if number < 1e6 else str(int(number))
