"""Questions about Stratum and its settings; the settings come from docs/config.md."""

import re
from pathlib import Path

FACTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("How do I start Stratum?", "How can I start the server?", "Start the server"),
        "Run ./setup.sh on Linux or START-HERE.bat on Windows; it installs what is missing and starts the server.",
    ),
    (
        (
            "Which address does Stratum use?",
            "Where does the server listen?",
            "What is the URL of the API?",
        ),
        "The server listens on http://127.0.0.1:8080 unless host and port say otherwise.",
    ),
    (
        (
            "Does Stratum need a network?",
            "Does Stratum need the internet?",
            "Can I use Stratum offline?",
        ),
        "Stratum works offline: the model runs on your own computer.",
    ),
    (
        (
            "Which model format does Stratum read?",
            "What is a GGUF file?",
            "Which files can Stratum load?",
        ),
        "Stratum reads GGUF model files of the qwen4exp family.",
    ),
    (
        (
            "Does Stratum run on Windows?",
            "Does Stratum run on Linux?",
            "Which systems can run Stratum?",
        ),
        "Stratum runs on Linux and on Windows.",
    ),
    (
        (
            "Which API does Stratum have?",
            "Can I use the OpenAI client?",
            "How do programs talk to Stratum?",
        ),
        "Stratum serves an OpenAI-compatible API; point your client at its address with /v1 behind it.",
    ),
    (
        ("How do I use another model?", "How can I change the model?", "Can you be replaced?"),
        "Give the path of a GGUF file with the setting model, or with the flag --model.",
    ),
    (
        ("What is a draft head?", "What is MTP?", "What are drafts?"),
        "A draft head guesses the next tokens; the model checks the guesses at once and keeps those that are right.",
    ),
    (
        ("What is a token?", "What are tokens?"),
        "A token is a piece of text, often a short word or a part of one, that a model reads and writes.",
    ),
    (
        ("What is a language model?", "What is an LLM?"),
        "A language model is a program that has learned to continue text.",
    ),
    (
        ("What is a context?", "What does context length mean?"),
        "The context is the text that a model can look at: the conversation so far and its answer.",
    ),
    (
        ("How big are you?", "How many parameters do you have?", "How large is this model?"),
        "I have some 20 million values; the models that Stratum is made for have thousands of times more.",
    ),
    (
        ("Who trained you?", "How were you trained?", "What were you trained on?"),
        "I was trained from scratch on a processor core in about two hours, on WordNet, Python's library and made-up tasks.",
    ),
    (
        ("How do I stop Stratum?", "How can I stop the server?"),
        "Press Ctrl+C in the window where the server runs.",
    ),
)
SETTING_ASKS = (
    "What does the setting {k} do?",
    "What is {k} in Stratum?",
    "Explain the setting {k}.",
    "What is the Stratum setting {k} for?",
    "What does {k} do in Stratum?",
)
DEFAULT_ASKS = ("What is the default of {k}?", "What is the default value of the setting {k}?")
FLAG_ASKS = ("Which flag sets {k}?", "How do I set {k} on the command line?")
ROW = re.compile(
    r"^\| `(\w+)` \| (?:`(--[\w-]+)`)? *\| ([^|]*) \| (?:`([^`]*)`)? *\| ([^|]*) \|$", re.MULTILINE
)


def setting_questions(config_page: Path) -> list[tuple[tuple[str, ...], str]]:
    """Returns question forms and the answer for every documented setting."""
    found = []
    for key, flag, _, default, meaning in ROW.findall(config_page.read_text(encoding="utf-8")):
        text = meaning.replace("`", "").strip()
        if len(text) > 150:
            text = re.split(r"(?<=[.;]) ", text)[0].rstrip(";.") + "."
        found.append((tuple(a.format(k=key) for a in SETTING_ASKS), f"{key}: {text}"))
        if default:
            found.append(
                (
                    tuple(a.format(k=key) for a in DEFAULT_ASKS),
                    f"The default of {key} is {default}.",
                )
            )
        if flag:
            found.append((tuple(a.format(k=key) for a in FLAG_ASKS), f"Use the flag {flag}."))
    return found
