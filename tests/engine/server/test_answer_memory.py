"""Answers that come back as text are put into prompts as the ids that were generated."""

from __future__ import annotations

import pytest

from engine.core.config import BUNDLED_MODEL
from engine.core.gguf_header import read_model_header
from engine.server.answer_memory import AnswerMemory, WrittenAnswer
from engine.text.prompt import ChatFormat
from engine.text.template import TemplateOptions, ThinkingLevel
from engine.text.turns import prompt_borders

USER = {"role": "user", "content": "Say something."}
NEXT = {"role": "user", "content": "And then?"}


@pytest.fixture(scope="module")
def chat() -> ChatFormat:
    header = read_model_header(BUNDLED_MODEL)
    return ChatFormat.from_metadata(header.metadata, BUNDLED_MODEL.name)


@pytest.fixture
def memory(chat: ChatFormat) -> AnswerMemory:
    return AnswerMemory(chat.tokenizer)


class Talk:
    """A conversation in which answers are written token by token."""

    def __init__(
        self, chat: ChatFormat, memory: AnswerMemory, level: ThinkingLevel = ThinkingLevel.NONE
    ) -> None:
        self.chat = chat
        self.memory = memory
        self.options = TemplateOptions(level)
        self.messages: list[dict[str, object]] = [USER]

    def prompt(self, **changes: object) -> list[int]:
        options = TemplateOptions(self.options.thinking, **changes)  # type: ignore[arg-type]
        rendered = self.chat.prompt(self.messages, None, options)
        return self.memory.reuse(rendered.token_ids, self.messages)

    def answer(self, ids: list[int], written: WrittenAnswer) -> list[int]:
        """The model writes; the result is everything that its state stands for."""
        prompt = self.prompt()
        start = prompt_borders(prompt, self.chat.tokenizer).turn_start
        self.memory.note(prompt, start, [*ids, self.end], written)
        return [*prompt, *ids]

    @property
    def end(self) -> int:
        end = self.chat.tokenizer.structure.im_end
        assert end is not None
        return end

    def letters(self, text: str) -> list[int]:
        """The text, each character a token of its own: no tokenizer would split it so."""
        return [i for char in text for i in self.chat.tokenizer.encode(char)]

    def goes_on_from(self, state: list[int], **changes: object) -> bool:
        return self.prompt(**changes)[: len(state) + 1] == [*state, self.end]


def test_an_answer_that_was_split_in_its_own_way_keeps_its_ids(chat, memory):
    talk = Talk(chat, memory)
    state = talk.answer(talk.letters("the cat sat "), WrittenAnswer("the cat sat "))
    talk.messages += [{"role": "assistant", "content": "the cat sat"}, NEXT]
    assert talk.goes_on_from(state)
    second = talk.answer(talk.letters("on a mat"), WrittenAnswer("on a mat"))
    talk.messages += [{"role": "assistant", "content": "on a mat"}, NEXT]
    assert talk.goes_on_from(second)
    plain = chat.prompt(talk.messages, None, talk.options)
    assert plain.token_ids[: len(state)] != state
    assert (
        chat.tokenizer.decode(talk.prompt()).split()
        == chat.tokenizer.decode(plain.token_ids).split()
    )


@pytest.mark.parametrize(
    "content", ["the cat sat!", "the cat", "the  cat sat", "The cat sat", "the\ncat sat", ""]
)
def test_an_edited_answer_is_what_the_client_says(chat, memory, content):
    talk = Talk(chat, memory)
    talk.answer(talk.letters("the cat sat"), WrittenAnswer("the cat sat"))
    talk.messages += [{"role": "assistant", "content": content}, NEXT]
    assert talk.prompt() == chat.prompt(talk.messages, None, talk.options).token_ids


def test_thinking_is_reused_only_where_it_is_in_the_prompt(chat, memory):
    talk = Talk(chat, memory, ThinkingLevel.MEDIUM)
    close = chat.tokenizer.structure.think_end
    ids = [*talk.letters("hm, well"), close, *talk.letters("\n\nyes")]
    state = talk.answer(ids, WrittenAnswer("yes", "hm, well"))
    kept = {"role": "assistant", "content": "yes", "reasoning_content": "hm, well"}
    talk.messages += [kept, NEXT]
    assert talk.goes_on_from(state)
    # one that the template leaves out, and one that the client has left out
    rendered = chat.prompt(talk.messages, None, TemplateOptions(ThinkingLevel.MEDIUM, False))
    assert talk.prompt(preserve_thinking=False) == rendered.token_ids
    talk.messages[1] = {"role": "assistant", "content": "yes"}
    assert talk.prompt() == chat.prompt(talk.messages, None, talk.options).token_ids


def call_ids(talk: Talk, text: str) -> list[int]:
    tags = talk.chat.tokenizer.structure
    assert tags.tool_call is not None
    assert tags.tool_call_end is not None
    return [tags.tool_call, *talk.letters(text), tags.tool_call_end]


def test_a_call_comes_back_whatever_the_form_of_its_arguments(chat, memory):
    talk = Talk(chat, memory)
    body = '\n<function=find>\n<parameter=what>\n[1,2,   {"a":1}]\n</parameter>\n</function>\n'
    ids = [*talk.letters("Let me see."), *call_ids(talk, body)]
    arguments = '{"what": [1, 2, {"a": 1}]}'
    state = talk.answer(ids, WrittenAnswer("Let me see.", calls=(("find", arguments),)))

    def came_back(name: str, text: str) -> bool:
        call = {"id": "call_1", "function": {"name": name, "arguments": text}}
        answer = {"role": "assistant", "content": "Let me see.", "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": "call_1", "content": "found"}
        talk.messages[1:] = [answer, result]
        return talk.goes_on_from(state)

    assert came_back("find", '{"what":[1,2,{"a":1}]}')
    assert not came_back("find", '{"what":[1,2,{"a":2}]}')
    assert not came_back("seek", '{"what":[1,2,{"a":1}]}')


def test_an_answer_of_another_conversation_is_not_taken(chat, memory):
    talk = Talk(chat, memory)
    talk.answer(talk.letters("the cat sat"), WrittenAnswer("the cat sat"))
    other = Talk(chat, memory)
    other.messages = [
        {"role": "user", "content": "Say something else."},
        {"role": "assistant", "content": "the cat sat"},
        NEXT,
    ]
    assert other.prompt() == chat.prompt(other.messages, None, other.options).token_ids


def test_an_answer_that_says_nothing_leaves_nothing_behind(chat, memory):
    talk = Talk(chat, memory)
    talk.answer(talk.letters(" "), WrittenAnswer(" ", "", ()))
    first = talk.prompt()
    talk.messages = [USER, {"role": "assistant", "content": ""}]
    assert talk.prompt() == first


def test_what_a_stop_string_cut_off_does_not_come_back(chat, memory):
    talk = Talk(chat, memory)
    talk.answer(talk.letters("the cat STOP"), WrittenAnswer("the cat "))
    talk.messages += [{"role": "assistant", "content": "the cat "}, NEXT]
    assert talk.prompt() == chat.prompt(talk.messages, None, talk.options).token_ids


def test_the_longest_unused_answers_are_forgotten(chat):
    memory = AnswerMemory(chat.tokenizer, most_answers=2)
    talks = []
    for index in range(3):
        talk = Talk(chat, memory)
        talk.messages = [{"role": "user", "content": f"Number {index}."}]
        state = talk.answer(talk.letters("the cat"), WrittenAnswer("the cat"))
        talk.messages += [{"role": "assistant", "content": "the cat"}, NEXT]
        talks.append((talk, state))
        if index == 1:
            assert talks[0][0].goes_on_from(talks[0][1])  # used again
    assert [talk.goes_on_from(state) for talk, state in talks] == [True, False, True]
    small = AnswerMemory(chat.tokenizer, most_ids=10)
    talk = Talk(chat, small)
    state = talk.answer(talk.letters("a rather long answer"), WrittenAnswer("a rather long answer"))
    talk.messages += [{"role": "assistant", "content": "a rather long answer"}, NEXT]
    assert not talk.goes_on_from(state)


def test_surrogates_and_numbers_without_end_in_messages_do_no_harm(chat, memory):
    talk = Talk(chat, memory)
    talk.answer(talk.letters("x"), WrittenAnswer("\ud800", calls=(("f", '{"a": 1e999}'),)))
    talk.messages += [{"role": "assistant", "content": "\ud800"}, NEXT]
    assert talk.prompt()
