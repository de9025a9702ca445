"""The sign of every noisy sum, exactly: real ciphertexts, all moduli, all edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pv4fad.he.circuits import compare_bound
from pv4fad.he.keys import Decryptor, generate_keys
from pv4fad.he.ring import PLAIN_MODULI, Ring, compare_ring
from pv4fad.protocol.compare.steps import (
    DIGIT_BASE,
    DigitsJob,
    LessJob,
    ShareLabelsJob,
    comparison_depth,
    digit_bases,
    digits,
    encrypt_digit,
    less_than,
    share_labels,
    thresholds,
)
from pv4fad.randomness import secret_residues


@given(st.integers(2, 2**31), st.data())
def test_digits_are_within_their_bases_and_give_the_value(modulus, data):
    bases = digit_bases(modulus)
    value = data.draw(st.integers(0, modulus - 1))
    found = [int(digit[0]) for digit in digits(np.array([value], np.uint64), modulus)]
    assert len(found) == len(bases)
    assert all(0 <= digit < base for digit, base in zip(found, bases, strict=True))
    again = 0
    for digit in found:
        again = again * DIGIT_BASE + digit
    assert again == value


@given(st.integers(2, 2**31))
def test_digit_bases_waste_nothing(modulus):
    """All bases but the highest are the full one, and the highest is no larger than needed."""
    bases = digit_bases(modulus)
    assert all(base == DIGIT_BASE for base in bases[1:])
    assert 2 <= bases[0] <= DIGIT_BASE
    low = DIGIT_BASE ** (len(bases) - 1)
    assert (bases[0] - 1) * low < modulus <= bases[0] * low


@pytest.mark.parametrize("modulus", [3, 5, 17, 97, 257])
def test_the_thresholds_tell_positive_from_the_rest_for_every_value_and_mask(modulus):
    d, r = np.meshgrid(np.arange(modulus), np.arange(modulus))
    w = (d + r) % modulus
    low, high = thresholds(r.astype(np.uint64), modulus)
    positive = (w < high).astype(int) - (w < low) + (low > high)
    assert np.array_equal(positive, (d >= 1) & (d <= (modulus - 1) // 2))


def edges(t: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Every edge of D with every edge of r, then random ones."""
    sums = [0, 1, -1, 2, -2, t // 2, -(t // 2), t // 2 - 1, 1 - t // 2]
    places = [DIGIT_BASE**k for k in range(8) if DIGIT_BASE**k < t]
    masks = [0, 1, 2, t - 1, t - 2, t // 2, t // 2 + 1, t // 2 - 1]
    masks += [place + shift for place in places for shift in (-1, 0)]
    grid = np.array([(d % t, r) for d in sums for r in masks], np.uint64)
    d, r = secret_residues(t, n), secret_residues(t, n)
    d[: len(grid)], r[: len(grid)] = grid.T
    d[len(grid) : len(grid) + 500] %= np.uint64(5)  # ties and near ties, with random masks
    return d, r


@pytest.mark.parametrize("t", PLAIN_MODULI)
def test_labels_are_exact_for_every_edge_of_sum_and_mask(t):
    """Ties give 0; label − b plus b is the label; 16384 slots."""
    keys = generate_keys(compare_ring(t), "test", relinearisation=True)
    ring, parameters = Ring.of(keys.public.ring), keys.public.ring
    d, r = edges(t, ring.degree)
    w = (d + r) % np.uint64(t)
    one_hot = tuple(
        encrypt_digit(DigitsJob(keys.secret, digit, base))
        for digit, base in zip(digits(w, t), digit_bases(t), strict=True)
    )
    low, high = thresholds(r, t)
    below_high, below_low = (less_than(LessJob(keys.public, one_hot, x)) for x in (high, low))
    b = secret_residues(t, ring.degree)
    constant = ((low > high) + np.uint64(t) - b) % np.uint64(t)
    flood = compare_bound(ring, len(digit_bases(t)), DIGIT_BASE).flood
    level = parameters.n_data_primes - comparison_depth(t)
    shared = share_labels(
        ShareLabelsJob(keys.public, flood, level, below_high, below_low, constant)
    )
    opened = Decryptor(keys.secret).decrypt(ring.load(shared, 1))
    labels = (opened + b) % np.uint64(t)
    assert np.array_equal(labels, (d >= 1) & (d <= t // 2))


def test_nothing_is_below_a_threshold_of_zero_everywhere():
    """No digit is below it: there is nothing to add up, and the answer is still a ciphertext."""
    t = PLAIN_MODULI[0]
    keys = generate_keys(compare_ring(t), "test", relinearisation=True)
    w = secret_residues(t, 100)
    one_hot = tuple(
        encrypt_digit(DigitsJob(keys.secret, digit, base))
        for digit, base in zip(digits(w, t), digit_bases(t), strict=True)
    )
    zero = np.zeros(Ring.of(keys.public.ring).degree, np.uint64)
    below = less_than(LessJob(keys.public, one_hot, zero))
    level = keys.public.ring.n_data_primes - comparison_depth(t)
    ring = Ring.of(keys.public.ring)
    assert not Decryptor(keys.secret).decrypt(ring.load(below, level)).any()
