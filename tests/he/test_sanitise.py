"""Sanitised ciphertexts carry their plaintext, uniform noise of a stated range, and no history."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.phase import centred, noise, phase, residues_of

from pv4fad.he.circuits import linear_bound
from pv4fad.he.keys import Decryptor, Encryptor, Evaluator, SecretEncryptor, generate_keys
from pv4fad.he.ring import PLAIN_MODULI, Ring, match_ring, share_ring
from pv4fad.he.sanitise import Flood, Sanitiser, flood_residues
from pv4fad.randomness import secret_residues

T = 65537
FLOOD = Flood(n_primes=2, reach=2**90)


def chi_square_of_cells(fractions: np.ndarray, n_cells: int) -> float:
    """Against uniform on [0, 1)."""
    counts = np.bincount((fractions * n_cells).astype(int), minlength=n_cells)
    expected = len(fractions) / n_cells
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
@pytest.mark.parametrize("ring", [match_ring, share_ring])
def test_decryption_is_unchanged(ring, modulus):
    keys = generate_keys(ring(modulus), "test", relinearisation=False)
    values = secret_residues(modulus, Ring.of(keys.public.ring).degree)
    ciphertext = Evaluator(keys.public).switch_to(SecretEncryptor(keys.secret).encrypt(values), 2)
    clean = Sanitiser(keys.public, FLOOD).sanitise(ciphertext)
    opened = Decryptor(keys.secret).decrypt(Ring.of(keys.public.ring).load(clean, 1))
    assert np.array_equal(opened, values)


@settings(max_examples=30, deadline=None)
@given(
    room=st.integers(1, 135).flatmap(lambda bits: st.integers(1, 2**bits)),
    n_primes=st.integers(1, 3),
    modulus=st.sampled_from(PLAIN_MODULI),
)
def test_the_flood_is_a_multiple_of_t_within_its_range(room, n_primes, modulus):
    ring, flood = Ring.of(share_ring(modulus)), Flood.within(n_primes, room)
    assert room * (1 - 2**-55) <= flood.reach <= room
    primes = ring.primes[:n_primes]
    if 2 * modulus * flood.reach >= prod(primes):
        return  # not representable: the noise analysis never asks for it
    drawn = centred(flood_residues(ring, flood), primes)
    assert not (drawn % modulus).any()
    e = drawn // modulus
    assert e.min() >= -flood.reach
    assert e.max() < flood.reach
    # Chi-square with 7 degrees of freedom exceeds 47 with probability 6e-8.
    if flood.reach >= 2**20:
        assert chi_square_of_cells(((e + flood.reach) / (2 * flood.reach)).astype(float), 8) < 47


def noisy_product(keys, n_terms: int):
    """A ciphertext with as much noise as a count has: Σ ciphertext · random plaintext."""
    encryptor, evaluator = SecretEncryptor(keys.secret), Evaluator(keys.public)
    terms = [
        (
            evaluator.switch_to(encryptor.encrypt(secret_residues(T, 8192)), 2),
            secret_residues(T, 8192),
        )
        for _ in range(n_terms)
    ]
    return evaluator.add_products(None, terms)


def test_the_noise_the_key_holder_sees_is_uniform_on_the_stated_range(share_keys):
    """Before the drop, over the whole range and at its edges; 12 ciphertexts of 8192 coefficients.

    Chi-square with 63 degrees of freedom exceeds 140 with probability 1e-7; a generator whose
    range is 2 % too small, or a missing top bit, gives thousands.
    """
    flood = linear_bound(Ring.of(share_keys.public.ring), n_terms=4, n_primes=2).flood
    sanitiser = Sanitiser(share_keys.public, flood)
    seen = np.concatenate(
        [
            noise(sanitiser.flooded(noisy_product(share_keys, 4)), share_keys.secret)
            for _ in range(12)
        ]
    )
    size = float(flood.reach)
    fractions = (seen.astype(float) / size + 1) / 2
    assert 0 <= fractions.min() < 0.001
    assert 0.999 < fractions.max() < 1
    assert chi_square_of_cells(fractions, 64) < 140
    low_bits = (seen % 64).astype(float) / 64
    assert chi_square_of_cells(low_bits, 64) < 140


def test_without_the_flood_that_test_would_fail(share_keys):
    flood = linear_bound(Ring.of(share_keys.public.ring), n_terms=4, n_primes=2).flood
    seen = noise(noisy_product(share_keys, 4), share_keys.secret).astype(float)
    assert chi_square_of_cells((seen / flood.reach + 1) / 2, 64) > 140


def test_after_the_drop_the_noise_is_still_uniform(share_keys):
    ring = Ring.of(share_keys.public.ring)
    sanitiser = Sanitiser(share_keys.public, FLOOD)
    size = T * FLOOD.reach / ring.primes[1]
    seen = np.concatenate(
        [
            phase(ring.load(sanitiser.sanitise(noisy_product(share_keys, 1)), 1), share_keys.secret)
            for _ in range(12)
        ]
    ).astype(float)
    inside = np.clip((seen / size + 1) / 2, 0, 1 - 1e-12)
    assert chi_square_of_cells(inside, 64) < 140


def test_the_parity_of_the_noise_carries_nothing(share_keys):
    """Σ noise mod 2 over 200 encryptions of zero: outside 65..135 with probability 6e-7.

    The construction Enc(0)·R1·R2·R3, which was considered, gives an even sum in 94 % of cases.
    """
    sanitiser, encryptor = Sanitiser(share_keys.public, FLOOD), Encryptor(share_keys.public)
    sums = [
        int(noise(sanitiser.flooded(encryptor.zero(2)), share_keys.secret).sum()) % 2
        for _ in range(200)
    ]
    assert 65 <= sum(sums) <= 135


def test_the_second_polynomial_is_fresh_every_time(share_keys):
    """c1 of a product tells its factor to whoever knows the other; sanitised, it is always new."""
    ring = Ring.of(share_keys.public.ring)
    data = ring.dump(noisy_product(share_keys, 1))
    sanitiser = Sanitiser(share_keys.public, FLOOD)
    first, second = (
        residues_of(ring.load(sanitiser.sanitise(ring.load(data, 2)), 1), ring)[1, 0]
        for _ in range(2)
    )
    assert np.count_nonzero(first == second) < 5
    difference = (first.astype(object) - second.astype(object)) % ring.primes[0]
    fractions = difference.astype(float) / ring.primes[0]
    assert chi_square_of_cells(np.clip(fractions, 0, 1 - 1e-12), 64) < 140
