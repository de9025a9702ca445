"""Masks of single slots by permutation are those that the library encodes, bit for bit."""

import numpy as np
import pytest
from tests.kit.match_block import keys_of

from pv4fad.he.keys import Decryptor, Evaluator, SecretEncryptor
from pv4fad.he.one_hot import MOST_SUMMED, OneHot, weight_bits
from pv4fad.he.ring import PLAIN_MODULI, Ring, share_ring


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_the_mask_of_any_slot_is_the_encoded_one(modulus):
    ring = Ring.of(share_ring(modulus))
    one_hot = OneHot(ring, 3)
    rng = np.random.default_rng(1)
    slots = [0, 1, 4095, 4096, 8191, *rng.integers(8192, size=20)]
    for slot in slots:
        weight = rng.integers(weight_bits(modulus))
        given = np.array([slot]), np.array([weight])
        header, residues = ring.plaintext_parts(one_hot.of(*given))
        wanted_header, wanted = ring.plaintext_parts(one_hot.encoded(*given))
        assert header == wanted_header
        assert np.array_equal(residues, wanted)


@pytest.mark.parametrize("n_slots", [2, MOST_SUMMED, MOST_SUMMED + 1, 200])
def test_a_product_has_the_weights_in_its_slots_and_zero_elsewhere(n_slots):
    modulus = 163841
    keys = keys_of(share_ring(modulus))
    rng = np.random.default_rng(n_slots)
    slots = rng.choice(8192, n_slots, replace=False)
    weights = rng.integers(weight_bits(modulus), size=n_slots)
    ones = SecretEncryptor(keys.secret).encrypt(np.ones(8192, np.uint64))
    mask = OneHot(Ring.of(share_ring(modulus)), 3).of(slots, weights)
    product = Evaluator(keys.public).add_prepared(None, ones, mask)
    wanted = np.zeros(8192, np.uint64)
    wanted[slots] = 2 ** weights.astype(np.uint64)
    assert np.array_equal(Decryptor(keys.secret).decrypt(product), wanted)


def test_a_value_modulo_t_holds_all_bits_of_its_weights():
    assert [weight_bits(modulus) for modulus in PLAIN_MODULI] == [16, 17, 19, 21]
    assert all(2 ** weight_bits(modulus) - 1 < modulus for modulus in PLAIN_MODULI)
