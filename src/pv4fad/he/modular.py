"""Products modulo primes of up to 60 bits, exact, in 64-bit words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

HALF_BITS = 30
_LOW = np.uint64(2**HALF_BITS - 1)


def product(left: Words, right: Words, q: int) -> Words:
    """left · right mod q, both below q."""
    shift = np.uint64(HALF_BITS)
    high = _times_half(_times_half(left, right >> shift, q), np.uint64(2**HALF_BITS), q)
    total = high + _times_half(left, right & _LOW, q)
    return np.where(total >= np.uint64(q), total - np.uint64(q), total)


def remainder(high: Words, low: Words, q: int) -> Words:
    """(high·2^30 + low) mod q, where the whole is so much below q·2^50 that floating point gives
    the quotient within one."""
    whole = high.astype(np.float64) * 2**HALF_BITS + low
    return _reduced((high << np.uint64(HALF_BITS)) + low, whole, q)


def _times_half(values: Words, factor: Words | np.uint64, q: int) -> Words:
    """values · factor mod q, for values below q and factors of at most 2^30."""
    return _reduced(values * factor, values.astype(np.float64) * factor, q)


def _reduced(wrapped: Words, whole: NDArray[np.float64], q: int) -> Words:
    """`whole` mod q, known modulo 2^64 and in floating point."""
    quotient = (whole / q).astype(np.uint64)
    # Wrapping arithmetic: the true remainder lies in (−2q, 2q), so its low 64 bits determine it.
    rest = (wrapped - quotient * np.uint64(q)).view(np.int64)
    rest = np.where(rest < 0, rest + q, rest)
    reduced: NDArray[np.int64] = np.where(rest >= q, rest - q, rest)
    return reduced.astype(np.uint64)
