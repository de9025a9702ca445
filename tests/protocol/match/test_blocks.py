"""Every indicator of a block is the plain join's: at every t, for all loads and numbers of classes.

Real encryption in all three rings; 16384 bins in a full block, fewer where it has strips.
"""

import numpy as np
import pytest
from tests.kit.match_block import N_BINS, Block, matched_block, random_block

from pv4fad.hashing.tags import TAG_MODULUS
from pv4fad.he.ring import PLAIN_MODULI

T = PLAIN_MODULI[0]


def check(block: Block, modulus: int = T) -> None:
    assert np.array_equal(matched_block(block, modulus), block.truth())


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_all_indicators_are_exact_at_every_modulus(modulus):
    rng = np.random.default_rng(1)
    block = random_block(rng, rng.poisson(2.0, N_BINS), degree=26, n_classes=11)
    assert block.truth().sum() > 5000
    check(block, modulus)


@pytest.mark.parametrize("n_strips", [2, 3, 5, 8, 12, 13, 16])
def test_all_indicators_are_exact_in_any_number_of_strips(n_strips):
    """Strips that are left over in the last ciphertext of a row of digits, and slots in none."""
    rng, n_bins = np.random.default_rng(n_strips), N_BINS // n_strips
    block = random_block(rng, rng.poisson(8.0, n_bins), degree=40, n_classes=3)
    assert block.truth().sum() > n_bins / 2
    check(block)


@pytest.mark.parametrize(("n_strips", "degree"), [(12, 2), (12, 3), (3, 4), (16, 15), (2, 70)])
def test_small_and_large_degrees_in_strips(n_strips, degree):
    rng, n_bins = np.random.default_rng(degree), N_BINS // n_strips
    loads = np.minimum(rng.poisson(degree / 3, n_bins), degree)
    loads[5] = degree
    check(random_block(rng, loads, degree, n_classes=4))


@pytest.mark.parametrize("n_classes", [1, 2, 4, 32])
def test_any_number_of_classes(n_classes):
    rng = np.random.default_rng(n_classes)
    block = random_block(rng, rng.poisson(1.0, N_BINS), degree=12, n_classes=n_classes)
    assert len(np.unique(block.truth().argmax(axis=0))) == n_classes
    check(block)


@pytest.mark.parametrize(
    ("loads", "degree"),
    [
        (np.zeros(N_BINS, int), 2),
        (np.zeros(N_BINS, int), 9),
        (np.ones(N_BINS, int), 2),
        (np.full(N_BINS, 2), 2),
        (np.where(np.arange(N_BINS) % 1000 == 7, 30, 0), 30),
        (np.arange(N_BINS) % 8, 7),
        (np.full(N_BINS, 25), 25),
    ],
    ids=[
        "empty",
        "empty, planned for nine",
        "one each",
        "two each",
        "a few full bins",
        "mixed",
        "full",
    ],
)
def test_empty_blocks_tiny_banks_and_full_bins(loads, degree):
    rng = np.random.default_rng(degree)
    block = random_block(rng, loads, degree, n_classes=3)
    assert block.truth().any() == loads.any()
    check(block)


def test_of_two_accounts_with_one_tag_the_first_counts():
    rng = np.random.default_rng(3)
    block = random_block(rng, np.full(N_BINS, 3), degree=5, n_classes=4)
    block.tags[2] = block.tags[0]
    block.x[:] = block.tags[0]
    assert (block.classes[2] != block.classes[0]).any()
    check(block)


def test_tags_at_the_ends_of_their_range_and_their_neighbours():
    """Differences of 1 in the tag must not pass for equality."""
    rng = np.random.default_rng(4)
    block = random_block(rng, np.ones(N_BINS, int), degree=2, n_classes=2)
    ends = np.array([0, 1, TAG_MODULUS - 1, TAG_MODULUS // 2], np.uint64)
    block.tags[0, : 4 * 3] = np.repeat(ends, 3)
    near = (np.repeat(ends, 3) + np.tile(np.array([TAG_MODULUS - 1, 0, 1], np.uint64), 4)) % (
        np.uint64(TAG_MODULUS)
    )
    block.x[: 4 * 3] = near
    assert block.truth()[:, :12].sum() == 4
    check(block)
