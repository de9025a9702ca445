"""Pairwise masks vanish in the sum over all banks and are uniform in every smaller one."""

import itertools

import numpy as np
import pytest

from pv4fad.errors import ParameterError, ProtocolError
from pv4fad.privacy.pairwise import PairwiseKey, pairwise_mask, pairwise_seeds
from pv4fad.randomness import secret_bytes

T = 65537
LOW_ORDER_POINT = bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")


def make_keys(n):
    # Names whose order is not the order of their making.
    return [PairwiseKey(name, secret_bytes(32)) for name in ("m", "z", "a", "k", "y", "b")[:n]]


def partners(own, keys):
    return {key.owner: key.public for key in keys if key is not own}


def masks(keys, n=50, *, run="run-1", purpose="sums", context=b"sums", modulus=T):
    seeds = {own: pairwise_seeds(own, partners(own, keys), run, purpose) for own in keys}
    return [
        pairwise_mask(own.owner, shared, context, modulus=modulus, n=n)
        for own, shared in seeds.items()
    ]


def chi_square(values, modulus, cells=64):
    observed = np.bincount(
        (values * np.uint64(cells) // np.uint64(modulus)).astype(int), minlength=cells
    )
    expected = len(values) * np.diff(np.ceil(np.arange(cells + 1) * modulus / cells)) / modulus
    return float(((observed - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("n_banks", range(1, 7))
@pytest.mark.parametrize("modulus", [2, T, 786433, 2**32])
def test_masks_of_all_banks_add_up_to_zero(n_banks, modulus):
    total = sum(masks(make_keys(n_banks), modulus=modulus))
    assert not np.any(total % np.uint64(modulus))


def test_a_single_bank_has_no_mask():
    assert not np.any(masks(make_keys(1)))


@pytest.mark.parametrize("n_banks", [2, 4])
def test_every_proper_subset_of_the_masks_adds_up_to_something_uniform(n_banks):
    # Chi-square with 63 degrees of freedom exceeds 140 with probability 1e-7; with 50,000 values
    # a value that is left in place of the mask in 10 % of the entries is noticed surely (the
    # statistic is then above 30,000); see the next test.
    all_masks = masks(make_keys(n_banks), n=50_000)
    for size in range(1, n_banks):
        for subset in itertools.combinations(all_masks, size):
            values = sum(subset) % np.uint64(T)
            assert values.max() < T
            assert chi_square(values, T) < 140


def test_a_mask_that_is_missing_in_a_tenth_of_the_entries_would_be_noticed():
    (mask, _) = masks(make_keys(2), n=50_000)
    mask[::10] = 0
    assert chi_square(mask, T) > 1000


def test_masks_differ_for_every_run_purpose_and_context():
    keys = make_keys(2)
    seen = [
        masks(keys, run=run, purpose=purpose, context=context)[0].tobytes()
        for run in ("run-1", "run-2")
        for purpose in ("sums", "answers")
        for context in (b"sums", b"score/table-1/0", b"score/table-1/1")
    ]
    assert len(set(seen)) == 12
    assert masks(keys)[0].tobytes() == seen[0]


def test_masks_are_unpredictable_without_the_keys():
    assert not np.array_equal(masks(make_keys(2))[0], masks(make_keys(2))[0])


def test_two_banks_derive_the_same_seed_and_a_third_another_one():
    a, b, c = make_keys(3)
    from_a = pairwise_seeds(a, partners(a, [b, c]), "r", "sums")
    assert from_a["z"] == pairwise_seeds(b, partners(b, [a, c]), "r", "sums")["m"]
    assert from_a["z"] != from_a["a"]
    assert len(from_a["z"]) == 32


def test_seed_derivation_never_changes():
    own = PairwiseKey("bank-a", bytes(range(32)))
    other = PairwiseKey("bank-b", bytes(range(1, 33)))
    seeds = pairwise_seeds(own, {"bank-b": other.public}, "run-1", "sums")
    assert seeds["bank-b"].hex() == (
        "d8c4a0910f68b38a8b8743e2c695ed922bbf7c6a4d5131ba7b769de167c8e9f4"
    )
    mask = pairwise_mask("bank-a", seeds, b"sums", modulus=T, n=4)
    assert mask.tolist() == [1465, 48719, 29712, 29957]


@pytest.mark.parametrize("public", [bytes(32), b"\x01" + bytes(31), LOW_ORDER_POINT, b"short"])
def test_keys_that_make_the_secret_public_are_refused(public):
    (own,) = make_keys(1)
    with pytest.raises(ProtocolError, match="key of bank-b is not valid"):
        pairwise_seeds(own, {"bank-b": public}, "r", "sums")


def test_a_bank_is_not_its_own_partner_and_no_key_comes_twice():
    own, other = make_keys(2)
    with pytest.raises(ProtocolError, match="partner of itself"):
        pairwise_seeds(own, {own.owner: other.public}, "r", "sums")
    for others in ({"x": own.public}, {"x": other.public, "y": other.public}):
        with pytest.raises(ProtocolError, match="the same X25519 key"):
            pairwise_seeds(own, others, "r", "sums")


def test_impossible_requests_are_refused():
    with pytest.raises(ParameterError, match="context"):
        pairwise_mask("bank-a", {}, b"", modulus=T, n=1)
    with pytest.raises(ParameterError, match="modulus"):
        pairwise_mask("bank-a", {}, b"sums", modulus=0, n=1)


def test_the_secret_is_not_shown():
    assert repr(PairwiseKey("bank-a", bytes(32))) == "PairwiseKey(owner='bank-a')"
