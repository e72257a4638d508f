"""The training chats: what is drawn, how it is encoded, how it is batched."""

from itertools import islice
from pathlib import Path

import jinja2
import numpy as np
import pytest
from tokenizers import Tokenizer

from tools.train_tiny.batches import BATCH_TOKENS, ROW_LENGTHS, batches, make_batch
from tools.train_tiny.data import Chat, ChatEncoder, ChatMaker, Encoded, Turn, is_held_out
from tools.train_tiny.tokenizer import SPECIAL_TOKENS, merges, special_ids, train, vocabulary
from tools.train_tiny.wordnet import Meaning

TEMPLATE = Path(__file__).parents[3] / "assets" / "models" / "chat_template.jinja"
WORDS = [f"{a}{b}{c}" for a in "bdf" for b in "aeiou" for c in ("lom", "rit", "nat", "sig")]


def _meaning(word: str, count: int = 9) -> Meaning:
    return Meaning(
        word, "noun", f"a thing like a {word}", (f"the {word} is big",), ("it",), "thing", count
    )


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [f"What does {w} mean? The noun {w} means: a thing." for w in WORDS] * 3
    return train(texts, 330)


@pytest.fixture(scope="module")
def encoder(tokenizer: Tokenizer) -> ChatEncoder:
    return ChatEncoder(tokenizer)


@pytest.fixture
def maker() -> ChatMaker:
    groups = ((WORDS, 9), ([w + "el" for w in WORDS], 2), ([w + "on" for w in WORDS], 0))
    meanings = [_meaning(w, count) for words, count in groups for w in words]
    # A second, rarer part of speech, so that every kind of question can be drawn.
    meanings += [Meaning(w, "verb", f"do as a {w}", (), (), "", 3) for w in WORDS]
    return ChatMaker(meanings, seed=5)


def test_held_out_words_are_never_drawn(maker: ChatMaker) -> None:
    held_out = {w for w in (f"{a}{b}" for a in WORDS for b in ("", "el", "on")) if is_held_out(w)}
    assert held_out
    for _ in range(3000):
        for turn in maker.chat().turns:
            assert held_out.isdisjoint(turn.answer.replace(":", "").replace(".", "").split())


def test_the_same_seed_draws_the_same_chats() -> None:
    first, second = (
        ChatMaker([*map(_meaning, WORDS), _meaning("abc", 1), _meaning("bcd", 0)], 3)
        for _ in range(2)
    )
    first.other_parts = second.other_parts = first.main
    assert [first.chat() for _ in range(50)] == [second.chat() for _ in range(50)]


@pytest.mark.parametrize("thought", [None, "This is about the noun dog."])
def test_a_chat_is_encoded_as_the_model_file_template_renders_it(
    encoder: ChatEncoder, thought: str | None
) -> None:
    chat = Chat(
        (Turn("What is a dog?", "An animal.", thought), Turn("And a cat?", "One too.")), "Be brief."
    )
    messages: list[dict[str, str]] = [{"role": "system", "content": "Be brief."}]
    for turn in chat.turns:
        messages.append({"role": "user", "content": turn.question})
        messages.append(
            {"role": "assistant", "content": turn.answer, "reasoning_content": turn.thought or ""}
        )
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)  # noqa: S701 - no HTML
    rendered = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        messages=messages
    )
    ids = encoder.encode(chat).ids
    assert encoder.tokenizer.decode(ids, skip_special_tokens=False) == rendered


def test_only_what_the_model_writes_carries_loss(encoder: ChatEncoder) -> None:
    chat = encoder.encode(Chat((Turn("What is a dog?", "An animal.", "A noun."),), "Be brief."))
    written = [i for i, w in zip(chat.ids, chat.weights, strict=True) if w > 0]
    text = encoder.tokenizer.decode(written, skip_special_tokens=False)
    assert text == "A noun.\n</think>\n\nAn animal.<|im_end|>"


def test_targets_are_the_following_tokens_and_padding_has_no_loss() -> None:
    batch = make_batch([Encoded([5, 6, 7], [0.0, 0.0, 1.0])], 4, pad_id=9)
    assert batch.tokens.tolist() == [[5, 6, 9, 9]]
    assert batch.targets.tolist() == [[6, 7, 9, 9]]
    assert batch.weights.tolist() == [[0.0, 1.0, 0.0, 0.0]]


def test_every_batch_has_the_same_number_of_tokens(maker: ChatMaker, encoder: ChatEncoder) -> None:
    for batch in islice(batches(maker, encoder, 0), 5):
        assert batch.tokens.size == BATCH_TOKENS
        assert batch.tokens.shape[1] in ROW_LENGTHS
        assert np.all(batch.weights[:, :-1].sum(1) > 0)
    assert all(BATCH_TOKENS % (4 * length) == 0 for length in ROW_LENGTHS)


def test_control_tokens_come_last_and_are_typed_so(tokenizer: Tokenizer) -> None:
    tokens, types = vocabulary(tokenizer)
    assert tuple(tokens[-len(SPECIAL_TOKENS) :]) == SPECIAL_TOKENS
    assert types == [1] * (330 - len(SPECIAL_TOKENS)) + [3] * len(SPECIAL_TOKENS)
    assert special_ids(tokenizer)["</think>"] == 329


def test_merges_are_lines_whatever_the_json_form() -> None:
    assert merges({"model": {"merges": [["a", "b"], "ab c"]}}) == ["a b", "ab c"]
