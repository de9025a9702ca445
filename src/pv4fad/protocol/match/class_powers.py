"""How one of K classes under a mask becomes K indicators (protocol.md §3.4).

ω is a root of order 32 modulo t, and numbers of classes are powers of it.  A mask is taken off by a
product: ω^(mL) = ω^(m·(L + ρ))·ω^(−m·ρ), where only remainders modulo 32 count.  For an account
that is here, I = 1, with class L, or is not, I = 0,

    J_m = I·ω^(mL) = Σ_k ω^(mk)·I_k      m = 0 … K − 1

The ω^k are different, so that the J_m determine the I_k: these are sums of J_m, with factors that
everybody knows.  Each party adds up its own shares of them, in the clear.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.uint64]
Turns = NDArray[np.uint8]

N_TURNS = 32  # as many as classes at most; divides t − 1 for every t that allows batching


def turns(values: Residues) -> Turns:
    """What counts of L + ρ, and of ρ."""
    return (values % np.uint64(N_TURNS)).astype(np.uint8)


def powers(of: Turns, exponent: int, modulus: int) -> Residues:
    """ω^(exponent·n) of each number n."""
    root = _root(modulus)
    table = [pow(root, exponent * n % N_TURNS, modulus) for n in range(N_TURNS)]
    return np.array(table, np.uint64)[of]


def of_classes(sums: Residues, modulus: int) -> Residues:
    """I_k from J_m, or shares of the one from shares of the other; both (classes, bins)."""
    # Below 32·t² < 2^64; not in floating point, whose threads would wait in vain on every core.
    total: Residues = _inverse(len(sums), modulus) @ sums
    return total % np.uint64(modulus)


@lru_cache(maxsize=8)
def _root(modulus: int) -> int:
    """The first of order 32."""
    powers = (pow(n, (modulus - 1) // N_TURNS, modulus) for n in range(2, modulus))
    return next(one for one in powers if pow(one, N_TURNS // 2, modulus) != 1)


@lru_cache(maxsize=8)
def _inverse(n: int, modulus: int) -> Residues:
    """Of the matrix ω^(mk): row k has the coefficients of the polynomial that is 1 at ω^k and 0 at
    all others."""
    nodes = [pow(_root(modulus), k, modulus) for k in range(n)]
    rows = []
    for one in nodes:
        row = [1]
        for other in nodes:
            if other != one:
                scale = pow(one - other, -1, modulus)
                times_x, less = [0, *row], [*(-other * c for c in row), 0]
                row = [(a + b) * scale % modulus for a, b in zip(times_x, less, strict=True)]
        rows.append(row)
    return np.array(rows, np.uint64)
