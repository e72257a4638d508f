"""Chooses the tokens that a draft head may propose, by how often texts use them.

    python -m tools.draft_vocabulary --model MODEL.gguf --text FILES... --most 40000 --out ids.json

Name the result in `spec_vocabulary`. The tokens of `--script` are always among them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from engine.core.gguf_header import read_model_header
from engine.decode.draft.vocabulary import SCRIPTS, script_ids, write_vocabulary_file
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import read_vocabulary

PIECE_CHARS = 1 << 20


def main(words: Sequence[str] | None = None) -> int:
    """Count and write; 0."""
    parser = argparse.ArgumentParser(description="choose the tokens of a draft head")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE")
    parser.add_argument("--text", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--script", choices=sorted(SCRIPTS), help="all tokens of these letters")
    parser.add_argument("--most", type=int, default=40_000, metavar="N", help="tokens by count")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    arguments = parser.parse_args(words)
    vocabulary = read_vocabulary(read_model_header(arguments.model).metadata)
    tokenizer = Tokenizer(vocabulary)
    counts: Counter[int] = Counter()
    for path in arguments.text:
        with path.open(encoding="utf-8") as file:
            while text := "".join(file.readlines(PIECE_CHARS)):
                counts.update(tokenizer.encode(text))
    ids = {token_id for token_id, _ in counts.most_common(arguments.most)}
    if arguments.script is not None:
        wanted = script_ids(vocabulary.token_bytes, tokenizer.vocab_size, arguments.script)
        ids.update(wanted.tolist())
    ids.update(i for i in range(tokenizer.vocab_size) if vocabulary.is_control(i))
    write_vocabulary_file(sorted(ids), vocabulary.tokens, arguments.out)
    covered = sum(count for token_id, count in counts.items() if token_id in ids)
    share = f", {covered / counts.total():.1%} of the texts" if counts else ""
    print(f"{arguments.out}: {len(ids)} of {tokenizer.vocab_size} tokens{share}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
