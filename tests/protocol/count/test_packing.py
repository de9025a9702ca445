"""Lanes: trees that share a ciphertext never share a slot."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.hashing.table_size import BLOCK_SIZE, TableLayout
from pv4fad.protocol.count.packing import lanes

DEGREE = 8192


@st.composite
def layouts(draw) -> TableLayout:
    n_trees = draw(st.integers(1, 24))
    n_blocks = draw(st.integers(1, 5))
    n_segments = draw(st.sampled_from((1, n_trees)))
    largest = n_blocks * BLOCK_SIZE // n_segments
    smallest = ((n_blocks - 1) * BLOCK_SIZE) // n_segments + 1
    bins = draw(st.integers(max(3, smallest), largest))
    return TableLayout(1000, n_trees, n_segments, bins, n_blocks)


@given(layouts())
def test_every_tree_is_in_one_lane_and_no_slot_serves_two_trees_of_a_lane(layout):
    packed = lanes(layout, DEGREE)
    assert sorted(tree for lane in packed for tree in lane.trees) == list(range(layout.n_trees))
    for lane in packed:
        assert lane.slots.shape == (len(lane.trees), DEGREE)
        assert lane.slots.sum(axis=0).max() <= 1


@given(layouts())
def test_a_tree_has_the_slots_of_its_bins_and_its_lane_their_blocks(layout):
    for lane in lanes(layout, DEGREE):
        touched = set()
        for tree, slots in zip(lane.trees, lane.slots, strict=True):
            segment = layout.segment(tree if layout.n_segments > 1 else 0)
            bins = np.arange(segment.start, segment.stop)
            assert np.array_equal(np.flatnonzero(slots), np.unique(bins % DEGREE))
            touched |= set((bins // DEGREE).tolist())
        assert lane.blocks == tuple(sorted(touched))


def test_small_segments_divide_the_ciphertexts():
    """Sixteen trees of 1024 bins: eight fit a ciphertext of 8192 slots."""
    packed = lanes(TableLayout(1000, 16, 16, 1024, 1), DEGREE)
    assert [lane.trees for lane in packed] == [tuple(range(8)), tuple(range(8, 16))]
    assert len(lanes(TableLayout(1000, 16, 1, BLOCK_SIZE, 1), DEGREE)) == 16
