"""How equality of two residues modulo T becomes equality of small numbers (protocol.md §3.3, §3.4).

One party has digits a, the other digits b.  Their distance Σ (a − b)² is 0 if and only if they are
equal.  With a mask g, uniform modulo t₂ = 65537, added to it, it is a secret again; and whether it
is 0 shows in its remainder modulo a small number M.  h + g wraps around t₂ or not, so its remainder
differs from that of g by h or by h − (t₂ mod M).  If 0 < h < M, and h < t₂ mod M, neither is a
multiple of M; without h nothing wraps.  So the remainders agree if and only if h = 0.  This is done
twice:

    of                        digits                  distance at most     M      t₂ mod M
    residues modulo T         23 in base 4, and a bit          208        226       223
    remainders modulo 226     8 bits                             8         11        10
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.uint64]
Remainders = NDArray[np.uint8]
Digits = NDArray[np.uint8]

_N_BASE_4 = 23
N_DIGITS = _N_BASE_4 + 1
LARGEST_DISTANCE = 9 * _N_BASE_4 + 1
N_REMAINDERS = 226
N_BITS = 8
LARGEST_DIFFERENCE = N_BITS
N_LAST_REMAINDERS = 11


def digits(values: Residues) -> Digits:
    """The digits of residues modulo T, (24, values); the last one is a bit."""
    places = np.arange(0, 2 * N_DIGITS, 2, dtype=np.uint64)[:, np.newaxis]
    return ((values >> places) & np.uint64(3)).astype(np.uint8)


def remainders(distances: Residues) -> Remainders:
    """What is compared of the distances of residues, under their masks."""
    return (distances % np.uint64(N_REMAINDERS)).astype(np.uint8)


def bits(values: Remainders) -> Digits:
    """The bits of remainders, (8, values)."""
    return (values >> np.arange(N_BITS, dtype=np.uint8)[:, np.newaxis]) & np.uint8(1)


def last_remainders(differences: Residues) -> Remainders:
    """What is compared of the distances of remainders, under their masks."""
    return (differences % np.uint64(N_LAST_REMAINDERS)).astype(np.uint8)


def squares(of_digits: Digits) -> Residues:
    """Σ a² of each column."""
    total: Residues = (of_digits.astype(np.uint64) ** 2).sum(axis=0)
    return total
