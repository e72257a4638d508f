"""`--check`: one verdict for lines, JSON and exit status; every note has a sentence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.catalog_file import load_catalog
from engine.core.language import Language
from engine.core.network_reach import ReachState
from installer.check import CheckReport, check_as_plain, check_lines, report_on
from installer.i18n import chinese_pc, english_pc
from installer.i18n.texts import Texts
from installer.recommend import Mark, Wish
from tests.installer.test_recommend import ROWS

ROOT = Path(__file__).parents[2]
SOURCES = (*(ROOT / "engine" / "core").glob("*.py"), *(ROOT / "installer").glob("*.py"))


def report(name: str, wish: Wish | None = None) -> CheckReport:
    row = ROWS[name]
    return report_on(row.survey, load_catalog(), wish or row.wish)


def codes_in_the_sources() -> set[str]:
    found: set[str] = set()
    for path in SOURCES:
        found |= set(re.findall(r"""\bNote\(\s*"([a-z0-9_]+)\"""", path.read_text("utf-8")))
    found |= {f"hub_{state.value}" for state in ReachState if state is not ReachState.NOT_ASKED}
    found |= {"recommended_tight", "recommended_for_ram", "memory_found", "memory_little"}
    found |= {"cpu_found", "cpu_found_hybrid"}
    catalog = load_catalog()
    for model in catalog.models:
        found |= {*model.notes, *catalog.family_of(model).notes}
    return found


@pytest.mark.parametrize("language", Language)
def test_every_note_has_a_sentence_in_every_language(language: Language) -> None:
    texts = Texts(language)
    missing = {code for code in codes_in_the_sources() if not texts.has(f"note.{code}")}
    assert missing == set()


def test_both_languages_say_the_same_with_the_same_values() -> None:
    english, chinese = english_pc.TEXTS, chinese_pc.TEXTS
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        values = sorted(re.findall(r"\{[^}]*\}", text))
        assert sorted(re.findall(r"\{[^}]*\}", chinese[key])) == values, key


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("name", ROWS)
def test_every_line_is_a_sentence_with_its_values(name: str, language: Language) -> None:
    lines = list(check_lines(report(name), Texts(language)))
    assert len(lines) > 10
    for line in lines:
        assert not re.search(r"[{}]|\bNone\b|_[a-z]+_", line.replace("ud-q4_k_xl", "")), line


@pytest.mark.parametrize("name", ROWS)
def test_lines_json_and_exit_status_give_one_verdict(name: str) -> None:
    found = report(name)
    plain = json.loads(json.dumps(check_as_plain(found)))
    verdict = found.recommendation.verdict
    last = list(check_lines(found, Texts(Language.ENGLISH)))[-1]
    assert plain["verdict"] == verdict.value
    assert plain["exit_status"] == found.exit_status == (1 if verdict is Mark.RED else 0)
    assert last == Texts(Language.ENGLISH).say(f"check.verdict_{verdict.value}")
    assert plain["recommended"] in {model["model_id"] for model in plain["models"]}
    assert all(note["text"] != note["code"] for note in plain["findings"] + plain["reasons"])


def test_a_model_that_was_chosen_is_judged_with_its_risks() -> None:
    found = report("32 GB kit, reports 31.1", Wish(model_id="qwen-iq3_s"))
    assert found.recommendation.choice.model_id == "qwen-iq3_s"
    assert found.recommendation.verdict is Mark.RED
    lines = list(check_lines(found, Texts(Language.ENGLISH)))
    assert any(line.startswith("Chosen: ") for line in lines)
    assert any("Needs 54" in line for line in lines)


def test_a_context_beyond_the_training_is_capped_and_this_is_said() -> None:
    found = report("128 GB", Wish(context=524_288))
    choice = found.recommendation.choice
    assert choice.context == 262_144
    assert "context_capped" in {note.code for note in choice.notes}


def test_a_context_that_is_short_for_agents_is_said() -> None:
    found = report("64 GB kit, reports 62.7", Wish(for_coding_agents=True, context=8_192))
    assert "context_short_for_agents" in {note.code for note in found.recommendation.reasons}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "installer", "--check", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=300
    )


def test_the_command_looks_at_this_pc_and_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "größe 測試"
    done = run("--json", "--data-dir", str(folder))
    plain = json.loads(done.stdout)
    assert done.returncode == plain["exit_status"]
    assert plain["format"] == 1
    assert plain["pc"]["took_s"] > 0
    assert not folder.exists()


def test_a_model_that_there_is_not_is_one_sentence() -> None:
    done = run("--model", "gpt-7")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "gpt-7" in done.stderr
