"""Two residues have distance 0 just if they are equal, and remainders agree just if it is 0."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.hashing.tags import TAG_MODULUS
from pv4fad.he.ring import DISTANCE_RING
from pv4fad.protocol.match.class_powers import N_TURNS
from pv4fad.protocol.match.comparison import (
    LARGEST_DIFFERENCE,
    LARGEST_DISTANCE,
    N_BITS,
    N_DIGITS,
    N_LAST_REMAINDERS,
    N_REMAINDERS,
    bits,
    digits,
    last_remainders,
    remainders,
    squares,
)

T2 = DISTANCE_RING.plain_modulus
BASES = np.array([6] * 18 + [2])

residues = st.integers(0, TAG_MODULUS - 1)


@given(st.lists(residues, min_size=1, max_size=20))
def test_digits_hold_every_bit_of_a_residue(values):
    found = digits(np.array(values, np.uint64))
    assert found.shape == (N_DIGITS, len(values))
    assert (found < BASES[:, np.newaxis]).all()
    assert [sum(int(d) * 6**i for i, d in enumerate(one)) for one in found.T] == values


@given(residues, residues)
def test_the_distance_is_zero_just_for_equal_residues(first, second):
    a, b = digits(np.array([first, second], np.uint64)).astype(np.int64).T
    distance = ((a - b) ** 2).sum()
    assert (distance == 0) == (first == second)
    assert distance <= LARGEST_DISTANCE


def test_the_largest_distance_is_reached_and_not_exceeded():
    assert ((BASES - 1) ** 2).sum() == LARGEST_DISTANCE == 451
    assert BASES.prod() > TAG_MODULUS > BASES[:-1].prod()  # all are needed, and enough


@pytest.mark.parametrize(
    ("reduced", "largest"),
    [(remainders, LARGEST_DISTANCE), (last_remainders, LARGEST_DIFFERENCE)],
)
def test_remainders_agree_just_where_the_distance_is_zero(reduced, largest):
    """All masks with all distances, whether their sum wraps or not."""
    g = np.arange(T2, dtype=np.uint64)
    for distance in range(largest + 1):
        masked = (g + np.uint64(distance)) % np.uint64(T2)
        agree = reduced(masked) == reduced(g)
        assert agree.all() if distance == 0 else not agree.any()


def test_all_pairs_of_remainders_differ_in_some_bit_just_if_they_are_different():
    everything = bits(np.arange(N_REMAINDERS, dtype=np.uint16)).astype(int)
    assert everything.shape == (N_BITS, N_REMAINDERS)
    distance = ((everything[:, :, np.newaxis] - everything[:, np.newaxis]) ** 2).sum(axis=0)
    assert np.array_equal(distance == 0, np.eye(N_REMAINDERS, dtype=bool))
    assert distance.max() == LARGEST_DIFFERENCE


def test_remainders_are_as_many_as_there_can_be():
    everything = np.arange(T2, dtype=np.uint64)
    assert len(np.unique(remainders(everything))) == N_REMAINDERS <= 2**N_BITS
    assert len(np.unique(last_remainders(everything))) == N_LAST_REMAINDERS


def test_squares_are_summed_over_the_digits():
    assert squares(np.array([[3, 0], [2, 1], [3, 0]], np.uint8)).tolist() == [22, 1]
    most = np.tile((BASES - 1)[:, np.newaxis], 3).astype(np.uint8)
    assert squares(most).tolist() == [LARGEST_DISTANCE] * 3


def test_only_so_many_masks_take_the_class_around_the_modulus():
    """(L + ρ mod T) mod 32 is that of L + ρ but for at most K − 1 of the T masks ρ."""
    small = 1009  # in place of T: all of its masks
    for n_classes in (2, 3, 11, 32):
        for k in range(n_classes):
            rho = np.arange(small)
            wrong = ((k + rho) % small - rho - k) % N_TURNS != 0
            assert wrong.sum() <= n_classes - 1
