"""Exact integer noise from the operating system's CSPRNG.

With α = exp(−ε/Δ) the discrete Laplace distribution has P(x) ∝ α^|x|, and Pólya(1/H, α) on
k = 0, 1, … has P(k) ∝ c_k α^k, c_k = Π_{i≤k} (i−1+1/H)/i.  A difference of two Pólya draws is the
share of one bank: the shares of H banks add up to exactly discrete Laplace.  H = 1 is the
discrete Laplace distribution itself, for banks that each add all of the noise.

Pólya draws come by rejection.  A trial counts i = 1, 2, …: it stops with probability 1−α, having
reached i−1, and otherwise survives with probability (i−1+1/H)/i or is discarded.  So it returns k
with probability (1−α) α^k c_k; on average 1/(1−α) steps lead to a draw, whatever H is.
For H = 1 there is a shorter way: α^x is a product over the binary digits of x, which are therefore
independent, so that log2(1/(1−α)) decisions and a short trial make a draw.

*Exact* means that every decision has exactly its probability p, rational or not: uniform random
bits are compared with the binary digits of p, 64 at a time, and in the rare case that all of these
agree, with the next 64.  Digits of exp(−ε/Δ) come from integer arithmetic with certain error
bounds.  There is no floating point on the way, whose gaps would show through the noise.

The time it takes depends on the values drawn, summed over a whole batch.  Draw all noise of a run
in one batch, where only the total can be timed.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil, exp, expm1, log

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.randomness import secret_bytes

MAX_SCALE = 10_000  # of Δ/ε: the noise would drown every count, and take long to draw
MAX_EPSILON = 1000
_WORD_BITS = 64
_WORD_MASK = (1 << _WORD_BITS) - 1
_MAX_TRIALS = 1 << 22  # at a time: bounds the memory, to about 150 MB

Digits = Callable[[int], int]
"""The binary digits of a probability p < 1: `digits(n)` is p·2^n, rounded down."""


def discrete_laplace(epsilon: Fraction, sensitivity: int, n: int) -> NDArray[np.int64]:
    """`n` draws with P(x) ∝ exp(−|x|·epsilon/sensitivity)."""
    return polya_share(epsilon, sensitivity, 1, n)


def polya_share(
    epsilon: Fraction, sensitivity: int, honest_parties: int, n: int
) -> NDArray[np.int64]:
    """`n` shares; those of `honest_parties` banks add up to discrete Laplace noise."""
    rate = _checked_rate(epsilon, sensitivity)
    if honest_parties < 1:
        raise ParameterError(f"honest_parties = {honest_parties}: need at least 1")
    draws = _polya(rate, honest_parties, 2 * n)
    return draws[:n] - draws[n:]


def noise_tail_bound(
    epsilon: Fraction,
    sensitivity: int,
    *,
    n_parties: int,
    honest_parties: int | None,
    n_draws: int,
    log2_probability: float,
) -> int:
    """An x such that |noise| > x in any of `n_draws` sums with probability ≤ 2^log2_probability.

    Each of `n_parties` adds a share for `honest_parties`, or all of the noise (None).  Chernoff's
    bound with the moment generating function of the sum, M(θ)^(parties/honest), where
    M(θ) = (1−α)² / ((1−α e^θ)(1−α e^−θ)) is that of discrete Laplace, 0 < θ < ε/Δ.
    """
    rate = float(_checked_rate(epsilon, sensitivity))
    honest = 1 if honest_parties is None else honest_parties
    if min(n_parties, honest, n_draws) < 1:
        raise ParameterError("n_parties, honest_parties and n_draws must be at least 1")
    laplaces = n_parties / honest
    allowed = log2_probability * log(2) - log(2 * n_draws)

    def smallest_x(theta: float) -> float:
        ln_moment = 2 * _ln_1m_exp(rate) - _ln_1m_exp(rate - theta) - _ln_1m_exp(rate + theta)
        return (laplaces * ln_moment - allowed) / theta

    # Every θ gives a valid bound; a thousandth of the range apart, the best is as good as any.
    best = min(smallest_x(rate * step / 1000) for step in range(1, 1000))
    return max(0, ceil(best * (1 + 1e-9)) - 1)


def _checked_rate(epsilon: Fraction, sensitivity: int) -> Fraction:
    if not 0 < epsilon <= MAX_EPSILON:
        raise ParameterError(f"epsilon must be above 0 and at most {MAX_EPSILON}")
    if sensitivity < 1:
        raise ParameterError(f"sensitivity = {sensitivity}: need at least 1")
    rate = Fraction(epsilon) / sensitivity
    if rate * MAX_SCALE < 1:
        raise ParameterError(
            f"sensitivity / epsilon is above {MAX_SCALE}: the noise would drown every count; "
            "raise epsilon, or lower the bound"
        )
    return rate


def _polya(rate: Fraction, honest_parties: int, n: int) -> NDArray[np.int64]:
    """`n` draws of Pólya(1/honest_parties, exp(−rate))."""
    if honest_parties == 1:
        return _geometric(rate, n)
    trials_per_draw = exp(-_ln_1m_exp(float(rate)) * (1 - 1 / honest_parties))
    draws = np.empty(0, np.int64)
    while len(draws) < n:
        n_trials = ceil(1.05 * trials_per_draw * (n - len(draws))) + 64
        found = _polya_trials(rate, honest_parties, min(n_trials, _MAX_TRIALS))
        draws = np.concatenate([draws, found])
    return draws[:n]


def _geometric(rate: Fraction, n: int) -> NDArray[np.int64]:
    """`n` draws with P(x) ∝ exp(−rate·x), digit by digit.

    x = Σ_{i<m} b_i 2^i + 2^m·y: b_i is 1 with probability 1/(1 + exp(rate·2^i)), and y is drawn
    like x with rate·2^m, for which a trial ends after a step or two.
    """
    n_digits = 0
    draws = np.zeros(n, np.int64)
    while rate < 1:
        digits = _bernoulli(partial(_exp_digits, rate, added=1), n)
        draws += digits.astype(np.int64) << n_digits
        rate *= 2
        n_digits += 1
    return draws + (_polya_trials(rate, 1, n) << n_digits)


def _polya_trials(rate: Fraction, honest_parties: int, n_trials: int) -> NDArray[np.int64]:
    """The results of the trials that were not discarded, in the order of the trials.

    In that order the results are independent; in the order of stopping the small ones come first.
    """
    result = np.full(n_trials, -1, np.int64)
    running = np.arange(n_trials)
    reached = 0
    while len(running):
        goes_on = _bernoulli(lambda n_bits: _exp_digits(rate, n_bits), len(running))
        result[running[~goes_on]] = reached
        running = running[goes_on]
        reached += 1
        if honest_parties > 1:
            survives = Fraction((reached - 1) * honest_parties + 1, reached * honest_parties)
            running = running[_bernoulli(_digits_of(survives), len(running))]
    return result[result >= 0]


def _bernoulli(digits: Digits, n: int) -> NDArray[np.bool_]:
    """`n` decisions that are true with exactly the probability of these digits."""
    words = np.frombuffer(secret_bytes(n * _WORD_BITS // 8), "<u8")
    first = np.uint64(digits(_WORD_BITS))
    decisions = words < first
    for undecided in np.flatnonzero(words == first):
        decisions[undecided] = _decide_by_later_digits(digits)
    return decisions


def _decide_by_later_digits(digits: Digits) -> bool:
    n_bits = _WORD_BITS
    while True:
        n_bits += _WORD_BITS
        word = int.from_bytes(secret_bytes(_WORD_BITS // 8), "little")
        expected = digits(n_bits) & _WORD_MASK
        if word != expected:
            return word < expected


def _digits_of(probability: Fraction) -> Digits:
    return lambda n_bits: (probability.numerator << n_bits) // probability.denominator


@lru_cache(maxsize=256)
def _exp_digits(rate: Fraction, n_bits: int, added: int = 0) -> int:
    """2^n_bits / (added + exp(rate)), rounded down; exact."""
    precision = n_bits + _WORD_BITS
    while True:
        below, above = ((added << precision) + x for x in _exp_bounds(rate, precision))
        shifted = 1 << (n_bits + precision)
        if shifted // above == shifted // below:
            return shifted // below
        precision *= 2


def _exp_bounds(rate: Fraction, precision: int) -> tuple[int, int]:
    """Integers below and above exp(rate)·2^precision, by the exponential series."""
    below = above = term_below = term_above = 1 << precision
    k = 0
    # Once k ≥ 2·rate, a term is at most half its predecessor: all the rest is at most the last.
    while term_above > 1 or k < 2 * rate:
        k += 1
        divisor = rate.denominator * k
        term_below = term_below * rate.numerator // divisor
        term_above = -(-term_above * rate.numerator // divisor)
        below += term_below
        above += term_above
    return below, above + term_above


def _ln_1m_exp(x: float) -> float:
    """ln(1 − e^−x)."""
    return log(-expm1(-x))
