"""Shared counts equal plain sums, whatever the layout of the table: real ciphertexts."""

from __future__ import annotations

import numpy as np
import pytest

from pv4fad.hashing.table_size import BLOCK_SIZE, TableLayout
from pv4fad.he.circuits import linear_bound
from pv4fad.he.keys import SecretEncryptor, generate_keys
from pv4fad.he.ring import Ring, share_ring
from pv4fad.protocol.count.packing import lanes
from pv4fad.protocol.count.steps import (
    AddUpJob,
    ProductsJob,
    SparseSum,
    add_up,
    masked_products,
    own_share,
    slot_totals,
)
from pv4fad.randomness import secret_residues

T = 65537
N_ATOMS = 3
SUMS_PER_TREE = 3
LAYOUTS = {
    "one segment, every tree alone in two blocks": TableLayout(1000, 3, 1, BLOCK_SIZE, 1),
    "a segment crosses a border of the share ring": TableLayout(1000, 3, 3, 5461, 1),
    "eight trees in a ciphertext": TableLayout(1000, 16, 16, 1024, 1),
    "segments over two blocks": TableLayout(1000, 5, 5, 2 * BLOCK_SIZE // 5, 2),
}


@pytest.fixture(scope="module")
def keys():
    return generate_keys(share_ring(T), "test", relinearisation=False)


def sparse_sum(rng: np.random.Generator, layout: TableLayout, tree: int, index: int) -> SparseSum:
    """Some bins of the tree's segment, weights of both signs; the last sum is empty."""
    segment = layout.segment(tree if layout.n_segments > 1 else 0)
    bins = rng.choice(np.arange(segment.start, segment.stop), 50, replace=False)
    # The ends of the segment are where a border would be missed.
    bins[:2] = segment.start, segment.stop - 1
    bins = np.unique(bins)[: 0 if index == SUMS_PER_TREE - 1 else None]
    atoms = [(0,), (1, 2), (0, 1, 2)][rng.integers(3)]
    return SparseSum(bins, rng.integers(-1000, 1001, len(bins)), atoms)


@pytest.mark.parametrize("name", LAYOUTS)
def test_shares_of_a_count_add_up_to_the_plain_sum(keys, name):
    layout = LAYOUTS[name]
    rng = np.random.default_rng(len(name))
    ring, encryptor = Ring.of(keys.public.ring), SecretEncryptor(keys.secret)
    indicators = rng.integers(0, 2, (N_ATOMS, layout.n_bins))
    s = secret_residues(T, N_ATOMS * layout.n_bins).reshape(N_ATOMS, -1)
    u = ((indicators + s.astype(np.int64)) % T).astype(np.uint32)
    blocks = s.reshape(N_ATOMS, -1, ring.degree)
    encrypted = [
        tuple(ring.dump(encryptor.encrypt(blocks[k, block])) for k in range(N_ATOMS))
        for block in range(blocks.shape[1])
    ]
    flood = linear_bound(ring, 16 * blocks.shape[1] * N_ATOMS, 2).flood
    counted = set()
    for lane in lanes(layout, ring.degree):
        sums = tuple(
            tuple(sparse_sum(rng, layout, tree, index) for tree in lane.trees)
            for index in range(SUMS_PER_TREE)
        )
        shares = tuple(encrypted[block] for block in lane.blocks)
        batch = masked_products(
            ProductsJob(keys.public, flood, lane.blocks, shares, lane.slots, sums)
        )
        q = add_up(AddUpJob(keys.secret, lane.slots, batch.ciphertexts))
        assert q.shape == (SUMS_PER_TREE, len(lane.trees))
        for index, packed in enumerate(sums):
            for column, (tree, one) in enumerate(zip(lane.trees, packed, strict=True)):
                p = own_share(one, u, int(batch.mask_totals[index, column]), T)
                plain = (one.weights * indicators[list(one.atoms)].sum(axis=0)[one.bins]).sum()
                assert (p - int(q[index, column]) - int(plain)) % T == 0
                counted.add((tree, index))
    assert len(counted) == layout.n_trees * SUMS_PER_TREE


def test_slot_totals_do_not_overflow():
    """8192 slots of t − 1 for the largest t."""
    t = 2654209
    totals = slot_totals(np.ones((1, 8192), np.bool_), np.full(8192, t - 1, np.uint64), t)
    assert totals.tolist() == [8192 * (t - 1) % t]


def test_own_share_does_not_overflow():
    """A hundred thousand accounts of the largest weight, for the largest t."""
    t, n, bound = 2654209, 100_000, 10**6
    one = SparseSum(np.arange(n), np.full(n, -bound), (0, 1))
    opened = np.full((2, n), t - 1, np.uint32)
    assert own_share(one, opened, 5, t) == (-bound * n * (2 * (t - 1) % t) + 5) % t
