"""Account hashes: fixed by key and account, uniform, and independent of one another."""

from hashlib import blake2b

import numpy as np
import pytest

from pv4fad.errors import ParameterError
from pv4fad.hashing.keyed import hash_accounts, new_hash_key, reduce_words, tree_of

KEY = bytes(range(32))
BINS_AND_TAG = ["aa35522a4ad40eb5", "9db5c2f05d81f5e6", "ebbd1c31cbc654dc", "13ca7890538194d0"]
TREES = [3, 3, 11]
ACCOUNTS = [b"BANKDEFF/%d" % i for i in range(70_000)]  # more than one chunk


def chi_square(values: np.ndarray, cells: int) -> float:
    expected = len(values) / cells
    return float(((np.bincount(values, minlength=cells) - expected) ** 2 / expected).sum())


def test_words_are_those_of_keyed_blake2b_whatever_the_order_of_accounts():
    hashes = hash_accounts(ACCOUNTS, KEY)
    for i in (0, 65_535, 65_536, 69_999):
        digest = blake2b(ACCOUNTS[i], digest_size=32, key=KEY, person=b"pv4fad account").digest()
        words = [int.from_bytes(digest[8 * j : 8 * j + 8], "little") for j in range(4)]
        assert [*hashes.bins[i].tolist(), int(hashes.tags[i])] == words
    backwards = hash_accounts(ACCOUNTS[::-1], KEY)
    assert np.array_equal(backwards.bins[::-1], hashes.bins)
    assert np.array_equal(backwards.tags[::-1], hashes.tags)


def test_a_known_answer_pins_the_hash_between_versions():
    hashes = hash_accounts([b"account"], KEY)
    assert [f"{int(w):016x}" for w in [*hashes.bins[0], hashes.tags[0]]] == BINS_AND_TAG
    assert tree_of([b"account", b"", b"other"], 12).tolist() == TREES


def test_another_key_gives_unrelated_words():
    first, second = hash_accounts(ACCOUNTS, KEY), hash_accounts(ACCOUNTS, new_hash_key())
    assert not (first.bins == second.bins).any()
    assert not (first.tags == second.tags).any()


def test_bins_tags_and_trees_are_uniform_and_pairwise_independent():
    hashes = hash_accounts(ACCOUNTS, KEY)
    columns = [*(reduce_words(column, 12) for column in hashes.bins.T)]
    columns += [reduce_words(hashes.tags, 12), tree_of(ACCOUNTS, 12)]
    # Chi-square exceeds 63 (11 degrees of freedom) or 240 (143) with probability below 1e-6.
    # The values are fixed, so the test fails only when the hash changes.
    for i, column in enumerate(columns):
        assert chi_square(column, 12) < 63
        for other in columns[:i]:
            assert chi_square(12 * column + other, 144) < 240


def test_no_accounts_give_empty_arrays():
    hashes = hash_accounts([], KEY)
    assert hashes.bins.shape == (0, 3)
    assert hashes.tags.shape == (0,)
    assert len(hashes) == 0
    assert tree_of([], 12).shape == (0,)


def test_unusable_keys_and_ranges_are_refused():
    with pytest.raises(ParameterError, match="32 bytes"):
        hash_accounts([b"account"], b"short")
    with pytest.raises(ParameterError, match="reduced"):
        tree_of([b"account"], 0)
    with pytest.raises(ParameterError, match="reduced"):
        reduce_words(np.zeros(1, np.uint64), 2**33)
