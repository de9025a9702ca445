"""How equality of two residues modulo T becomes codewords, in plain arithmetic (protocol.md §3.4).

Round 2.  A residue has 26 digits: 21 in base 4, and 5 bits.  The distance of two residues is the
sum of the squared differences of their digits: 0 if and only if they are equal, and at most 194.

Round 3.  h and g + h, g uniform modulo t₂ = 65537, are compared by their remainders modulo 198.
g + h wraps around t₂ or not; its remainder then differs from that of g by h or by h − 197, since
t₂ ≡ 197 modulo 198.  For 0 < h ≤ 194 neither is a multiple of 198, and without h nothing wraps.  So
the remainders agree if and only if h = 0.  A remainder is written as a codeword of 10 bits, 4 of
them 1: two codewords have 4 ones in common only if they are equal.
"""

from __future__ import annotations

from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.uint64]
Remainders = NDArray[np.uint8]

_N_BASE_4, _N_BITS = 21, 5
N_DIGITS = _N_BASE_4 + _N_BITS
LARGEST_DISTANCE = 9 * _N_BASE_4 + _N_BITS
N_REMAINDERS = 198
WORD_BITS, WORD_ONES = 10, 4

_WORDS = np.array(
    [
        sum(1 << place for place in ones)
        for ones in islice(combinations(range(WORD_BITS), WORD_ONES), N_REMAINDERS)
    ],
    np.uint16,
)


def digits(values: Residues) -> Residues:
    """The digits of residues modulo T, (26, values)."""
    places = [2 * i for i in range(_N_BASE_4)] + [2 * _N_BASE_4 + i for i in range(_N_BITS)]
    bases = [4] * _N_BASE_4 + [2] * _N_BITS
    return np.stack(
        [
            (values >> np.uint64(place)) & np.uint64(base - 1)
            for place, base in zip(places, bases, strict=True)
        ]
    )


def remainders(distances: Residues) -> Remainders:
    """What is compared of residues modulo t₂."""
    return (distances % np.uint64(N_REMAINDERS)).astype(np.uint8)


def codeword_bits(values: Remainders) -> NDArray[np.uint16]:
    """The bits of the codeword of each remainder, (10, values)."""
    words = _WORDS[values]
    return np.stack([(words >> np.uint16(bit)) & np.uint16(1) for bit in range(WORD_BITS)])
