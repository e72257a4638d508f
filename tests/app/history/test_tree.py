"""Siblings and paths, against a plain model of a tree."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from app.history.records import Message, MessageState, Role
from app.history.tree import MessageTree


def message(number, parent):
    parent_id = None if parent is None else str(parent)
    return Message(id=str(number), conversation_id="c", parent_id=parent_id, role=Role.USER)


@st.composite
def parents(draw):
    """For each message its parent: None or an earlier one."""
    size = draw(st.integers(1, 25))
    return [draw(st.sampled_from([None, *range(number)])) for number in range(size)]


@given(parents())
@settings(max_examples=150, deadline=None)
def test_paths_and_siblings_are_those_of_the_tree(given_parents):
    tree = MessageTree(message(number, parent) for number, parent in enumerate(given_parents))
    for number, parent in enumerate(given_parents):
        path, at = [], number
        while at is not None:
            path.insert(0, str(at))
            at = given_parents[at]
        assert [m.id for m in tree.path(str(number))] == path
        same = [str(n) for n, p in enumerate(given_parents) if p == parent]
        assert list(tree.siblings(str(number))) == same
        leaf = tree.leaf_below(str(number))
        assert not tree.children(leaf)
        assert str(number) in [m.id for m in tree.path(leaf)]


@given(parents())
@settings(max_examples=50, deadline=None)
def test_the_newest_path_is_followed_downwards(given_parents):
    tree = MessageTree(message(number, parent) for number, parent in enumerate(given_parents))
    at = "0"
    while following := tree.children(at):
        at = max(following, key=int)
    assert tree.leaf_below("0") == at


def test_replacing_a_message_changes_no_order():
    tree = MessageTree([message(0, None), message(1, 0), message(2, 0)])
    tree.put(Message(id="1", conversation_id="c", parent_id="0", role=Role.USER, text="new"))
    assert tree.siblings("1") == ("1", "2")
    assert tree.get("1").text == "new"


def test_a_circle_and_a_missing_parent_end_the_path():
    tree = MessageTree([message(1, 2), message(2, 1), message(3, 9)])
    assert {m.id for m in tree.path("1")} == {"1", "2"}
    assert [m.id for m in tree.path("3")] == ["3"]
    assert tree.path("unknown") == []
    tree.leaf_below("1")


def deleted(number, parent):
    return replace(message(number, parent), state=MessageState.DELETED)


def test_what_follows_a_deleted_message_stays_on_the_path():
    tree = MessageTree([message(0, None), deleted(1, 0), message(2, 1)])
    assert [m.id for m in tree.path("2")] == ["0", "2"]


def test_a_deleted_version_is_no_version_and_never_the_newest():
    tree = MessageTree([message(0, None), message(1, 0), deleted(2, 0), message(3, 0)])
    assert tree.siblings("1") == ("1", "3")
    tree.put(deleted(3, 0))
    assert tree.leaf_below("0") == "1"
    # What follows a deleted message is still reached.
    tree.put(message(4, 2))
    assert tree.leaf_below("0") == "4"


@given(parents(), st.sets(st.integers(0, 24)))
@settings(max_examples=100, deadline=None)
def test_every_living_message_is_on_the_path_of_some_leaf_below_its_versions(numbers, gone):
    tree = MessageTree(
        (deleted if number in gone else message)(number, parent)
        for number, parent in enumerate(numbers)
    )
    for number in range(len(numbers)):
        if number not in gone:
            assert str(number) in [m.id for m in tree.path(tree.leaf_below(str(number)))]


def test_the_versions_beside_a_deleted_message_are_reached_from_what_follows_it():
    # 1 and 2 are versions of a question with the answers 3 and 4, 5; 2 is deleted.
    tree = MessageTree([message(0, None), message(1, 0), deleted(2, 0)])
    for number, parent in ((3, 1), (4, 2), (5, 2)):
        tree.put(message(number, parent))
    for shown in ("1", "4", "5"):
        assert tree.siblings(shown) == ("1", "4", "5")
    assert tree.siblings("3") == ("3",)


def test_of_a_chain_of_deleted_messages_the_first_living_ones_are_versions():
    tree = MessageTree([deleted(0, None), deleted(1, 0), message(2, 1), message(3, None)])
    assert tree.siblings("2") == tree.siblings("3") == ("2", "3")


def test_a_circle_of_deleted_messages_ends_the_search_for_versions():
    tree = MessageTree([deleted(1, 2), deleted(2, 1), message(3, 2)])
    assert tree.siblings("3") == ("3",)
