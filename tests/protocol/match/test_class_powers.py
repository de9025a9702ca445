"""Indicators follow exactly from the sums of powers, at every t and for every number of classes."""

import numpy as np
import pytest

from pv4fad.hashing.tags import TAG_MODULUS
from pv4fad.he.ring import PLAIN_MODULI
from pv4fad.protocol.match.class_powers import N_TURNS, of_classes, powers, turns
from pv4fad.randomness import secret_residues
from pv4fad.schema import MOST_CLASSES

CLASSES = np.arange(MOST_CLASSES, dtype=np.uint8)


@pytest.mark.parametrize("t", PLAIN_MODULI)
def test_the_numbers_of_all_classes_have_different_powers(t):
    assert MOST_CLASSES <= N_TURNS
    assert len(np.unique(powers(CLASSES, 1, t))) == MOST_CLASSES
    assert (powers(CLASSES, N_TURNS, t) == 1).all()


@pytest.mark.parametrize("t", PLAIN_MODULI)
def test_a_mask_is_taken_off_by_a_product(t):
    rho = secret_residues(TAG_MODULUS - MOST_CLASSES, MOST_CLASSES)  # none wraps
    masked = turns(rho + CLASSES)
    for m in (1, 5, 31):
        back = powers(masked, m, t) * powers(turns(rho), -m, t) % np.uint64(t)
        assert np.array_equal(back, powers(CLASSES, m, t))


@pytest.mark.parametrize("t", PLAIN_MODULI)
@pytest.mark.parametrize("n", [1, 2, 3, 11, 31, 32])
def test_shares_of_sums_become_shares_of_indicators(t, n):
    """In every column one class, or none; the largest residues among the shares."""
    indicators = np.eye(n, n + 2, dtype=np.uint64)
    rows = np.stack([powers(CLASSES[:n], m, t) for m in range(n)])
    sums = rows @ indicators % np.uint64(t)
    masks = secret_residues(t, sums.size).reshape(sums.shape)
    masks[:, -1] = t - 1
    u, s = (of_classes(share, t) for share in ((sums + masks) % np.uint64(t), masks))
    assert np.array_equal((u + np.uint64(t) - s) % np.uint64(t), indicators)
    assert np.array_equal(rows @ s % np.uint64(t), masks)
