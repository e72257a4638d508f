"""Texts and queries in the form in which the full-text index compares them.

Words are found by their beginnings ("recur" finds "recursion"). Chinese, Japanese and Korean have no
blanks between words, so their runs are indexed as overlapping pairs:

    indexed("中文搜索")   "中文 文搜 搜索 索"       the last character alone, so that it is found too
    query  "搜索"         "搜索"                    one pair
    query  "文搜索"       "文搜 搜索" as a phrase
    query  "索"           "索"*                     a pair or a character that begins with it

Everything is compared in Unicode's compatible form (full-width letters are letters).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

# Han with its extensions and compatibility forms, kana, hangul, and the iteration marks.
_CJK = (
    "\u3005-\u3007\u3031-\u3035\u303b\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\u1100-\u11ff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_CJK_RUN = re.compile(f"[{_CJK}]+")

# Texts of attachments are found by their beginnings only; an index of a whole book helps nobody.
MAX_INDEXED_CHARS = 400_000
MAX_TERMS = 12

SNIPPET_BEFORE = 40
SNIPPET_CHARS = 160


def indexed(text: str) -> str:
    """A text as it goes into the index."""
    return _CJK_RUN.sub(_pairs, unicodedata.normalize("NFKC", text[:MAX_INDEXED_CHARS]))


def _pairs(run: re.Match[str]) -> str:
    chars = run[0]
    pairs = [chars[start : start + 2] for start in range(len(chars) - 1)]
    return " " + " ".join([*pairs, chars[-1]]) + " "


@dataclass(frozen=True, slots=True)
class Query:
    """A search.

    Attributes:
        match: the expression for FTS5; empty when no index can help (only signs).
        terms: what must occur in the text, folded; for marks in snippets.
        signs: terms that the index does not know, such as `++`; checked in the text itself.
    """

    match: str
    terms: tuple[str, ...]
    signs: tuple[str, ...]


def read_query(text: str) -> Query | None:
    """What a person typed, as a query; None when it is blank."""
    normal = unicodedata.normalize("NFKC", text)
    matches: list[str] = []
    terms: list[str] = []
    signs: list[str] = []
    for word in normal.split()[:MAX_TERMS]:
        parts = [part for part in _split(word) if part]
        if any(not _is_indexed(part) for part in parts) or "_" in word:
            signs.append(folded(word))
        matches += [_expression(part) for part in parts if _is_indexed(part)]
        terms.append(folded(word))
    if not terms:
        return None
    return Query(" AND ".join(matches), tuple(terms), tuple(signs))


def _split(word: str) -> list[str]:
    """Runs of CJK, of letters and digits, and of signs."""
    parts: list[str] = []
    start = 0
    for run in _CJK_RUN.finditer(word):
        parts += re.findall(r"\w+|[^\w\s]+", word[start : run.start()])
        parts.append(run[0])
        start = run.end()
    return parts + re.findall(r"\w+|[^\w\s]+", word[start:])


def _is_indexed(part: str) -> bool:
    return any(char.isalnum() for char in part)


def _expression(part: str) -> str:
    if not _CJK_RUN.fullmatch(part) or len(part) == 1:
        return f'"{part}"*'
    pairs = [part[start : start + 2] for start in range(len(part) - 1)]
    return '"' + " ".join(pairs) + '"'


def folded(text: str) -> str:
    """For comparing: without case, accents and width."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a text; see `SearchHit`."""

    text: str
    marks: tuple[tuple[int, int], ...]
    offset: int


def find_terms(text: str, terms: tuple[str, ...]) -> list[tuple[int, int]]:
    """Where the terms occur in the text as it is written, in order, without overlaps."""
    lowered = text.lower()
    if len(lowered) == len(text) and text.isascii():
        places = _places(lowered, terms)
        return _merged(places)
    plain, origin = _folded_with_origin(text)
    places = [(origin[begin], origin[end - 1] + 1) for begin, end in _places(plain, terms)]
    return _merged(places)


def _places(text: str, terms: tuple[str, ...]) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    for term in terms:
        begin = text.find(term)
        while begin >= 0 and len(places) < 200:
            places.append((begin, begin + len(term)))
            begin = text.find(term, begin + len(term))
    return places


def _merged(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(places):
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _folded_with_origin(text: str) -> tuple[str, list[int]]:
    """The folded text, and for each of its characters the place in the text that it came from."""
    chars: list[str] = []
    origin: list[int] = []
    for index, char in enumerate(text):
        for plain in folded(char):
            chars.append(plain)
            origin.append(index)
    return "".join(chars), origin


def snippet(text: str, terms: tuple[str, ...]) -> Snippet:
    """A piece around the first match, on one line, with the matches marked."""
    places = find_terms(text[:MAX_INDEXED_CHARS], terms)
    first = places[0][0] if places else 0
    begin = max(0, first - SNIPPET_BEFORE)
    if begin:  # at the beginning of a word, if one is near
        blank = text.find(" ", begin, first)
        begin = blank + 1 if blank >= 0 else begin
    end = min(len(text), begin + SNIPPET_CHARS)
    # One blank for one sign of white space: so the places stay right.
    line = re.sub(r"\s", " ", text[begin:end])
    head, tail = ("…" if begin else ""), ("…" if end < len(text) else "")
    shift = len(head) - begin
    marks = tuple(
        (max(a, begin) + shift, min(b, end) + shift) for a, b in places if b > begin and a < end
    )
    return Snippet(head + line + tail, marks, first)
