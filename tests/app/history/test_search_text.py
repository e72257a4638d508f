"""Words and Chinese pairs, in the index and in queries."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.history.schema import INDEXES
from app.history.search_text import find_terms, indexed, read_query, snippet


@pytest.fixture(scope="module")
def find():
    """Whether a query finds a text, through a real index."""
    connection = sqlite3.connect(":memory:")
    connection.execute(INDEXES[0])

    def found(text, query):
        connection.execute("DELETE FROM found_messages")
        connection.execute("INSERT INTO found_messages(body) VALUES(?)", (indexed(text),))
        wanted = read_query(query)
        sql = "SELECT count(*) FROM found_messages WHERE found_messages MATCH ?"
        return bool(connection.execute(sql, (wanted.match,)).fetchone()[0])

    yield found
    connection.close()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我们讨论量子计算机的问题", "计算"),
        ("我们讨论量子计算机的问题", "量子计算机"),
        ("我们讨论量子计算机的问题", "题"),
        ("我们讨论量子计算机的问题", "我"),
        ("昨日、東京タワーに行きました", "タワー"),
        ("昨日、東京タワーに行きました", "東京"),
        ("한국어 검색을 시험합니다", "검색"),
        ("A recursive function", "recur"),
        ("naïve Bayes", "naive"),
        ("\uff46\uff55\uff4c\uff4c width", "full"),
        ("Straße und Fluß", "stra"),
        ("用 Python 写的程序", "python 程序"),
        ("snake_case_name", "snake_case"),
        ("Привет, мир", "привет"),
    ],
)
def test_a_text_is_found_by_a_part_of_it(find, text, query):
    assert find(text, query)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("量子计算机", "子量"),
        ("计划和计算", "划算"),
        ("A recursive function", "cursive"),
        ("one two", "one three"),
    ],
)
def test_a_text_is_not_found_by_what_is_not_in_it(find, text, query):
    assert not find(text, query)


HAN = st.text(alphabet="中文搜索引擎量子计算机的是在", min_size=2, max_size=20)


@given(HAN, st.data())
@settings(max_examples=150, deadline=None)
def test_each_part_of_a_chinese_text_finds_it(find, text, data):
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin + 1, len(text)))
    assert find(text, text[begin:end])


@given(st.text(max_size=60), st.text(max_size=20))
@settings(max_examples=200, deadline=None)
def test_any_query_is_a_valid_one(find, text, query):
    wanted = read_query(query)
    if wanted is not None and wanted.match:
        find(text, query)
    elif wanted is None:
        assert not query.split()


@given(st.text(max_size=200), st.text(min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
def test_marks_lie_within_the_snippet(text, query):
    wanted = read_query(query)
    if wanted is None:
        return
    piece = snippet(text, wanted.terms)
    assert "\n" not in piece.text
    for begin, end in piece.marks:
        assert 0 <= begin < end <= len(piece.text)


def test_a_mark_covers_what_was_looked_for():
    text = "word " * 100 + "die NAÏVE Annahme" + " word" * 100
    piece = snippet(text, read_query("naive").terms)
    [(begin, end)] = piece.marks
    assert piece.text[begin:end] == "NAÏVE"
    assert text[piece.offset :].startswith("NAÏVE")
    assert piece.text.startswith("…")
    assert piece.text.endswith("…")


def test_overlapping_terms_are_one_mark():
    assert find_terms("abcdef", ("abc", "bcd")) == [(0, 4)]
