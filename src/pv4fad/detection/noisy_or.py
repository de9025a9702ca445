"""How suspicions combine: a payment is harmless if it is harmless for every reason there is.

    1 − P = Π_k (1 − σ(z_k))          z_k: log-odds of an anomaly for reason k

What a bank knows of an account and what a payment looks like are separate causes of anomalies, so
their odds add up where they are small; multiplying likelihood ratios would hold it against a
flagged account that its payment looks ordinary.  The reasons are the local score, and of either
side the *kind* of payment, a number that follows from its vote total.

`fit` finds what is free in them from labelled transactions: offset and slope of the local score,
and log-odds for each kind.  The most probable values, given normal priors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

Floats = NDArray[np.float64]

PRIOR_SCALE = 3.0
"""Of the log-odds of a kind around those of an anomaly in general: a factor 20 either way."""
_LOCAL_MEAN, _LOCAL_DEVIATION = np.array([0.0, 1.0]), np.array([1.0, 0.5])


@dataclass(frozen=True)
class NoisyOr:
    """Parameters as fitted."""

    offset: float
    slope: float
    by_kind: tuple[Floats, ...]
    """For each side, log-odds by kind."""


def combine(*log_odds: NDArray[np.floating]) -> Floats:
    """P for each transaction, from the log-odds of each reason."""
    hazard = np.zeros(len(log_odds[0]))
    for one in log_odds:
        hazard += np.logaddexp(0.0, one.astype(np.float64))
    return -np.expm1(-hazard)


def fit(
    scores: NDArray[np.floating],
    kinds: Sequence[NDArray[np.int64]],
    labels: NDArray[np.int8],
    weights: Floats,
    *,
    n_kinds: int,
    usual: float,
) -> NoisyOr:
    """From labelled transactions, each counted `weights` times.

    `kinds`: of each side, below `n_kinds`.  `usual`: the log-odds of an anomaly in general.
    """
    score = scores.astype(np.float64)
    positive, negative = weights * (labels == 1), weights * (labels == 0)
    ends = 2 + n_kinds * np.arange(len(kinds))
    mean = np.concatenate([_LOCAL_MEAN, np.full(n_kinds * len(kinds), usual)])
    scale = np.concatenate([_LOCAL_DEVIATION, np.full(n_kinds * len(kinds), PRIOR_SCALE)])

    def loss(parameters: Floats) -> tuple[float, Floats]:
        (offset, slope), *sides = np.split(parameters, ends)
        local = offset + slope * score
        z = [theta[kind] for theta, kind in zip(sides, kinds, strict=True)]
        hazard = np.logaddexp(0.0, local)
        for one in z:
            hazard += np.logaddexp(0.0, one)
        hazard = np.maximum(hazard, 1e-300)
        value = negative @ hazard - positive @ np.log(-np.expm1(-hazard))
        pull = negative - positive / np.expm1(np.minimum(hazard, 700.0))
        of_local = pull * expit(local)
        gradient = [np.array([of_local.sum(), of_local @ score])]
        for one, kind in zip(z, kinds, strict=True):
            gradient.append(np.bincount(kind, pull * expit(one), n_kinds))
        off = (parameters - mean) / scale
        return float(value + 0.5 * off @ off), np.concatenate(gradient) + off / scale

    found = minimize(loss, mean, jac=True, method="L-BFGS-B", options={"maxiter": 100})
    local, *sides = np.split(np.asarray(found.x, np.float64), ends)
    return NoisyOr(float(local[0]), float(local[1]), tuple(sides))
