"""The made-up tasks: their answers are right, and what is held out stays out."""

import random
import re
from pathlib import Path

import pytest

from tools.train_tiny.arithmetic import result, sum_turn, worked
from tools.train_tiny.cases import copy_cases, rename_cases, sum_cases, tool_cases
from tools.train_tiny.chat import Turn
from tools.train_tiny.copying import Passages, copy_turn, random_repeats
from tools.train_tiny.editing import EditTasks, library_functions, renamable, rename
from tools.train_tiny.held_out import is_held_out_function, is_held_out_sum, is_held_out_topic
from tools.train_tiny.recall import place_turn
from tools.train_tiny.stratum_facts import ROW
from tools.train_tiny.tokenizer import train
from tools.train_tiny.tool_tasks import ToolTasks
from tools.train_tiny.word_lists import TOPICS

WORDS = ["river", "house", "stone", "cloud", "chair", "green", "seven"]
SENTENCES = ["The river is long.", "A house has a door.", "Seven stones lay there."]
FUNCTIONS = [
    f"def read{i}(path, size):\n    total = size + {i}\n    return total" for i in range(60)
]
PASSAGES = Passages(SENTENCES, WORDS, FUNCTIONS)


@pytest.fixture
def draw() -> random.Random:
    return random.Random(4)  # noqa: S311 - repeatable draws, no secrets


@pytest.mark.parametrize(
    ("a", "sign", "b", "text"),
    [
        (27, "+", 45, "7 + 5 = 12, 20 + 40 = 60, 60 + 12 = 72."),
        (72, "-", 45, "12 - 5 = 7, 60 - 40 = 20, 20 + 7 = 27."),
        (72, "-", 41, "2 - 1 = 1, 70 - 40 = 30, 30 + 1 = 31."),
    ],
)
def test_a_sum_is_worked_out_by_ones_and_tens(a: int, sign: str, b: int, text: str) -> None:
    assert worked(a, sign, b) == text


@pytest.mark.parametrize("thinks", [True, False])
def test_every_line_of_a_drawn_sum_is_right_and_no_pair_is_held_out(
    draw: random.Random, thinks: bool
) -> None:
    for _ in range(500):
        turn = sum_turn(draw, thinks)
        assert (turn.thought is not None) == thinks
        lines = re.findall(r"(\d+) ([+-]) (\d+) = (\d+)", f"{turn.thought} {turn.answer}")
        assert len(lines) == 4
        for a, sign, b, made in lines:
            assert result(int(a), sign, int(b)) == int(made)
        a, _, b, _ = lines[-1]
        assert not is_held_out_sum(int(a), int(b))


def test_a_row_of_random_repeats_has_loss_only_where_looking_back_helps(
    draw: random.Random,
) -> None:
    for _ in range(100):
        row = random_repeats(draw, 3000, 97)
        assert len(row.ids) == len(row.weights) == 97
        for i in (i for i, weight in enumerate(row.weights) if weight > 0):
            pair = row.ids[i - 1 : i + 1]
            assert any(row.ids[j : j + 2] == pair for j in range(i - 1)), (i, row.ids)


@pytest.mark.parametrize(("min_words", "max_words"), [(1, 5), (80, 200)])
def test_what_is_to_be_copied_is_in_the_question_and_is_the_answer(
    draw: random.Random, min_words: int, max_words: int
) -> None:
    for _ in range(200):
        turn = copy_turn(draw, PASSAGES, min_words, max_words, thinks=False)
        assert turn.answer
        assert turn.answer in turn.question


def test_an_edit_changes_every_place_and_nothing_else(draw: random.Random) -> None:
    tasks = EditTasks(FUNCTIONS, PASSAGES)
    for _ in range(300):
        turn = tasks.turn(draw, thinks=False)
        assert turn.answer not in turn.question
        assert abs(turn.question.count("\n") - turn.answer.count("\n")) <= 2


def test_an_edit_names_the_old_and_the_new_one_word_apart(draw: random.Random) -> None:
    tasks = EditTasks(FUNCTIONS, PASSAGES)
    for _ in range(300):
        turn = tasks.turn(draw, thinks=True)
        assert turn.thought is not None
        old, new = turn.thought.split()[2:5:2]
        assert re.search(rf"\b{old} \w+ {new}\b", turn.question)
        assert re.search(rf"\b{new}\b", turn.answer)
        assert not re.search(rf"\b{old}\b", turn.answer)


def test_more_than_half_of_the_drawn_sums_carry_or_borrow(draw: random.Random) -> None:
    carried = 0
    for _ in range(2000):
        first = sum_turn(draw, thinks=True).answer
        a, sign, b = re.match(r"(\d+) ([+-]) (\d+)", first).groups()  # type: ignore[union-attr]
        ones_a, ones_b = int(a) % 10, int(b) % 10
        carried += ones_a + ones_b > 9 if sign == "+" else ones_a < ones_b
    assert 0.5 < carried / 2000 < 0.67


def test_renaming_leaves_longer_names_alone() -> None:
    source = "def f(size):\n    size_max = size\n    return size_max"
    assert rename(source, "size", "n") == "def f(n):\n    size_max = n\n    return size_max"
    assert renamable(source) == ["size", "size_max"]


def test_functions_of_the_library_are_read_dedented_and_short(tmp_path: Path) -> None:
    code = "class A:\n    def f(self, x):\n        return x\n\n\ndef g(): return 1\n"
    (tmp_path / "a.py").write_text(code, encoding="utf-8")
    (tmp_path / "broken.py").write_text("def (", encoding="utf-8")
    assert library_functions(tmp_path) == ["def f(self, x):\n    return x"]


def test_a_fact_that_is_asked_for_stands_in_the_text(draw: random.Random) -> None:
    for words in (0, 80):
        for _ in range(100):
            turn = place_turn(draw, PASSAGES, thinks=False, num_filler_words=words)
            assert turn.answer in turn.question


def test_a_tool_chat_calls_offered_tools_with_values_of_the_question(draw: random.Random) -> None:
    tasks = ToolTasks()
    for _ in range(200):
        chat = tasks.chat(draw, None, Turn("Hello", "Hello!"))
        offered = {tool["function"]["name"]: tool["function"] for tool in chat.tools}  # type: ignore[index]
        for turn in chat.turns:
            if turn.call is None:
                continue
            assert set(turn.call.arguments) == set(
                offered[turn.call.name]["parameters"]["required"]
            )
            assert all(str(value) in turn.question for value in turn.call.arguments.values())


def test_topics_of_trained_tools_are_never_held_out() -> None:
    held_out = {topic for topic in TOPICS if is_held_out_topic(topic)}
    assert len(held_out) >= 8
    assert held_out.isdisjoint(ToolTasks().topics)
    for case in tool_cases(20):
        assert any(topic in case.name for topic in held_out)


def test_evaluated_sums_and_functions_are_held_out() -> None:
    for case in sum_cases(20):
        a, b = re.findall(r"\d+", case.question)
        assert is_held_out_sum(int(a), int(b))
    for rename_case in rename_cases(FUNCTIONS, 3):
        assert is_held_out_function(rename_case.question.partition("\n\n")[2])


def test_passages_to_copy_have_the_wanted_number_of_tokens() -> None:
    sentences = [f"The {a} {b} is {c}." for a in WORDS for b in WORDS for c in WORDS]
    tokenizer = train(sentences, 300)
    for case in copy_cases(sentences, tokenizer, 60, 5):
        count = len(tokenizer.encode(case.expected, add_special_tokens=False).ids)
        assert 58 <= count <= 60
        assert case.question.endswith(case.expected)


def test_the_table_of_settings_is_understood() -> None:
    row = "| `port` | `--port` | a whole number | `8080` | Port to listen on; 0 = any free one. |"
    assert ROW.findall(row) == [
        ("port", "--port", "a whole number", "8080", "Port to listen on; 0 = any free one.")
    ]
