"""Layers: one place per bin and layer, shared by exactly those sides that get the same votes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.protocol.score.tables import layers_of

sides = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(-1, 1), st.integers(-1, 1)),
    max_size=40,
)


@given(sides)
def test_sides_share_a_place_if_and_only_if_they_reach_the_same_groups_of_one_bin(rows):
    table, place, *groups = np.array(rows, np.int64).reshape(-1, 4).T
    layer = layers_of(table, place, np.stack(groups, axis=1).astype(np.int32))
    assert len(layer) == len(rows)
    in_layer = {(row[:2], int(one)) for row, one in zip(rows, layer, strict=True)}
    assert len(in_layer) == len(set(rows))
    assert len({(row, int(one)) for row, one in zip(rows, layer, strict=True)}) == len(set(rows))


@given(sides)
def test_a_bin_has_no_more_layers_than_different_sides(rows):
    table, place, *groups = np.array(rows, np.int64).reshape(-1, 4).T
    layer = layers_of(table, place, np.stack(groups, axis=1).astype(np.int32))
    for in_bin in {row[:2] for row in rows}:
        mine = [int(one) for row, one in zip(rows, layer, strict=True) if row[:2] == in_bin]
        assert set(mine) == set(range(len({row for row in rows if row[:2] == in_bin})))
