"""The folder of marks that the tools leave, for the tests of this folder."""

import pytest


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    return tmp_path_factory.mktemp("marks")
