"""`engine lookup build | stats`: n-gram caches of a corpus, and what drafting through a text gives.

`stats` prints what llama.cpp's `llama-lookup-stats` prints: a text is played as if a model wrote it,
in parts of `--context` tokens. Each part begins with an empty cache of its own; what it held is
counted for the next ones, as for requests that follow each other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.commands import Subparsers
from engine.core.errors import InputError
from engine.core.gguf_header import read_model_header
from engine.core.sizes import size_in_words
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import read_vocabulary

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from engine.decode.draft.lookup import PlayCounts

    TokenArray = npt.NDArray[np.int32]

PIECE_CHARS = 1 << 20  # of a text that are encoded at a time
MOST_DRAFT = 64


@dataclass(frozen=True, slots=True)
class _Played:
    """A part of a text: what came of it, and how long that took."""

    counts: PlayCounts
    seconds: float


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("lookup", help="n-gram caches: build one, or try drafting")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="make a cache file of a corpus")
    stats = actions.add_parser("stats", help="draft through a text and count")
    for action in (build, stats):
        action.add_argument(
            "--model", type=Path, required=True, metavar="FILE", help="whose vocabulary counts"
        )
        action.add_argument(
            "--text", type=Path, required=True, metavar="FILE", help="a text in UTF-8"
        )
    build.add_argument("--out", type=Path, required=True, metavar="CACHE", help="the result")
    stats.add_argument("--cache", type=Path, metavar="CACHE", help="made by `lookup build`")
    stats.add_argument(
        "--drafter",
        choices=("ngram", "lookup"),
        default="ngram",
        help="n-gram caches, or look-up of the longest match",
    )
    stats.add_argument("--draft", type=int, default=5, metavar="N", help="most tokens of a draft")
    stats.add_argument(
        "--match", type=int, default=3, metavar="N", help="shortest match of look-up, 3 to 12"
    )
    stats.add_argument("--context", type=int, default=4096, metavar="N", help="tokens of a part")
    stats.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Do it; 0.

    Raises:
        EngineError: a file cannot be used.
    """
    metadata = read_model_header(arguments.model).metadata
    vocabulary = read_vocabulary(metadata)
    tokens = _encoded(Tokenizer(vocabulary), arguments.text)
    if arguments.action == "build":
        return _build(tokens, vocabulary.tokens, arguments.out)
    return _stats(arguments, tokens, vocabulary.tokens)


def _encoded(tokenizer: Tokenizer, path: Path) -> TokenArray:
    """The tokens of a text; long ones say how far they are."""
    import numpy as np  # noqa: PLC0415  # after the light checks

    parts: list[TokenArray] = []
    try:
        size = path.stat().st_size
        with path.open(encoding="utf-8") as file:
            done = 0
            # Up to a line's end, so that no word is cut.
            while text := "".join(file.readlines(PIECE_CHARS)):
                parts.append(np.array(tokenizer.encode(text), np.int32))
                done += len(text.encode("utf-8", "surrogatepass"))
                if size > 8 * PIECE_CHARS and sys.stderr.isatty():
                    print(f"\rreading {path.name}: {done / size:.0%} ", end="", file=sys.stderr)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"The text {path} cannot be read ({error}); it must be a file in UTF-8."
        ) from error
    if len(parts) > 1 and sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return np.concatenate(parts) if parts else np.zeros(0, np.int32)


def _build(tokens: TokenArray, vocabulary: list[str], out: Path) -> int:
    from engine.decode.draft.ngram_file import NgramFile, build_ngram_file  # noqa: PLC0415

    build_ngram_file(tokens, vocabulary, out)
    with NgramFile.open(out, vocabulary) as file:
        print(f"{out}: {size_in_words(file.num_bytes)}, of {len(tokens)} tokens")
    return 0


def _stats(arguments: argparse.Namespace, tokens: TokenArray, vocabulary: list[str]) -> int:
    if not 1 <= arguments.draft <= MOST_DRAFT:
        raise InputError(f"--draft must be a whole number from 1 to {MOST_DRAFT}.")
    if arguments.context < 1:
        raise InputError("--context must be at least 1.")
    opened_s = 0.0
    if arguments.drafter == "lookup":
        played = _parts(tokens, arguments.context, _lookup_player(arguments))
    else:
        from engine.decode.draft.ngram_file import NgramFile  # noqa: PLC0415

        began_at = time.perf_counter()
        file = None if arguments.cache is None else NgramFile.open(arguments.cache, vocabulary)
        opened_s = time.perf_counter() - began_at
        try:
            played = _parts(tokens, arguments.context, _ngram_player(arguments, file))
        finally:
            if file is not None:
                file.close()
    _report(arguments, tokens, played, opened_s)
    return 0


def _lookup_player(arguments: argparse.Namespace) -> Callable[[TokenArray], PlayCounts]:
    from engine.decode.draft.lookup import LookupIndex  # noqa: PLC0415

    return lambda part: LookupIndex().play(part, arguments.draft, arguments.match)


def _ngram_player(
    arguments: argparse.Namespace, file: object
) -> Callable[[TokenArray], PlayCounts]:
    from engine.decode.draft.ngram import NgramDrafter, NgramTable  # noqa: PLC0415
    from engine.decode.draft.ngram_file import NgramFile  # noqa: PLC0415

    corpus = file if isinstance(file, NgramFile) else None
    others = NgramTable()

    def play(part: TokenArray) -> PlayCounts:
        drafter = NgramDrafter(others, corpus)
        counts = drafter.play(part, arguments.draft)
        others.append(drafter.tokens, 0, len(part))
        return counts

    return play


def _parts(
    tokens: TokenArray, context: int, play: Callable[[TokenArray], PlayCounts]
) -> list[_Played]:
    played = []
    for start in range(0, len(tokens), context):
        began_at = time.perf_counter()
        counts = play(tokens[start : start + context])
        played.append(_Played(counts, time.perf_counter() - began_at))
    return played


def _report(
    arguments: argparse.Namespace, tokens: TokenArray, played: list[_Played], opened_s: float
) -> None:
    drafted = sum(part.counts.num_drafted for part in played)
    accepted = sum(part.counts.num_accepted for part in played)
    seconds = sum(part.seconds for part in played)
    each = [p.seconds / p.counts.num_drafted * 1e6 for p in played if p.counts.num_drafted]
    median_us = statistics.median(each) if each else 0.0
    if arguments.json:
        figures = {
            "tokens": len(tokens),
            "n_draft": arguments.draft,
            "n_predict": sum(part.counts.num_steps + part.counts.num_accepted for part in played),
            "n_drafted": drafted,
            "n_accept": accepted,
            "accept": round(accepted / drafted, 4) if drafted else 0.0,
            "t_draft_flat_ms": round(opened_s * 1000, 4),
            "t_draft_ms": round(seconds * 1000, 2),
            "median_us_per_drafted_token": round(median_us, 4),
        }
        print(json.dumps(figures))
        return
    rate = drafted / seconds if seconds else 0.0
    mean_us = seconds / drafted * 1e6 if drafted else 0.0
    share = 100 * accepted / drafted if drafted else 0.0
    print(f"n_draft      = {arguments.draft}")
    print(f"n_predict    = {sum(p.counts.num_steps + p.counts.num_accepted for p in played)}")
    print(f"n_drafted    = {drafted}")
    print(f"t_draft_flat = {opened_s * 1000:.2f} ms")
    print(
        f"t_draft      = {seconds * 1000:.2f} ms, {mean_us:.2f} us per token, "
        f"{rate:.2f} tokens per second (median of parts {median_us:.2f} us; counting included)"
    )
    print(f"n_accept     = {accepted}")
    print(f"accept       = {share:.3f}%")
