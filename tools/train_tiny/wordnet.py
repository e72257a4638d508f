"""Reads words and their meanings from the WordNet 3.0 files (Debian package wordnet-base).

Files: `data.*` hold one synset a line, its words before `|` and its gloss behind; `index.*` give a
word's synsets, most usual first, and how many of them were met in WordNet's tagged texts.
"""

import re
from dataclasses import dataclass
from pathlib import Path

PARTS = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}
# Digits of the parts in sense keys; adjectives have two, plain and satellite.
PART_DIGITS = {"noun": "1", "verb": "2", "adj": "35", "adv": "4"}
# The small model must not hand out slurs and the like; a gloss says so of itself.
UNWANTED = re.compile(
    r"offensive|disparag|obscene|derogat|slur\b|vulgar|sexual|copulat|genital|prostitut|feces"
    r"|ethnic|taboo|contempt|slang|negro|jew|excrement|racial|penis|vagina|anus|urin",
    re.IGNORECASE,
)
# Longer glosses lose what they have in brackets.
PLAIN_GLOSS_CHARS = 70
WORD_PATTERN = re.compile(r"[a-z][a-z-]{1,18}( [a-z-]{2,14})?")


@dataclass(frozen=True, slots=True)
class Meaning:
    """One word in its most usual sense of one part of speech."""

    word: str
    part: str  # noun, verb, adjective, adverb
    gloss: str
    examples: tuple[str, ...]
    synonyms: tuple[str, ...]
    kind_of: str  # a noun's hypernym, or ""
    count: int  # how often WordNet's tagged texts use the word in this sense

    @property
    def is_usual(self) -> bool:
        """Whether WordNet's tagged texts hold the word in this sense."""
        return self.count > 0


@dataclass(frozen=True, slots=True)
class _Synset:
    words: tuple[str, ...]
    hypernym: str
    gloss: str
    examples: tuple[str, ...]
    is_unwanted: bool


def _parse_synset(line: str) -> tuple[str, _Synset]:
    left, _, text = line.partition("|")
    fields = left.split()
    count = int(fields[3], 16)
    words = tuple(
        re.sub(r"\(\w+\)$", "", fields[4 + 2 * i]).replace("_", " ") for i in range(count)
    )
    pointers = fields[4 + 2 * count :]
    hypernym = ""
    for i in range(int(pointers[0])):
        if pointers[1 + 4 * i] == "@":
            hypernym = pointers[2 + 4 * i]
            break
    is_unwanted = UNWANTED.search(text) is not None
    examples = tuple(e.strip() for e in re.findall(r'"([^"]{8,80})"', text))
    gloss = re.sub(r'"[^"]*("|$)', "", text)
    # Keep the first clause set: further ones after ";" are near repeats that cost tokens.
    clauses = [c.strip() for c in gloss.split(";") if c.strip()]
    gloss = clauses[0] if clauses else ""
    gloss = re.sub(r"^\([^)]*\)\s*", "", gloss).strip(" -:,")
    if len(gloss) > PLAIN_GLOSS_CHARS:
        gloss = re.sub(r"\s*\([^)]*\)", "", gloss)
    return fields[0], _Synset(words, hypernym, gloss, examples, is_unwanted)


def _read_counts(folder: Path) -> dict[tuple[str, str, int], int]:
    """Returns tagged-text counts by (word, part digit, sense number)."""
    counts: dict[tuple[str, str, int], int] = {}
    for line in (folder / "cntlist.rev").read_text(encoding="utf-8").splitlines():
        key, sense, count = line.split()
        word, _, rest = key.partition("%")
        counts[word, rest[0], int(sense)] = int(count)
    return counts


def read_meanings(folder: Path, max_gloss_chars: int = 90) -> list[Meaning]:
    """Returns every usable word's first meaning for each part of speech, in file order."""
    synsets: dict[tuple[str, str], _Synset] = {}
    for part in PARTS:
        for line in (folder / f"data.{part}").read_text(encoding="utf-8").splitlines():
            if not line.startswith("  "):
                offset, synset = _parse_synset(line)
                synsets[part, offset] = synset
    counts = _read_counts(folder)
    found = []
    for part, part_name in PARTS.items():
        for line in (folder / f"index.{part}").read_text(encoding="utf-8").splitlines():
            if line.startswith("  "):
                continue
            fields = line.split()
            word = fields[0].replace("_", " ")
            num_senses = int(fields[2])
            synset = synsets[part, fields[-num_senses]]
            proper = word not in synset.words  # capitalised in the synset: a name
            if proper or synset.is_unwanted or not WORD_PATTERN.fullmatch(word):
                continue
            if not 8 <= len(synset.gloss) <= max_gloss_chars:
                continue
            above = synsets.get((part, synset.hypernym))
            found.append(
                Meaning(
                    word=word,
                    part=part_name,
                    gloss=synset.gloss,
                    examples=synset.examples,
                    synonyms=tuple(w for w in synset.words if w != word and w == w.lower()),
                    kind_of=above.words[0] if above is not None and part == "noun" else "",
                    count=max(counts.get((fields[0], d, 1), 0) for d in PART_DIGITS[part]),
                )
            )
    return found
