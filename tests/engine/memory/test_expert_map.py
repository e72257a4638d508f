"""Where experts are in a file."""

import numpy as np
import pytest

from engine.core.config import BUNDLED_MODEL
from engine.core.gguf_header import read_model_header
from engine.gguf.reader import GgufFile
from engine.memory.expert_map import ExpertMap


@pytest.fixture
def model():
    header = read_model_header(BUNDLED_MODEL)
    with GgufFile(header) as file:
        yield file, ExpertMap.of(file, header, 4)


def test_the_ranges_of_an_expert_are_its_rows_of_each_tensor(model):
    file, experts = model
    assert (len(experts.layers), experts.num_experts) == (4, 16)
    ranges = experts.ranges(2, [0, 15])
    assert len(ranges) == 6
    for expert, of_expert in ((0, ranges[:3]), (15, ranges[3:])):
        for kind, (address, num_bytes) in zip(("gate", "up", "down"), of_expert, strict=True):
            data = file.tensors[f"blk.2.ffn_{kind}_exps.weight"].data
            assert num_bytes == data.nbytes // 16
            assert address == data.ctypes.data + expert * num_bytes


def test_the_hottest_experts_are_those_used_most_as_far_as_the_budget_goes(model):
    _, experts = model
    counts = np.zeros((4, 16), np.int64)
    counts[1, 3], counts[3, 7], counts[0, 0] = 100, 50, 10
    one = int(experts.expert_bytes[0])
    chosen = experts.hottest(counts, 2 * one + one // 2)
    assert np.argwhere(chosen).tolist() == [[1, 3], [3, 7]]
    assert experts.hottest(counts, one * 64).all()
    assert not experts.hottest(counts, 0).any()


def test_as_long_as_nothing_is_known_every_layer_gets_its_share(model):
    _, experts = model
    chosen = experts.hottest(np.zeros((4, 16), np.int64), 8 * int(experts.expert_bytes[0]))
    assert chosen.sum(axis=1).tolist() == [2, 2, 2, 2]
