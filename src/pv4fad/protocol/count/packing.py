"""Packing: sums of different trees share a ciphertext where their bins lie in different slots.

Bin b of a table is slot b mod N of share block b div N, N the degree of the share ring.  A sum of
tree τ touches the bins of τ's segment only.  Trees whose segments occupy disjoint slots form a
*lane*: one ciphertext carries one sum of every tree of a lane, and the bank adds up slots tree by
tree.  Everything here follows from the public layout.

    ciphertext  lane·n + i  carries sum i of each tree of the lane, n = sums per tree
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pv4fad.hashing.table_size import TableLayout


@dataclass(frozen=True)
class Lane:
    """Trees that share ciphertexts, and the slots of each."""

    trees: tuple[int, ...]
    slots: NDArray[np.bool_] = field(repr=False)  # (trees, N)
    blocks: tuple[int, ...]  # the share blocks that any of the trees touches


@lru_cache(maxsize=64)
def lanes(layout: TableLayout, degree: int) -> tuple[Lane, ...]:
    """The lanes of a table: each tree goes to the first lane with room for it."""
    trees: list[list[int]] = []
    slots: list[list[NDArray[np.bool_]]] = []
    for tree in range(layout.n_trees):
        mine = _slots(layout, tree, degree)
        for lane_trees, lane_slots in zip(trees, slots, strict=True):
            if not any((mine & other).any() for other in lane_slots):
                lane_trees.append(tree)
                lane_slots.append(mine)
                break
        else:
            trees.append([tree])
            slots.append([mine])
    return tuple(
        Lane(
            tuple(members),
            np.stack(masks),
            tuple(sorted({b for tree in members for b in _blocks(layout, tree, degree)})),
        )
        for members, masks in zip(trees, slots, strict=True)
    )


def _segment(layout: TableLayout, tree: int) -> slice:
    return layout.segment(tree if layout.n_segments > 1 else 0)


def _slots(layout: TableLayout, tree: int, degree: int) -> NDArray[np.bool_]:
    segment = _segment(layout, tree)
    mask = np.zeros(degree, np.bool_)
    mask[np.arange(segment.start, segment.stop) % degree] = True
    return mask


def _blocks(layout: TableLayout, tree: int, degree: int) -> range:
    segment = _segment(layout, tree)
    return range(segment.start // degree, -(-segment.stop // degree))
