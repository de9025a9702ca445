"""What ε means if fewer banks are honest than the noise was sized for, and to one who guesses.

Distributed noise is sized for H honest banks: each adds the difference of two Pólya(1/H, α) draws,
α = exp(−ε/Δ), and the shares of H banks add up to discrete Laplace noise (`pv4fad.privacy.noise`).
If only m < H of them add their noise and keep it to themselves, the noise that protects a record is
the difference of two Pólya(r, α) draws, r = m/H.  That is ε-private too, with a larger ε:

    effective ε = Δ·log(p(0)/p(1)) = ε − Δ·log(1 − (1−r)·E[1/(k+1)])

p(x) is the probability of noise x; k = 0, 1, … has probability ∝ (c_k α^k)², the c_k of Pólya(r).

Why this is the worst case.  c_k is the k-th moment of a Beta(r, 1−r) variable, so for x ≥ 0

    p(x) ∝ Σ_k c_k c_{k+x} α^{2k+x} = E[(αt)^x / (1 − α²st)],   s, t ~ Beta(r, 1−r) independent,

the moments of a measure on [0, α].  By Cauchy-Schwarz p(x)/p(x+1) falls as x grows, and it is at
least 1/α.  So a sum that changes by one has its largest loss log(p(0)/p(1)) where the noise is 0,
and one that changes by d loses log(p(0)/p(d)) ≤ d·log(p(0)/p(1)).  A record moves all sums together
by at most Δ: the worst is that it moves Δ different sums by one each.  With r = 1 it would make no
difference how Δ is split, with r < 1 it does.

The second form is p(1) = Σ_k (c_k α^k)² α (k+r)/(k+1).  It has no cancellation, and shows that the
effective ε lies between ε and ε + Δ·log(H/m), is ε for m = H, and grows with H: a smaller r makes
1−r larger and k smaller (c_k of a smaller r falls faster).
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, log1p

import numpy as np

from pv4fad.errors import ParameterError
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.privacy.noise import MAX_SCALE

WARN_ABOVE = Fraction(2)  # of the ε that one run claims: a guess is right in up to 88 % of cases
_DECAY = 20  # terms left out weigh exp(−40) of all


def default_honest_banks(n_banks: int) -> int:
    """The default H: half of the banks, rounded up."""
    if n_banks < 1:
        raise ParameterError(f"n_banks = {n_banks}: need at least 1")
    return (n_banks + 1) // 2


def effective_epsilon(
    epsilon: Fraction, sensitivity: int, honest_banks: int, remaining: int = 1
) -> float:
    """The ε that holds if only `remaining` of `honest_banks` keep their noise to themselves.

    For ε = 1 and Δ = 1 / 2, with one bank remaining: 1.7 / 2.3 at H = 2, 3.6 / 6.1 at H = 13.
    To about 11 digits.  With as many as the noise was sized for, or more, it is `epsilon` itself:
    far out in the tail even more noise loses as much.
    """
    if epsilon <= 0:
        raise ParameterError("epsilon must be above 0")
    if min(sensitivity, honest_banks, remaining) < 1:
        raise ParameterError("sensitivity, honest_banks and remaining must be at least 1")
    if remaining >= honest_banks:
        return float(epsilon)

    rate = float(epsilon / sensitivity)
    share = remaining / honest_banks
    # Leaving out the last terms makes the mean of 1/(k+1) larger: it errs on the safe side.
    k = np.arange(1 + ceil(_DECAY * min(1 / rate, MAX_SCALE)))
    steps = (k[1:] - 1 + share) / k[1:]
    weights = (np.cumprod(np.append(1.0, steps)) * np.exp(-rate * k)) ** 2
    mean = float((weights / (k + 1)).sum() / weights.sum())
    return float(epsilon) - sensitivity * log1p(-(1 - share) * mean)


def guessing_bound(epsilon: Epsilon | float) -> float:
    """The largest probability of a right guess about one record, e^ε/(1+e^ε).

    Whether the record is present, or of which of two classes it is: an observer who was undecided
    before sees what was released and guesses.  Without noise (`none`) the guess may be certain.
    """
    return 1.0 if isinstance(epsilon, str) else 1 / (1 + exp(-epsilon))


def is_weak(epsilon: Epsilon) -> bool:
    """Whether to warn of the ε that a run claims: above 2, or none at all."""
    return isinstance(epsilon, str) or epsilon > WARN_ABOVE
