"""A store in a folder of the test, closed at its end."""

import pytest

from app.history.store import HistoryStore


@pytest.fixture
def open_store(tmp_path):
    """A function that opens the history of the test's folder."""
    stores = []

    def start(path=None, **options):
        store = HistoryStore(path or tmp_path / "data ü" / "history.db", **options)
        stores.append(store)
        return store

    yield start
    for store in stores:
        store.close(2.0)


@pytest.fixture
def store(open_store):
    return open_store(batch_s=0.01, retry_s=0.05)
