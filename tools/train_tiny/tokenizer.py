"""Trains the bundled model's byte-level BPE and lays it out for GGUF (spec/qwen4exp.md section 10).

Ordinary pieces come first, control tokens last, as in the family's files. It knows nothing of the
model.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import cast

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

# Pre-tokenizer `qwen35`: marks belong to letters, digits stand alone.
SPLIT_REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
END_OF_TEXT = "<|endoftext|>"
END_OF_TURN = "<|im_end|>"
# Every special token of spec/tools_format.md section 1, in the order of the family's vocabulary.
SPECIAL_TOKENS = (
    END_OF_TEXT,
    "<|im_start|>",
    END_OF_TURN,
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
NORMAL, CONTROL = 1, 3


def train(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Returns a tokenizer of exactly `vocab_size` tokens, the control tokens included."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_REGEX), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        min_frequency=2,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    found = tokenizer.get_vocab_size()
    if found != vocab_size:
        message = (
            f"The text gave {found} tokens, not {vocab_size}. Give more text or ask for fewer."
        )
        raise ValueError(message)
    return tokenizer


def load(path: Path) -> Tokenizer:
    """Returns a tokenizer from its JSON file."""
    return Tokenizer.from_file(str(path))


def special_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Returns the id of every control token."""
    return {text: int(tokenizer.token_to_id(text)) for text in SPECIAL_TOKENS}


def vocabulary(tokenizer: Tokenizer) -> tuple[list[str], list[int]]:
    """Returns the tokens in id order and their GGUF token types (1 normal, 3 control)."""
    by_id = {token_id: text for text, token_id in tokenizer.get_vocab().items()}
    tokens = [by_id[i] for i in range(len(by_id))]
    return tokens, [CONTROL if text in SPECIAL_TOKENS else NORMAL for text in tokens]


def merges(tokenizer_json: dict[str, object]) -> list[str]:
    """Returns the merges as `left right` lines, from the tokenizer's parsed JSON."""
    model = cast("dict[str, list[str | list[str]]]", tokenizer_json["model"])
    return [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
