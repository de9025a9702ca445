"""How likely it is that n accounts cannot be placed in B bins: a proven upper bound.

Every account has three different bins, all triples being equally likely, and a bin takes one
account.  By Hall's theorem no placement exists exactly if some set T of j bins is *too full*: it
contains more than j accounts, where T contains an account if it contains its three bins.

* Of the too full sets take a smallest.  *Every bin of T is hit at least twice* by the accounts
  in T: without a bin that is hit once or never, T would lose at most one account, and be too full.
* Of the too full sets with this property take a largest, T.  *Every bin b outside T is the
  only one missing for at most one account*: with two, T ∪ {b} would be larger, too full, and have
  the property.

Fix T and write (a)₃ = a(a−1)(a−2).  T contains an account with probability p = (j)₃/(B)₃; b is all
that is missing with probability q = 3j(j−1)/(B)₃; two or three bins are missing with probability
f = 1 − p − (B−j)q.  If T contains k accounts, then their 3k hits reach every bin of T at least
twice with a probability of

    R(k) ≤ 1   and   R(k) ≤ (3k)! (e^λ − 1 − λ)^j / (λ³(j)₃)^k   for every λ > 0,

the coefficient bound for the power series (e^u − 1 − u)^j.  The other n−k accounts are not in T
with probability (1−p)^(n−k), and are as said for a largest T with a probability of at most

    (n−k)! e^(fz) (1 + qz)^(B−j) / z^(n−k)   for every z > 0.

A too full T of j bins exists with probability at most C(B,j) Σ_{k>j} C(n,k) p^k R(k) · (one of the
two).  The sum over k is bounded by its first term and a geometric series.  The sum over j uses
smallest sets below some size J and largest sets from J on, with the best J: a failure comes with a
smallest T and a largest T, which is at least as big.

For n in the thousands and more this needs 1.2 bins per account; 1.09 is where placements cease to
exist.  Computed in logarithms; `_ROUNDING_BITS` covers the rounding, which is below 10^-6.
"""

from functools import lru_cache
from math import inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Floats = NDArray[np.float64]

_ROUNDING_BITS = 0.001


@lru_cache(maxsize=4096)
def log2_failure_bound(n_accounts: int, n_bins: int) -> float:
    """log2 of a bound on the probability that `n_accounts` have no placement in `n_bins`."""
    if n_accounts <= 3:
        return -inf  # their three bins suffice
    if n_bins <= n_accounts:
        return 0.0
    n, bins = float(n_accounts), float(n_bins)
    j = np.arange(3.0, n)
    p = _triples(j) / _triples(bins)
    choices = _ln_binomial(bins, j) + _ln_binomial(n, j + 1) + (j + 1) * np.log(p)
    smallest = choices + _ln_sum_over_contained(j, p, *_not_in_smallest(n, j, p))
    largest = choices + _ln_sum_over_contained(j, p, *_not_in_largest(n, bins, j, p))
    below = np.concatenate([[-np.inf], np.logaddexp.accumulate(smallest)])
    from_there = np.concatenate([np.logaddexp.accumulate(largest[::-1])[::-1], [-np.inf]])
    best = float(np.logaddexp(below, from_there).min())
    return min(0.0, best / log(2) + _ROUNDING_BITS)


def _ln_sum_over_contained(j: Floats, p: Floats, ln_others: Floats, growth: Floats) -> Floats:
    """ln of the sum over k of R(k) times the factor of the others, relative to C(n,j+1) p^(j+1).

    From k to k+1 a term grows by p · (growth of R) · `growth` / (k+1) at most.
    """
    best = np.full_like(j, np.inf)
    for ln_hits, ln_hits_growth in ((0.0, 0.0), _every_bin_twice(j)):
        ratio = p * growth * np.exp(ln_hits_growth) / (j + 2)
        converges = ratio < 1
        series = -np.log1p(-np.where(converges, ratio, 0.0))
        best = np.minimum(best, np.where(converges, ln_hits + ln_others + series, np.inf))
    return best


def _not_in_smallest(n: float, j: Floats, p: Floats) -> tuple[Floats, Floats]:
    """ln (1−p)^(n−k) at k = j+1; its growth, with that of C(n,k) except the divisor k+1."""
    others = n - j - 1
    return others * np.log1p(-p), others / (1 - p)


def _not_in_largest(n: float, bins: float, j: Floats, p: Floats) -> tuple[Floats, Floats]:
    """ln of the coefficient bound at k = j+1; its growth, as in `_not_in_smallest`: z."""
    others, outer_bins = n - j - 1, bins - j
    q = 3 * j * (j - 1) / _triples(bins)
    f = 1 - p - outer_bins * q
    # The best z solves f·z + outer_bins·qz/(1 + qz) = others.  The bound holds for any positive z,
    # so neither rounding nor the case of no others matters.
    linear = f + (outer_bins - others) * q
    z = np.maximum((np.sqrt(linear**2 + 4 * f * q * others) - linear) / (2 * f * q), 1e-9)
    ln_series = f * z + outer_bins * np.log1p(q * z)
    return gammaln(others + 1) + ln_series - others * np.log(z), z


def _every_bin_twice(j: Floats) -> tuple[Floats, Floats]:
    """The coefficient bound on ln R at k = j+1, and a bound on how much it grows per account.

    It is convex in k, so it lies below its chord up to a `far` k, where it is positive; beyond, the
    chord is positive too, and ln R ≤ 0.
    """
    rate = _poisson_rate(3 * (j + 1) / j)

    def ln_bound(k: Floats) -> Floats:
        ln_hits: Floats = gammaln(3 * k + 1) - k * np.log(rate**3 * _triples(j))
        return ln_hits + j * np.log(np.expm1(rate) - rate)

    first, far = j + 1, 1.3 * (j + 1)
    at_first, at_far = ln_bound(first), ln_bound(far)
    usable = (at_far >= 0) & (at_far >= at_first)
    return np.where(usable, at_first, np.inf), (at_far - at_first) / (far - first)


def _poisson_rate(mean: Floats) -> Floats:
    """The λ of a Poisson variable whose mean, given that it is at least 2, is `mean` (3 to 4).

    By Newton's method.  The bound holds for any λ, so nothing depends on convergence.
    """
    rate = mean - 0.85
    for _ in range(5):
        grown = np.expm1(rate)
        rest = grown - rate
        value = rate * grown / rest
        slope = (grown + rate * (grown + 1) - value * grown) / rest
        rate = rate - (value - mean) / slope
    return rate


def _triples(a: Any) -> Any:
    return a * (a - 1) * (a - 2)


def _ln_binomial(n: float, k: Floats) -> Floats:
    result: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return result
