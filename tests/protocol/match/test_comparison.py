"""Two residues have distance 0 just if they are equal, and remainders agree just if it is 0."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.hashing.tags import TAG_MODULUS
from pv4fad.he.ring import DISTANCE_RING
from pv4fad.protocol.match.comparison import (
    LARGEST_DISTANCE,
    N_DIGITS,
    N_REMAINDERS,
    WORD_BITS,
    WORD_ONES,
    codeword_bits,
    digits,
    remainders,
)

T2 = DISTANCE_RING.plain_modulus
BASES = np.array([4] * 21 + [2] * 5)

residues = st.integers(0, TAG_MODULUS - 1)


def value_of(of_digits: np.ndarray) -> list[int]:
    weights = [int(w) for w in np.cumprod([1, *BASES[:-1].tolist()])]
    return [sum(int(d) * w for d, w in zip(column, weights, strict=True)) for column in of_digits.T]


@given(st.lists(residues, min_size=1, max_size=20))
def test_digits_hold_every_bit_of_a_residue(values):
    found = digits(np.array(values, np.uint64))
    assert found.shape == (N_DIGITS, len(values))
    assert (found < BASES[:, np.newaxis]).all()
    assert value_of(found) == values


@given(residues, residues)
def test_the_distance_is_zero_just_for_equal_residues(first, second):
    a, b = digits(np.array([first, second], np.uint64)).astype(np.int64).T
    distance = ((a - b) ** 2).sum()
    assert (distance == 0) == (first == second)
    assert distance <= LARGEST_DISTANCE


def test_the_largest_distance_is_reached_and_not_exceeded():
    assert ((BASES - 1) ** 2).sum() == LARGEST_DISTANCE == 194
    assert 2**47 > TAG_MODULUS > 2**46  # so that 47 bits are needed, and enough


def test_remainders_agree_just_where_the_distance_is_zero():
    """All masks with all distances: 65537 x 195, whether their sum wraps or not."""
    g = np.arange(T2, dtype=np.uint64)
    for distance in range(LARGEST_DISTANCE + 1):
        masked = (g + np.uint64(distance)) % np.uint64(T2)
        agree = remainders(masked) == remainders(g)
        assert agree.all() if distance == 0 else not agree.any()


def test_all_pairs_of_codewords_have_four_ones_in_common_just_if_they_are_equal():
    words = codeword_bits(np.arange(N_REMAINDERS, dtype=np.uint8)).astype(int)
    assert words.shape == (WORD_BITS, N_REMAINDERS)
    in_common = words.T @ words
    assert (np.diag(in_common) == WORD_ONES).all()
    assert (in_common[~np.eye(N_REMAINDERS, dtype=bool)] < WORD_ONES).all()


def test_the_polynomial_of_the_agreeing_ones_is_zero_but_for_all_of_them():
    z = (2 * np.arange(WORD_ONES + 1) - 3) ** 2
    assert ((z - 1) * (z - 9)).tolist() == [0, 0, 0, 0, 384]


def test_only_so_many_masks_take_the_class_around_the_modulus():
    """(L + ρ mod T) mod K is that of L + ρ but for at most K − 1 of the T masks ρ."""
    small = 1009  # in place of T: all of its masks
    for n_classes in (2, 3, 11, 32):
        for k in range(n_classes):
            rho = np.arange(small)
            wrong = ((k + rho) % small - rho - k) % n_classes != 0
            assert wrong.sum() <= n_classes - 1
