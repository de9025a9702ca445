"""Tags are residues modulo T, and collide no more often than stated."""

from math import log2

import numpy as np
import pytest

from pv4fad.hashing.keyed import hash_accounts, new_hash_key
from pv4fad.hashing.tags import TAG_MODULUS, log2_false_match_bound, tags_of


def test_tags_are_residues_of_the_hash_and_differ():
    hashes = hash_accounts([b"account %d" % i for i in range(10_000)], new_hash_key())
    tags = tags_of(hashes)
    assert tags.tolist() == [int(word) % TAG_MODULUS for word in hashes.tags]
    # 10^8/2 pairs, 2^-47 each: the same tag twice with probability 4e-7.
    assert len(np.unique(tags)) == 10_000


def test_the_modulus_is_a_prime_that_slots_can_hold():
    assert TAG_MODULUS % (2 * 16384) == 1
    assert TAG_MODULUS.bit_length() == 47
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):  # decides all numbers below 2^78
        odd, exponent = TAG_MODULUS - 1, 0
        while odd % 2 == 0:
            odd, exponent = odd // 2, exponent + 1
        powers = [pow(base, odd << i, TAG_MODULUS) for i in range(exponent)]
        assert powers[0] == 1 or TAG_MODULUS - 1 in powers


@pytest.mark.parametrize("n", [1, 3 * 100_000, 3 * 2_000_000])
def test_false_matches_are_bounded_by_the_pairs_and_the_classes(n):
    one_class = log2_false_match_bound(n, n_bins=147_456, n_classes=1)
    assert one_class == pytest.approx(log2(n) - log2(TAG_MODULUS), abs=1e-4)
    assert 2 ** log2_false_match_bound(n, 147_456, 11) == pytest.approx(
        2**one_class + 147_456 * 10 / TAG_MODULUS
    )
    assert one_class < -20
