"""How equality of two residues modulo T becomes equality of small numbers (protocol.md §3.3, §3.4).

One party has digits a, the other digits b.  Their distance Σ (a − b)² is 0 if and only if they are
equal.  With a mask g, uniform modulo t₂ = 65537, added to it, it is a secret again; and whether it
is 0 shows in its remainder modulo a small number M.  h + g wraps around t₂ or not, so its remainder
differs from that of g by h or by h − (t₂ mod M).  If 0 < h < M, and h < t₂ mod M, neither is a
multiple of M; without h nothing wraps.  So the remainders agree if and only if h = 0.  This is done
twice:

    of                        digits                  distance at most     M      t₂ mod M
    residues modulo T         18 in base 6, and a bit          451        482       467
    remainders modulo 482     9 bits                             9         11        10

Larger bases take fewer digits and leave a larger distance; with 11 at the end these are the fewest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.uint64]
Remainders = NDArray[np.uint16]
LastRemainders = NDArray[np.uint8]
Digits = NDArray[np.uint8]

_BASE = 6
_N_OF_BASE = 18
N_DIGITS = _N_OF_BASE + 1
LARGEST_DISTANCE = (_BASE - 1) ** 2 * _N_OF_BASE + 1
N_REMAINDERS = 482
N_BITS = 9
LARGEST_DIFFERENCE = N_BITS
N_LAST_REMAINDERS = 11


def digits(values: Residues) -> Digits:
    """The digits of residues modulo T, (19, values), the lowest first; the last one is a bit."""
    found = np.empty((N_DIGITS, len(values)), np.uint8)
    for place in range(N_DIGITS):
        values, found[place] = np.divmod(values, np.uint64(_BASE))
    return found


def remainders(distances: Residues) -> Remainders:
    """What is compared of the distances of residues, under their masks."""
    return (distances % np.uint64(N_REMAINDERS)).astype(np.uint16)


def bits(values: Remainders) -> Digits:
    """The bits of remainders, (9, values)."""
    places = np.arange(N_BITS, dtype=np.uint16)[:, np.newaxis]
    return ((values >> places) & np.uint16(1)).astype(np.uint8)


def last_remainders(differences: Residues) -> LastRemainders:
    """What is compared of the distances of remainders, under their masks."""
    return (differences % np.uint64(N_LAST_REMAINDERS)).astype(np.uint8)


def squares(of_digits: Digits) -> Residues:
    """Σ a² of each column."""
    total: Residues = (of_digits.astype(np.uint64) ** 2).sum(axis=0)
    return total
