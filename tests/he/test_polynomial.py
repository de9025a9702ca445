"""Polynomials at encrypted values equal those in plain arithmetic, whatever the degree."""

import pytest
from tests.kit.match_block import keys_of

from pv4fad.hashing.bin_polynomials import powers_of
from pv4fad.he.keys import Decryptor, Evaluator, SecretEncryptor
from pv4fad.he.polynomial import evaluate, exponents
from pv4fad.he.ring import TAG_RING, Ring
from pv4fad.randomness import secret_residues

T = TAG_RING.plain_modulus


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 7, 12, 26])
@pytest.mark.parametrize("missing", [0, 1])
def test_every_slot_has_its_own_polynomial(degree, missing):
    """Also with one coefficient fewer than the degree allows, as L has."""
    if degree == missing:
        pytest.skip("a constant is not evaluated")
    keys, ring = keys_of(TAG_RING), Ring.of(TAG_RING)
    encryptor = SecretEncryptor(keys.secret)
    x = secret_residues(T, ring.degree)
    powers = [encryptor.encrypt(row) for row in powers_of(x, exponents(degree))]
    rows = secret_residues(T, (degree + 1 - missing) * ring.degree).reshape(-1, ring.degree)
    value = evaluate(Evaluator(keys.public), powers, degree, rows)
    opened = Decryptor(keys.secret).decrypt(value)
    for slot in (0, 1, 77, ring.degree - 1):
        expected = sum(int(c) * pow(int(x[slot]), i, T) for i, c in enumerate(rows[:, slot])) % T
        assert opened[slot] == expected
    assert ring.level_of(value) == 4


@pytest.mark.parametrize("degree", range(1, 200))
def test_every_power_is_a_baby_step_plus_a_giant_step(degree):
    steps = exponents(degree)
    assert steps == sorted(set(steps))
    sums = {0, *steps} | {a + b for a in steps for b in steps}
    assert set(range(degree + 1)) <= sums
    assert len(steps) <= 2 * degree**0.5 + 1
