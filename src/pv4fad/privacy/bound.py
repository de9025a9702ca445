"""The contribution bound: how much one account may count (protocol.md §5.1).

Of the pairs (transaction, tested account) of one account, over all tables, sides and deltas, the
payment network keeps Σ|weight| ≤ bound: in random order, skipping what would exceed.  The account
is its *bare* canonical id, so that the same id at two banks is bounded once, which can only lower
what a record contributes.  One record then moves the vector of all sums by at most `sensitivity`
in L1, and the noise is scaled to that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError


def sensitivity(bound: int, n_sets: int) -> int:
    """Δ: how far one account record, added, removed or changed, moves the sums in L1.

    With one set per bank node a record is in that set or not.  With several, a changed atom can
    leave one sum and enter another, so each unit of weight counts twice.
    """
    return bound if n_sets == 1 else 2 * bound


def keep_within_bound(
    account: NDArray[np.int64],
    weight: NDArray[np.int64],
    bound: int,
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    """Which pairs are kept: for each account, in random order, while Σ|weight| ≤ bound.

    A pair that would exceed is skipped, and smaller ones after it may still fit.  Each round keeps
    the pairs of every account up to its first misfit and drops all that no longer fit; a misfit
    takes every pair of its weight with it, so there are as many rounds as different weights.
    """
    size = np.abs(weight)
    if bound < 1:
        raise ParameterError(f"bound must be at least 1, not {bound}")
    if len(size) and size.max() > bound:
        raise ParameterError(
            f"a pair of weight {size.max()} exceeds bound = {bound}: "
            "raise bound or lower class_weights"
        )
    if len(size) and size.min() < 1:
        raise ParameterError("a pair of weight 0 counts nothing; leave it out")

    kept = np.zeros(len(size), np.bool_)
    room = np.full(account.max(initial=-1) + 1, bound, np.int64)
    waiting = rng.permutation(len(size))
    waiting = waiting[np.argsort(account[waiting], kind="stable")]
    while len(waiting):
        owner, demand = account[waiting], size[waiting]
        fits = _running_totals(owner, demand) <= room[owner]
        kept[waiting[fits]] = True
        np.subtract.at(room, owner[fits], demand[fits])
        waiting = waiting[~fits & (demand <= room[owner])]
    return kept


def _running_totals(owner: NDArray[np.int64], demand: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cumulative demand within each run of equal owners."""
    totals: NDArray[np.int64] = np.cumsum(demand)
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    before = totals[starts] - demand[starts]
    return totals - np.repeat(before, np.diff(starts, append=len(owner)))
