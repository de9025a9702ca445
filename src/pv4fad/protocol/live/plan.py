"""What is public about live questions: tracks, how much a query can carry, its flood, the clock."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.circuits import live_bound
from pv4fad.he.noise import CircuitBound
from pv4fad.he.one_hot import weight_bits
from pv4fad.he.ring import Ring, RingParameters

DISTANCE_BITS = 72
"""A query is within 2^-72 of uniform, whatever t, classes and sets (`tests/he/test_noise.py`)."""
TRACKS = 64
"""Sums that a bank returns: no query tells more than this many values modulo t."""

_TICK_MS = 50
_TICK_MS_PER_BANK = 10


def most_questions(plain_modulus: int) -> int:
    """That one query can carry: also the bits that one reply can tell."""
    return TRACKS * weight_bits(plain_modulus)


def bound_of(ring: RingParameters, n_atoms: int, n_sets: int) -> CircuitBound:
    """The static noise bound of a query, with the flood that follows from it."""
    return live_bound(Ring.of(ring), most_questions(ring.plain_modulus), n_atoms, n_sets)


def default_tick_ms(n_banks: int) -> int:
    """A query to one bank takes the payment network about 9 ms of a core, asked or not: 50 ms for
    up to 4 banks, and 10 more for each one beyond."""
    return max(_TICK_MS, _TICK_MS_PER_BANK * (n_banks + 1))


def track_sums(values: NDArray[np.unsignedinteger], plain_modulus: int) -> NDArray[np.uint32]:
    """The sums modulo t over the slots of each track."""
    sums: NDArray[np.uint64] = values.reshape(-1, TRACKS).sum(axis=0, dtype=np.uint64)
    return (sums % np.uint64(plain_modulus)).astype(np.uint32)


def weights_of(tracks: Sequence[int] | NDArray[np.integer]) -> NDArray[np.int64]:
    """0, 1, 2, … within each track, in order; those of `weight_bits` and above have to wait."""
    of = np.asarray(tracks, np.int64)
    order = np.argsort(of, kind="stable")
    weights = np.empty(len(of), np.int64)
    weights[order] = np.arange(len(of)) - np.searchsorted(of[order], of[order])
    return weights
