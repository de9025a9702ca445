"""The payment network's own label history as evidence: no bank is needed for it.

An account that an anomalous payment went to is more likely to see another one.  How much more is
learnt within training: histories of the first three quarters, labels of the last.

    H[side, first, stratum] = log-odds of a payment whose account, on this side, was hit before
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pv4fad.evidence.strata import N_STRATA

Floats = NDArray[np.float64]

_AS_IF_SEEN = 2.0  # payments that every condition is taken to have seen, with the usual odds


def history_log_odds(
    hit: NDArray[np.bool_],
    is_first: NDArray[np.bool_],
    stratum: NDArray[np.int64],
    labels: NDArray[np.int8],
) -> Floats:
    """(side, first, stratum, hit); -∞ where the account was not hit: that is no evidence.

    `hit` and `stratum`, (payments, sides), are those of the time before these payments.
    """
    n_sides = hit.shape[1]
    counts = np.zeros((n_sides, 2, N_STRATA, 2))
    for side in range(n_sides):
        rows = hit[:, side]
        where = (is_first[rows].astype(np.int64), stratum[rows, side], labels[rows])
        np.add.at(counts[side], where, 1.0)
    usual = (labels.sum() + 0.5) / ((labels == 0).sum() + 0.5)
    odds = (counts[..., 1] + _AS_IF_SEEN * usual) / (counts[..., 0] + _AS_IF_SEEN)
    return np.stack([np.full(odds.shape, -np.inf), np.log(odds)], axis=-1)
