"""One block of a match, step by step as the parties run it, with accounts that a test chooses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from pv4fad.hashing.tags import TAG_MODULUS
from pv4fad.he.circuits import distances_bound, indicators_bound, values_bound
from pv4fad.he.keys import KeyPair, generate_keys
from pv4fad.he.ring import DISTANCE_RING, TAG_RING, Ring, match_ring, share_ring
from pv4fad.protocol.match.class_powers import of_classes, turns
from pv4fad.protocol.match.comparison import (
    N_DIGITS,
    N_LAST_REMAINDERS,
    bits,
    digits,
    last_remainders,
    remainders,
    squares,
)
from pv4fad.protocol.match.steps import (
    DigitsJob,
    DistancesJob,
    IndicatorsJob,
    OpenJob,
    PlanesJob,
    PowersJob,
    ValuesJob,
    blind_indicators,
    encrypt_digits,
    encrypt_planes,
    encrypt_powers,
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
        found = np.zeros((self.n_classes, len(self.x)), np.int64)
        if not len(self.tags):
            return found
        equal = (self.tags == self.x) & (self.classes >= 0)
        matched = np.flatnonzero(equal.any(axis=0))
        found[self.classes[equal.argmax(axis=0)[matched], matched], matched] = 1
        return found


def random_block(rng, loads: np.ndarray, degree: int, n_classes: int) -> Block:
    """Bins with these loads; of the bins that are not empty, two thirds match."""
    most, n_bins = int(loads.max(initial=0)), len(loads)
    tags = rng.integers(0, TAG_MODULUS, (most, n_bins)).astype(np.uint64)
    classes = rng.integers(0, n_classes, (most, n_bins)).astype(np.int16)
    classes[np.arange(most)[:, np.newaxis] >= loads] = -1
    x = secret_residues(TAG_MODULUS, n_bins)
    matched = np.flatnonzero((loads > 0) & (rng.random(n_bins) < 2 / 3))
    x[matched] = tags[(rng.random(len(matched)) * loads[matched]).astype(int), matched]
    return Block(x, tags, classes, degree, n_classes)


def matched_block(block: Block, modulus: int) -> np.ndarray:
    """u − s modulo t, (classes, bins), through all nine steps."""
    tag, distance = keys_of(TAG_RING), keys_of(DISTANCE_RING)
    match, own = keys_of(match_ring(modulus)), keys_of(share_ring(modulus))
    n, n_bins = block.n_classes, len(block.x)
    floods = [
        values_bound(Ring.of(TAG_RING), block.degree, N_BINS // n_bins).flood,
        distances_bound(Ring.of(DISTANCE_RING), N_DIGITS).flood,
        indicators_bound(Ring.of(match_ring(modulus)), N_LAST_REMAINDERS).flood,
    ]
    powers = encrypt_powers(PowersJob(tag.secret, block.x, block.degree))
    values = mask_values(
        ValuesJob(tag.public, floods[0], block.degree, powers, block.tags, block.classes)
    )
    v, classes = open_block(OpenJob(tag.secret, n_bins, values.values, floods[0].n_sent))

    def compared(of_network: np.ndarray, of_bank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distance under its mask, and the mask."""
        sent = encrypt_digits(DigitsJob(distance.secret, of_network))
        made = mask_distances(DistancesJob(distance.public, floods[1], sent, of_bank))
        (opened,) = open_block(OpenJob(distance.secret, n_bins, (made.distances,)))
        return (opened + squares(of_network)) % np.uint64(DISTANCE_RING.plain_modulus), made.g

    u, g = compared(digits(v), digits(values.r))
    u, g = compared(bits(remainders(u)), bits(remainders(g)))
    planes = encrypt_planes(PlanesJob(match.secret, last_remainders(u), turns(classes), n))
    own_remainders = last_remainders(g)
    blinded = blind_indicators(
        IndicatorsJob(match.public, own.secret, floods[2], planes, own_remainders, values.rho, n)
    )
    u = of_classes(open_block(OpenJob(match.secret, n_bins, blinded.blinded)), modulus)
    return (u.astype(np.int64) - blinded.shares) % modulus
