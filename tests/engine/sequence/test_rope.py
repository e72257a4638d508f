"""Rotary positions of text and images, and their angles."""

from __future__ import annotations

import numpy as np

from engine.sequence.rope import RopeAngles, RopePositions


def at(positions: RopePositions, *indices: int) -> list[list[int]]:
    return positions.at(np.array(indices)).tolist()


def test_text_counts_by_itself_and_beyond_its_end():
    positions = RopePositions()
    positions.extend(5, None)
    assert len(positions) == positions.next == 5
    assert at(positions, 0, 4, 7) == [[0, 0, 0], [4, 4, 4], [7, 7, 7]]
    positions.truncate(2)
    assert positions.next == 2
    positions.truncate(9)
    assert len(positions) == 2


def test_text_goes_on_after_the_largest_position_of_an_image():
    positions = RopePositions()
    positions.extend(3, None)
    positions.extend(4, np.array([[3, 3, 3], [3, 3, 4], [3, 4, 3], [3, 4, 4]], np.int32))
    assert positions.next == 5
    positions.extend(2, None)
    assert at(positions, 2, 6, 7, 8, 10) == [
        [2, 2, 2], [3, 4, 4], [5, 5, 5], [6, 6, 6], [8, 8, 8],
    ]  # fmt: skip
    other = positions.copy()
    positions.truncate(5)  # the image's first row: text would follow behind column 4
    assert positions.next == 5
    positions.extend(100, None)
    assert at(positions, 104) == [[104, 104, 104]]
    assert other.next == 7
    assert len(other) == 9
    positions.truncate(0)
    assert positions.next == 0


def test_the_axes_of_the_real_model_repeat_time_row_column():
    angles = RopeAngles(64, 1e7, (11, 11, 10))
    assert angles.num_angles == 32
    cos, sin = np.zeros((1, 32), np.float32), np.zeros((1, 32), np.float32)
    angles.write(np.array([[0, 1, 0]]), cos, sin)
    turned = np.flatnonzero(sin[0])
    np.testing.assert_array_equal(turned, np.arange(1, 32, 3)[:11])
    angles.write(np.array([[0, 0, 1]]), cos, sin)
    np.testing.assert_array_equal(np.flatnonzero(sin[0]), np.arange(2, 30, 3))


def test_a_positions_angles_do_not_depend_on_its_neighbours():
    angles = RopeAngles(20, 1e7, (4, 3, 3))
    positions = np.random.default_rng(0).integers(0, 200_000, (37, 3))
    cos, sin = np.zeros((37, 10), np.float32), np.zeros((37, 10), np.float32)
    angles.write(positions, cos, sin)
    for count in (1, 2, 5, 16):
        for start in range(0, 37 - count, 3):
            part = slice(start, start + count)
            got = np.zeros((2, count, 10), np.float32)
            angles.write(positions[part], got[0], got[1])
            np.testing.assert_array_equal(got, [cos[part], sin[part]])


def test_text_angles_from_the_table_are_the_computed_ones():
    angles = RopeAngles(20, 1e7, (4, 3, 3))
    for first, count in ((0, 1), (5, 3), (1020, 10), (5000, 2), (7, 1)):
        wanted, got = np.zeros((2, count, 10), np.float32), np.zeros((2, count, 10), np.float32)
        positions = np.repeat(np.arange(first, first + count)[:, None], 3, axis=1)
        angles.write(positions, wanted[0], wanted[1])
        angles.write_text(first, got[0], got[1])
        np.testing.assert_array_equal(got, wanted)
