"""The equality polynomial tells 16 agreeing ones from any fewer, in plain and encrypted."""

import numpy as np
import pytest

from pv4fad.he.equality import POLYNOMIAL_PRIMES, WEIGHT, equality_polynomial
from pv4fad.he.keys import Decryptor, Evaluator, SecretEncryptor, generate_keys
from pv4fad.he.ring import PLAIN_MODULI, match_ring


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_it_is_zero_for_0_to_15_agreeing_ones_and_its_constant_for_16(modulus):
    p = equality_polynomial(modulus)
    values = []
    for agreeing in range(WEIGHT + 1):
        z = (2 * agreeing - 15) ** 2 - 85
        left = p.g * z + p.h
        values.append((z**4 + left) * (z**4 + p.a * z**2 + p.b * z + p.d) + p.k * left + p.e)
    assert [value % modulus for value in values] == [0] * WEIGHT + [p.at_match]
    assert p.at_match != 0


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_encrypted_evaluation_gives_the_same(modulus):
    keys = generate_keys(match_ring(modulus), relinearisation=True)
    evaluator = Evaluator(keys.public)
    agreeing = np.arange(evaluator.ring.degree, dtype=np.uint64) % np.uint64(WEIGHT + 1)
    polynomial = equality_polynomial(modulus)
    equal = polynomial.of(evaluator, SecretEncryptor(keys.secret).encrypt(agreeing * np.uint64(2)))
    expected = np.where(agreeing == WEIGHT, polynomial.at_match, 0)
    assert np.array_equal(Decryptor(keys.secret).decrypt(equal), expected)
    assert evaluator.ring.level_of(equal) == POLYNOMIAL_PRIMES - 4
