"""One block of a match, step by step as the parties run it, with accounts that a test chooses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from pv4fad.hashing.tags import TAG_MODULUS
from pv4fad.he.circuits import distances_bound, indicators_bound, values_bound
from pv4fad.he.keys import KeyPair, generate_keys
from pv4fad.he.ring import DISTANCE_RING, TAG_RING, Ring, match_ring, share_ring
from pv4fad.protocol.match.comparison import N_DIGITS, WORD_BITS, remainders
from pv4fad.protocol.match.steps import (
    DistancesJob,
    IndicatorsJob,
    OpenJob,
    PowersJob,
    ValueDigitsJob,
    ValuesJob,
    WordsJob,
    blind_indicators,
    encrypt_powers,
    encrypt_value_digits,
    encrypt_words,
    mask_distances,
    mask_values,
    open_block,
)
from pv4fad.randomness import secret_residues

N_BINS = TAG_RING.degree


@cache
def keys_of(ring) -> KeyPair:
    """Costly: one pair for all tests of a process."""
    return generate_keys(ring, "test", relinearisation=ring not in (DISTANCE_RING,))


@dataclass(frozen=True)
class Block:
    """x of every bin, and the bank's accounts: tags and classes, (largest load, bins)."""

    x: np.ndarray
    tags: np.ndarray
    classes: np.ndarray
    degree: int
    n_classes: int

    def truth(self) -> np.ndarray:
        """I_k, (classes, bins): of several accounts with one tag the first counts."""
        found = np.zeros((self.n_classes, N_BINS), np.int64)
        if not len(self.tags):
            return found
        equal = (self.tags == self.x) & (self.classes >= 0)
        matched = np.flatnonzero(equal.any(axis=0))
        found[self.classes[equal.argmax(axis=0)[matched], matched], matched] = 1
        return found


def random_block(rng, loads: np.ndarray, degree: int, n_classes: int) -> Block:
    """Bins with these loads; of the bins that are not empty, two thirds match."""
    most = int(loads.max(initial=0))
    tags = rng.integers(0, TAG_MODULUS, (most, N_BINS)).astype(np.uint64)
    classes = rng.integers(0, n_classes, (most, N_BINS)).astype(np.int16)
    classes[np.arange(most)[:, np.newaxis] >= loads] = -1
    x = secret_residues(TAG_MODULUS, N_BINS)
    matched = np.flatnonzero((loads > 0) & (rng.random(N_BINS) < 2 / 3))
    x[matched] = tags[(rng.random(len(matched)) * loads[matched]).astype(int), matched]
    return Block(x, tags, classes, degree, n_classes)


def matched_block(block: Block, modulus: int) -> np.ndarray:
    """u − s modulo t, (classes, bins), through all seven steps."""
    tag, distance = keys_of(TAG_RING), keys_of(DISTANCE_RING)
    match, own = keys_of(match_ring(modulus)), keys_of(share_ring(modulus))
    floods = [
        values_bound(Ring.of(TAG_RING), block.degree).flood,
        distances_bound(Ring.of(DISTANCE_RING), N_DIGITS).flood,
        indicators_bound(Ring.of(match_ring(modulus)), WORD_BITS, block.n_classes).flood,
    ]
    n = block.n_classes
    powers = encrypt_powers(PowersJob(tag.secret, block.x, block.degree))
    values = mask_values(
        ValuesJob(tag.public, floods[0], block.degree, powers, block.tags, block.classes, n)
    )
    v, classes = open_block(OpenJob(tag.secret, values.values, floods[0].n_sent))
    digits = encrypt_value_digits(ValueDigitsJob(distance.secret, v))
    distances = mask_distances(DistancesJob(distance.public, floods[1], digits, values.r))
    (opened,) = open_block(OpenJob(distance.secret, (distances.distances,)))
    of_class = (classes % np.uint64(n)).astype(np.uint8)
    words = encrypt_words(WordsJob(match.secret, match.public, remainders(opened), of_class, n))
    blinded = blind_indicators(
        IndicatorsJob(match.public, own.secret, floods[2], words, distances.g, values.rho, n)
    )
    u = open_block(OpenJob(match.secret, blinded.blinded))
    return (u.astype(np.int64) - blinded.shares) % modulus
