"""What noisy leaf counts say about the class of a row.

Only released counts and public parameters go in, so that this costs no privacy.

A noisy count is worth as much as it stands out from the noise.  Each is therefore drawn towards
what is expected without it, the more the larger the known variance of the noise is:

    x = (1−g)·μ + g·max(count, 0),   g = (μ + s·μ²) / (μ + s·μ² + variance),   s = `SPREAD`

where μ + s·μ² is how far counts of leaves differ from their expectation by themselves.  Three
steps build on each other: the total of each class (averaged over trees), the table of each test by
itself (expected: all classes alike), the leaves (expected: independent tests within each class).
With much noise a tree says what its tests say one by one, with little noise what its leaves say.

The evidence of a leaf is log P(class | leaf) − log P(class).  Every feature is to count once,
however often it is asked: the log-odds of a row are log P(class) plus the sum over its leaves times
`OVERLAP` / `times_asked`.  Such a mean over trees has as much less noise, so `variance` above is
that of one count divided by `times_asked`.

`SPREAD` and `OVERLAP` were chosen once, on training rows only (docs/evidence/estimator.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from pv4fad.estimator.trees import Tree

SPREAD = 2.0
LEAST = 0.01  # of its expectation is what every count is taken to be at least
OVERLAP = 0.6  # features repeat each other: together they say less than each by itself

Floats = NDArray[np.float64]


def class_totals(counts: Sequence[NDArray[np.int64]], variance: float) -> Floats:
    """Rows of each class, at least as many as the noise may hide: the mean over the trees."""
    mean = np.mean([count.sum(axis=0) for count in counts], axis=0)
    deviation = sqrt(variance * sum(len(count) for count in counts)) / len(counts)
    totals: Floats = np.maximum(mean, 1 + deviation)
    return totals


def leaf_evidence(tree: Tree, count: NDArray[np.int64], totals: Floats, variance: float) -> Floats:
    """log P(class | leaf) − log P(class), shape (n_leaves, n_classes)."""
    n_tests, n_classes = len(tree.shape), len(totals)
    table = count.reshape(*tree.shape, n_classes).astype(np.float64)
    expected = totals
    for test, n_branches in enumerate(tree.shape):
        others = tuple(axis for axis in range(n_tests) if axis != test)
        n_summed = tree.n_leaves // n_branches
        shares = _branch_shares(table.sum(axis=others), totals, n_summed * variance)
        expected = expected * np.expand_dims(shares, others)
    rows = _towards(expected, table, variance).reshape(-1, n_classes)
    prior = totals / totals.sum()
    posterior = rows + prior  # one row's worth of the prior: a leaf may be empty
    posterior /= posterior.sum(axis=1, keepdims=True)
    evidence: Floats = np.log(posterior / prior)
    return evidence


def times_asked(trees: Sequence[Tree]) -> float:
    """How often a feature is asked, on average over those that are."""
    asked = [feature for tree in trees for feature in tree.features]
    return len(asked) / len(set(asked)) if asked else 1.0


def _branch_shares(table: Floats, totals: Floats, variance: float) -> Floats:
    """For one test the share of each class that takes each branch, (n_branches, n_classes)."""
    in_branch = np.maximum(table.sum(axis=1, keepdims=True), 0)
    in_branch += 1 + sqrt(variance)
    rows = _towards(in_branch / in_branch.sum() * totals, table, variance)
    shares: Floats = rows / rows.sum(axis=0)
    return shares


def _towards(expected: Floats, count: Floats, variance: float) -> Floats:
    own = expected + SPREAD * expected**2
    gain = own / (own + variance)
    drawn = (1 - gain) * expected + gain * np.maximum(count, 0)
    return np.maximum(drawn, LEAST * expected)
