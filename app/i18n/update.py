"""Collects the texts of the app's code into the Qt Linguist files and compiles them.

    python -m app.i18n.update                  collect, compile, say what is not translated yet
    python -m app.i18n.update --missing        the same, and print what is missing as JSON
    python -m app.i18n.update --fill FILE      put translations in first: {"Context": {"English": "..."}}
    python -m app.i18n.update --check          change nothing; exit status 1 when something is missing

A text with a number (`%n`) has a form for each grammatical number, in both languages:
`{"zh_CN": ["%n 个文件"], "en": ["%n file", "%n files"]}`. `--missing` prints what `--fill` reads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET  # our own files
from collections.abc import Mapping, Sequence
from pathlib import Path

import PySide6
from PySide6.QtCore import QLockFile

FOLDER = Path(__file__).parent
APP = FOLDER.parent
# The language, and whether only texts with a number are translated (English has two forms of those).
FILES = {"zh_CN": False, "en": True}

_LOCK_MS = 60_000

Text = str | dict[str, list[str]]
Texts = dict[str, dict[str, Text]]


class UpdateError(Exception):
    """A tool of Qt failed; the message is what it said."""


def source_files(root: Path = APP) -> list[Path]:
    """Every file of the app that may hold a text."""
    return sorted(path for path in root.rglob("*.py") if path.parent != FOLDER)


def collect(ts: Path, *, only_plural: bool) -> None:
    """Bring a Linguist file in line with the code; texts that have gone are dropped."""
    with tempfile.NamedTemporaryFile("w", suffix=".lst", encoding="utf-8", delete=False) as listing:
        listing.write("\n".join(str(path) for path in source_files()))
    try:
        options = ["-locations", "none", "-no-obsolete", "-no-ui-lines", "-silent"]
        options += ["-source-language", "en", "-target-language", ts.stem]
        if only_plural:
            options.append("-pluralonly")
        _run("lupdate", [*options, f"@{listing.name}", "-ts", str(ts)])
    finally:
        Path(listing.name).unlink()


def compile_file(ts: Path, qm: Path) -> None:
    """Make what the app reads."""
    _run("lrelease", ["-silent", str(ts), "-qm", str(qm)])


def missing(ts: Path) -> Texts:
    """What has no finished translation, by context."""
    found: Texts = {}
    for context, message in _messages(ET.parse(ts)):  # noqa: S314  # our own file
        translation = message.find("translation")
        if translation is None or translation.get("type") == "unfinished" or _is_empty(translation):
            is_plural = message.get("numerus") == "yes"
            source = message.findtext("source") or ""
            found.setdefault(context, {})[source] = {ts.stem: [""]} if is_plural else ""
    return found


def fill(ts: Path, texts: Mapping[str, Mapping[str, Text]]) -> int:
    """Put translations into a Linguist file; how many texts were filled."""
    tree = ET.parse(ts)  # noqa: S314  # our own file
    count = 0
    for context, message in _messages(tree):
        given = texts.get(context, {}).get(message.findtext("source") or "")
        text = given.get(ts.stem) if isinstance(given, dict) else given
        if not text:
            continue
        translation = message.find("translation")
        if translation is None:
            translation = ET.SubElement(message, "translation")
        translation.attrib.pop("type", None)
        for form in translation.findall("numerusform"):
            translation.remove(form)
        if isinstance(text, list):
            translation.text = None
            for form_text in text:
                ET.SubElement(translation, "numerusform").text = str(form_text)
        else:
            translation.text = str(text)
        count += 1
    body = ET.tostring(tree.getroot(), encoding="unicode")
    ts.write_text(
        f'<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n{body}\n', encoding="utf-8"
    )
    return count


def _messages(tree: ET.ElementTree[ET.Element]) -> list[tuple[str, ET.Element]]:
    return [
        (context.findtext("name") or "", message)
        for context in tree.getroot().iter("context")
        for message in context.iter("message")
    ]


def _is_empty(translation: ET.Element) -> bool:
    forms = translation.findall("numerusform")
    texts = [form.text for form in forms] if forms else [translation.text]
    return not all(text and text.strip() for text in texts)


def _run(tool: str, arguments: Sequence[str]) -> None:
    # The package's own start scripts look for the tools; beside them is the shorter way.
    folder = Path(PySide6.__file__).parent
    program = folder / (f"{tool}.exe" if sys.platform == "win32" else tool)
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    if done.returncode != 0:
        raise UpdateError(f"{tool} failed: {done.stderr.strip() or done.stdout.strip()}")


def all_missing() -> Texts:
    """What is missing in any language."""
    found: Texts = {}
    for name in FILES:
        for context, texts in missing(FOLDER / f"{name}.ts").items():
            here = found.setdefault(context, {})
            for source, text in texts.items():
                before = here.get(source)
                both = isinstance(before, dict) and isinstance(text, dict)
                here[source] = {**before, **text} if both else text  # type: ignore[dict-item]  # both are
    return found


def update(texts: Mapping[str, Mapping[str, Text]]) -> int:
    """Collect, fill and compile; how many texts were filled."""
    lock = QLockFile(str(FOLDER / "update.lock"))
    if not lock.tryLock(_LOCK_MS):
        raise UpdateError("Another update of the texts has not ended for a minute.")
    count = 0
    try:
        for name, only_plural in FILES.items():
            ts = FOLDER / f"{name}.ts"
            collect(ts, only_plural=only_plural)
            if texts:
                count += fill(ts, texts)
                # Qt's own order and form of the file, so that a change is one line there too.
                collect(ts, only_plural=only_plural)
            compile_file(ts, ts.with_suffix(".qm"))
    finally:
        lock.unlock()
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 when something is not translated."""
    parser = argparse.ArgumentParser(prog="python -m app.i18n.update")
    parser.add_argument("--fill", type=Path, metavar="FILE", help="translations, as JSON")
    parser.add_argument("--missing", action="store_true", help="print what is missing, as JSON")
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(arguments)
    if not options.check:
        texts = json.loads(options.fill.read_text("utf-8")) if options.fill is not None else {}
        sys.stderr.write(f"{update(texts)} texts filled\n")
    left = all_missing()
    if options.missing:
        sys.stdout.write(json.dumps(left, ensure_ascii=False, indent=1) + "\n")
    count = sum(len(in_context) for in_context in left.values())
    if count:
        sys.stderr.write(f"{count} texts are not translated yet: {', '.join(sorted(left))}\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
