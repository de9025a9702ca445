"""Polynomials at encrypted values equal those in plain arithmetic, whatever the degree."""

import numpy as np
import pytest
from tests.kit.match_block import keys_of

from pv4fad.hashing.bin_polynomials import powers_of
from pv4fad.he.keys import Decryptor, Evaluator, SecretEncryptor
from pv4fad.he.polynomial import evaluate, exponents, n_powers, power_rows
from pv4fad.he.ring import TAG_RING, Ring
from pv4fad.he.strips import Strips
from pv4fad.randomness import secret_residues

T = TAG_RING.plain_modulus


@pytest.mark.parametrize("n_strips", [1, 3, 13])
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 7, 12, 26, 40])
@pytest.mark.parametrize("missing", [0, 1])
def test_every_bin_has_its_own_polynomial(degree, missing, n_strips):
    """Also with one coefficient fewer than the degree allows, as L has."""
    if degree == missing:
        pytest.skip("a constant is not evaluated")
    keys, ring = keys_of(TAG_RING), Ring.of(TAG_RING)
    strips = Strips(ring.degree // n_strips, ring.degree)
    encryptor, steps = SecretEncryptor(keys.secret), exponents(degree, n_strips)
    x = secret_residues(T, strips.n_bins)
    of_bins = dict(zip(steps, powers_of(x, steps), strict=True))
    powers = [encryptor.encrypt(row) for row in power_rows(of_bins, degree, strips)]
    assert len(powers) == n_powers(degree, n_strips)
    rows = secret_residues(T, (degree + 1 - missing) * strips.n_bins).reshape(-1, strips.n_bins)
    value = evaluate(Evaluator(keys.public), powers, degree, strips, rows)
    opened = strips.total(Decryptor(keys.secret).decrypt(value), T)
    for place in (0, 1, 77, strips.n_bins - 1):
        terms = (int(c) * pow(int(x[place]), i, T) for i, c in enumerate(rows[:, place]))
        assert opened[place] == sum(terms) % T
    assert ring.level_of(value) == 4


@pytest.mark.parametrize("n_strips", [1, 2, 8, 13])
@pytest.mark.parametrize("degree", range(1, 200, 7))
def test_every_power_is_a_baby_step_plus_a_giant_step(degree, n_strips):
    steps = exponents(degree, n_strips)
    assert steps == sorted(set(steps))
    sums = {0, *steps} | {a + b for a in steps for b in steps}
    assert set(range(degree + 1)) <= sums
    assert n_powers(degree, n_strips) <= 2 * (degree / n_strips) ** 0.5 + 2


def test_rows_across_strips_add_up_and_rows_alike_are_in_all_of_them():
    strips = Strips(5, 17)  # three strips, two slots over
    rows = np.arange(35).reshape(7, 5)
    across = strips.across(rows)
    assert strips.n == 3
    assert across.shape == (strips.n_ciphertexts(7), 17) == (3, 17)
    assert np.array_equal(across[:, :15].reshape(9, 5)[:7], rows)
    assert not across[:, 15:].any()
    assert not across[2, 5:].any()
    assert np.array_equal(sum(strips.total(one, 1000) for one in across), rows.sum(axis=0))
    assert np.array_equal(strips.total(strips.alike(rows[1]), 11), 3 * rows[1] % 11)
