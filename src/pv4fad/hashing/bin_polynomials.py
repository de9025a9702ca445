"""The polynomials of a bank's bins modulo T, all bins at once.

For a bin with tags y_1 … y_m and values l_1 … l_m

    P = ∏ (x − y_j)          is 0 at the tags, and at no other residue
    L                        has degree < m and L(y_j) = l_j: Newton's form, one tag after the other

Of two accounts with one tag, the first stays: L takes its value there.

Residues are kept as int64 within ±0.6·T.  A product is reduced with a quotient in floating point,
whose error is below 1/8, and wrapping 64-bit arithmetic: the remainder is centred without a
correction.  The work is quadratic in the loads, so that bins are sorted by load and each round
touches those that still have an account; a chunk of bins stays in the processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pv4fad.hashing.tags import TAG_MODULUS

Signed = NDArray[np.int64]

_CHUNK = 5462  # bins
_INVERSE = 1.0 / TAG_MODULUS
_FEW = 64  # inverted one by one


@dataclass(frozen=True)
class BinPolynomials:
    """Coefficients in [0, T), (degree + 1, bins), the constant first.  A bank's secret."""

    tags: NDArray[np.uint64] = field(repr=False)  # P
    values: NDArray[np.uint64] = field(repr=False)  # L


def bin_polynomials(tags: Signed, values: Signed, loads: Signed, degree: int) -> BinPolynomials:
    """P and L of every bin, in rows up to x^degree and x^(degree−1).

    `tags` and `values`, residues, are (largest load, bins); of bin b the first `loads[b]` count.
    """
    n_bins = len(loads)
    of_tags = np.zeros((degree + 1, n_bins), np.uint64)
    of_values = np.zeros((degree, n_bins), np.uint64)
    order = np.argsort(-loads, kind="stable")
    for start in range(0, n_bins, _CHUNK):
        some = order[start : start + _CHUNK]
        most = int(loads[some[0]])
        p, newton = _of_chunk(tags[:most, some], values[:most, some], loads[some])
        of_tags[: most + 1, some] = p
        of_values[:most, some] = newton[:most]
    return BinPolynomials(of_tags, of_values)


def _of_chunk(tags: Signed, values: Signed, loads: Signed) -> Signed:
    """(2, largest load + 1, bins): P and L, reduced; `loads` must not increase."""
    most, n_bins = tags.shape
    both = np.zeros((2, most + 1, n_bins), np.int64)
    both[0, 0] = 1
    n_with = np.searchsorted(-loads, -np.arange(1, most + 1), side="right")  # of load ≥ j
    for j, n in enumerate(n_with):
        y = tags[j, :n]
        so_far = both[:, : j + 1, :n]
        p_at_y, l_at_y = _at(so_far, y)
        again = p_at_y == 0  # a tag that was there before
        step = times_plus(values[j, :n] - l_at_y, inverses(np.where(again, 1, p_at_y)), 0)
        step[again] = 0
        p, newton = so_far
        newton[:] = times_plus(p, step, newton)
        times_x = np.zeros_like(p)
        times_x[1:] = p[:-1]
        p[:] = times_plus(p, -y, times_x)
        both[0, j + 1, :n] = 1
    both %= TAG_MODULUS
    return both


def _at(coefficients: Signed, x: Signed) -> Signed:
    """The values of several polynomials, (polynomials, degree + 1, bins), by Horner's rule."""
    value = coefficients[:, -1]
    for i in range(coefficients.shape[1] - 2, -1, -1):
        value = times_plus(value, x, coefficients[:, i])
    return value


def times_plus(a: Signed, b: Signed, c: Signed | int) -> Signed:
    """a·b + c modulo T, centred; |a| and |c| below 0.6·T, |b| below T."""
    quotient = a.astype(np.float64) * b
    quotient += c
    quotient *= _INVERSE
    np.rint(quotient, out=quotient)
    multiple = quotient.astype(np.int64)
    multiple *= TAG_MODULUS
    result = a * b  # wraps, and so does what follows; the result is small
    result += c
    result -= multiple
    return result


def inverses(values: Signed) -> Signed:
    """1/v modulo T of residues without 0: products of pairs, and the inverses of a few."""
    if len(values) <= _FEW:
        return np.array([pow(int(v), -1, TAG_MODULUS) for v in values], np.int64)
    odd = len(values) % 2
    padded = np.append(values, 1) if odd else values
    left, right = padded[0::2], padded[1::2]
    of_pairs = inverses(times_plus(left, right, 0))
    result = np.stack([times_plus(right, of_pairs, 0), times_plus(left, of_pairs, 0)], axis=1)
    return result.ravel()[: len(values)]


def powers_of(tags: NDArray[np.uint64], exponents: list[int]) -> NDArray[np.uint64]:
    """tag^i modulo T for each exponent, (exponents, tags); those of `he.polynomial`."""
    x = tags.astype(np.int64)
    made = {1: times_plus(x, np.ones_like(x), 0)}
    for before, i in pairwise(exponents):
        # One baby step more, or one giant step: that power is there already.
        made[i] = times_plus(made[i - before], made[before], 0)
    rows = np.stack([made[i] for i in exponents])
    return np.remainder(rows, TAG_MODULUS).astype(np.uint64)
