"""The mix of the training tasks: what is drawn, what is held out, how it is batched."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from tools.train_tiny.batches import BATCH_TOKENS, ROW_LENGTHS, batches, make_batch
from tools.train_tiny.chat import ChatEncoder, Encoded
from tools.train_tiny.data import SHARES, Mixer, sample_texts, sentences_of
from tools.train_tiny.held_out import is_held_out, is_held_out_function, is_held_out_sentence
from tools.train_tiny.tokenizer import SPECIAL_TOKENS, merges, special_ids, train, vocabulary
from tools.train_tiny.wordnet import Meaning

CONFIG_PAGE = Path(__file__).parents[3] / "docs" / "config.md"
WORDS = [f"{a}{b}{c}" for a in "bdf" for b in "aeiou" for c in ("lom", "rit", "nat", "sig")]
TELLING = ("define", "word", "tool")  # other tasks may name a word, but tell no meaning
FUNCTIONS = [
    f"def {w}(size):\n    total = size + {i}\n    return total" for i, w in enumerate(WORDS)
]
TASKS = [task for task in SHARES[-1] if task != "random"]


def _meaning(word: str, count: int = 9) -> Meaning:
    examples = (f"the {word} is big", f"we saw a {word} that day")
    return Meaning(word, "noun", f"a thing like a {word}", examples, ("it",), "thing", count)


MEANINGS = [
    _meaning(word + end, count) for end, count in (("", 12), ("el", 2), ("on", 0)) for word in WORDS
]
# A second, rarer part of speech, so that every kind of question can be drawn.
MEANINGS += [Meaning(w, "verb", f"do as a {w}", (), (), "", 3) for w in WORDS]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [f"What does {w} mean? The noun {w} means: a thing." for w in WORDS] * 3
    return train(texts, 330)


@pytest.fixture(scope="module")
def mixer(tokenizer: Tokenizer) -> Mixer:
    return Mixer(MEANINGS, FUNCTIONS, CONFIG_PAGE, 5, ChatEncoder(tokenizer))


@pytest.mark.parametrize("task", TASKS)
def test_held_out_words_sentences_and_functions_are_never_drawn(mixer: Mixer, task: str) -> None:
    words = {m.word for m in MEANINGS if is_held_out(m.word)}
    sentences = sentences_of(MEANINGS, held_out=True)
    assert words
    assert sentences
    for _ in range(300):
        chat = mixer.chat(task)
        said = "\n".join(f"{turn.question}\n{turn.answer}" for turn in chat.turns)
        if task in TELLING:
            assert words.isdisjoint(said.replace(":", " ").replace(".", " ").split()), said
        if task != "replace":  # a replaced word can make any of these uniform sentences
            assert not any(sentence in said for sentence in sentences)


def test_the_held_out_sentences_and_the_trained_ones_have_nothing_in_common() -> None:
    trained, held_out = (set(sentences_of(MEANINGS, held_out=flag)) for flag in (False, True))
    assert trained
    assert held_out
    assert trained.isdisjoint(held_out)


def test_no_function_to_copy_or_edit_is_held_out(mixer: Mixer) -> None:
    assert mixer.passages.functions
    assert mixer.edits.functions
    assert len(mixer.edits.functions) < len(FUNCTIONS)
    for source in (*mixer.passages.functions, *mixer.edits.functions):
        assert not is_held_out_function(source)


def test_the_same_seed_draws_the_same_chats() -> None:
    first, second = (Mixer(MEANINGS, FUNCTIONS, CONFIG_PAGE, seed=3) for _ in range(2))
    for task in TASKS:
        assert [first.chat(task) for _ in range(20)] == [second.chat(task) for _ in range(20)]


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_every_task_gets_its_share_of_the_tokens(mixer: Mixer, stage: int) -> None:
    mixer.set_stage(stage)
    total = sum(len(row.ids) for row in islice(mixer.rows(), 3000))
    for task, share in SHARES[stage].items():
        assert mixer.used[task] / total == pytest.approx(share, abs=0.02), task


def test_every_batch_has_the_same_number_of_tokens(mixer: Mixer) -> None:
    mixer.set_stage(1)
    for batch in islice(batches(mixer.rows(), 0), 20):
        assert batch.tokens.size == BATCH_TOKENS
        assert batch.tokens.shape[1] in ROW_LENGTHS
        assert np.all(batch.weights.sum(1) > 0)


def test_row_lengths_divide_the_batch_and_reach_beyond_the_budget_of_the_indexer() -> None:
    assert all(BATCH_TOKENS % length == 0 for length in ROW_LENGTHS)
    assert max(ROW_LENGTHS) >= 1536


def test_targets_are_the_following_tokens_and_padding_has_no_loss() -> None:
    batch = make_batch([Encoded([5, 6, 7], [0.0, 0.0, 1.0])], 4, pad_id=9)
    assert batch.tokens.tolist() == [[5, 6, 9, 9]]
    assert batch.targets.tolist() == [[6, 7, 9, 9]]
    assert batch.weights.tolist() == [[0.0, 1.0, 0.0, 0.0]]


def test_the_tokenizer_is_trained_on_definitions() -> None:
    texts = list(islice(sample_texts(MEANINGS, FUNCTIONS, CONFIG_PAGE, num_chats=2), 2000))
    assert "The noun balom means: a thing like a balom." in texts


def test_control_tokens_come_last_and_are_typed_so(tokenizer: Tokenizer) -> None:
    tokens, types = vocabulary(tokenizer)
    assert tuple(tokens[-len(SPECIAL_TOKENS) :]) == SPECIAL_TOKENS
    assert types == [1] * (330 - len(SPECIAL_TOKENS)) + [3] * len(SPECIAL_TOKENS)
    assert special_ids(tokenizer)["</think>"] == 329


def test_merges_are_lines_whatever_the_json_form() -> None:
    assert merges({"model": {"merges": [["a", "b"], "ab c"]}}) == ["a b", "ab c"]


def test_a_held_out_sentence_is_one_in_twenty() -> None:
    share = sum(is_held_out_sentence(f"sentence {i}") for i in range(4000)) / 4000
    assert 0.03 < share < 0.07
