"""Texts: every text of the code has its Chinese, with the same values, and the compiled files are new."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("PySide6.QtWidgets", exc_type=ImportError)

from PySide6.QtCore import QCoreApplication, QTranslator

from app.i18n import update
from app.i18n.translate import FOLDER, Translations
from engine.core.language import Language

NAMES = sorted(update.FILES)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Linguist files as the code wants them, made from copies of those that are kept."""
    folder = tmp_path_factory.mktemp("texts")
    for name, only_plural in update.FILES.items():
        copy = folder / f"{name}.ts"
        copy.write_bytes((FOLDER / f"{name}.ts").read_bytes())
        update.collect(copy, only_plural=only_plural)
    return folder


def texts_of(ts: Path) -> list[tuple[str, str, list[str]]]:
    """Context, source, and translations of every text."""
    found = []
    for context in ET.parse(ts).getroot().iter("context"):  # noqa: S314  # our own file
        for message in context.iter("message"):
            translation = message.find("translation")
            assert translation is not None
            forms = [form.text or "" for form in translation.findall("numerusform")]
            found.append(
                (
                    context.findtext("name") or "",
                    message.findtext("source") or "",
                    forms or [translation.text or ""],
                )
            )
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_text_is_without_translation(collected, name):
    assert update.missing(collected / f"{name}.ts") == {}


@pytest.mark.parametrize("name", NAMES)
def test_the_kept_files_are_what_the_code_wants(collected, name):
    assert texts_of(collected / f"{name}.ts") == texts_of(FOLDER / f"{name}.ts")


@pytest.mark.parametrize("name", NAMES)
def test_a_translation_has_the_same_values(name):
    fields = re.compile(r"\{[^{}]*\}|%n|%\d")
    for context, source, translations in texts_of(FOLDER / f"{name}.ts"):
        for translation in translations:
            wanted, found = set(fields.findall(source)), set(fields.findall(translation))
            assert found == wanted, f"{context}: {source!r} -> {translation!r}"


def test_every_text_belongs_to_a_place():
    for context, source, _translations in texts_of(FOLDER / "zh_CN.ts"):
        assert context, f"{source!r} was found under no context"


@pytest.mark.parametrize("name", NAMES)
def test_the_compiled_files_are_new(qapp, name):
    translator = QTranslator()
    assert translator.load(str(FOLDER / f"{name}.qm")) or not texts_of(FOLDER / f"{name}.ts")
    for context, source, translations in texts_of(FOLDER / f"{name}.ts"):
        if "%n" not in source:
            found = translator.translate(context, source)
            assert found == translations[0], f"{context}: {source!r}"


def test_qts_own_buttons_speak_the_language_too(qapp):
    translations = Translations()
    translations.speak(Language.CHINESE)
    assert QCoreApplication.translate("QPlatformTheme", "Cancel") == "取消"
    assert QCoreApplication.translate("TrayMenu", "Monitor") == "监视器"
    translations.speak(Language.ENGLISH)
    assert QCoreApplication.translate("TrayMenu", "Monitor") == "Monitor"
    assert QCoreApplication.translate("QPlatformTheme", "Cancel") == "Cancel"


def test_what_is_missing_can_be_filled_in_again(tmp_path):
    ts = tmp_path / "zh_CN.ts"
    ts.write_text(
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n<TS version="2.1" language="zh_CN">'
        "<context><name>A</name><message><source>one &amp; two</source>"
        '<translation type="unfinished"></translation></message>'
        '<message numerus="yes"><source>%n file(s)</source><translation type="unfinished">'
        "<numerusform></numerusform></translation></message></context></TS>",
        "utf-8",
    )
    assert update.missing(ts) == {"A": {"one & two": "", "%n file(s)": {"zh_CN": [""]}}}
    texts: update.Texts = {"A": {"one & two": "一和二", "%n file(s)": {"zh_CN": ["%n 个文件"]}}}
    assert update.fill(ts, texts) == 2
    assert update.missing(ts) == {}
    assert texts_of(ts) == [("A", "one & two", ["一和二"]), ("A", "%n file(s)", ["%n 个文件"])]
