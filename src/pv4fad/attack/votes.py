"""The payment network as an attacker on vote totals (`--model paper --scoring votes`).

The total of a side of a payment is the sum of one label for each group that the payment reaches,
and which leaf's label that is depends on the class of the account.  So the totals of many payments
are linear equations in labels that were to stay sealed.  Those of accounts at institutions outside
tell the labels that an absent record meets.  Of all others nearly all are ordinary: their totals
tell the labels that an ordinary record meets, and an account whose totals do not add up is of
another class.  Labels and classes are found in turns, so that accounts that stand out no longer
spoil the equations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from scipy.sparse import csr_matrix
from scipy.special import log_softmax

from pv4fad.attack.belief import Belief, Floats, Integers
from pv4fad.attack.labels import branches
from pv4fad.forest.votes import reached_groups
from pv4fad.lead.paper_model import vote_columns
from pv4fad.lead.rows import NewRows
from pv4fad.protocol.propose.inputs import Trees
from pv4fad.protocol.tables import hashed_id
from pv4fad.run.predictions import in_order

_DOUBTS = (0.25, 0.1, 0.05, 0.02, 0.01, 0.01)
"""The variance that a total is granted in each turn: less and less."""
_ROWS = 4096  # at a time
_ANYTHING = 0.25  # the variance of a label that nobody knows


@dataclass(frozen=True)
class _Totals:
    """Vote totals of payment sides."""

    account: Integers = field(repr=False)
    total: Floats = field(repr=False)
    leaves: tuple[csr_matrix, ...] = field(repr=False)
    """Of each class that the trees tell apart: (totals, leaves), 1 where a label adds to it."""


def add_votes(belief: Belief, payments: NewRows, trees: Trees, predictions: pl.DataFrame) -> None:
    """What all totals together say about each account."""
    # Classes that are in the same leaves everywhere cannot be told apart.
    apart, class_of = np.unique(branches(trees.forest), axis=1, return_inverse=True)
    ordinary, absent = class_of[0], class_of[-1]
    prior = np.bincount(class_of, belief.prior)
    totals = _totals(payments, trees, in_order(predictions, payments.ids), apart)
    ids = [hashed_id(key) for key in payments.keys]
    outside = ~belief.knows(ids)
    chance = np.zeros((len(ids), len(prior)))
    chance[:, ordinary] = 1
    for doubt in _DOUBTS:
        # What the totals of others tell is left to the next turn: they might be ordinary after all.
        sure = np.zeros_like(chance)
        sure[~outside, ordinary] = chance[~outside, ordinary]
        sure[outside, absent] = 1
        labels = _Labels.fitted(totals, sure, doubt)
        found = labels.log_likelihood(totals, len(ids))
        chance = np.exp(log_softmax(found + np.log(prior), axis=1))
    belief.add(ids, found[:, class_of])


def _totals(payments: NewRows, trees: Trees, table: pl.DataFrame, branch: Integers) -> _Totals:
    forest, per_group = trees.forest, trees.forest.sizes.n_sets + 1
    codes, sides = forest.route(payments.features.values), range(forest.sizes.n_sides)
    reached = np.concatenate([reached_groups(forest, codes, side) for side in sides])
    columns = vote_columns(payments.schema)[1:]
    total = np.concatenate([table[one].to_numpy().astype(np.float64) for one in columns])
    some = (reached >= 0).any(axis=1)
    row, tree = np.nonzero(reached[some] >= 0)
    group = reached[some][row, tree]
    shape, ones = (int(some.sum()), forest.sizes.n_leaves), np.ones(len(row))
    leaves = tuple(
        csr_matrix((ones, (row, group * per_group + of_class[group])), shape=shape)
        for of_class in branch.T
    )
    return _Totals(payments.key_of.T.ravel()[some], total[some], leaves)


@dataclass(frozen=True)
class _Labels:
    """What is known of the label of each leaf."""

    mean: Floats = field(repr=False)
    covariance: Floats = field(repr=False)
    doubt: float

    @classmethod
    def fitted(cls, totals: _Totals, sure: Floats, doubt: float) -> _Labels:
        """By least squares; `sure`: (accounts, classes), how much an account counts as a class."""
        n_leaves = totals.leaves[0].shape[1]
        # Before all else, a label is 1 as often as in all totals together.
        share = totals.total.sum() / max(totals.leaves[0].sum(), 1)
        normal = np.eye(n_leaves) / _ANYTHING
        right = np.full(n_leaves, share / _ANYTHING)
        for number, matrix in enumerate(totals.leaves):
            weight = sure[totals.account, number] / doubt
            normal += (matrix.T @ matrix.multiply(weight[:, np.newaxis]).tocsr()).toarray()
            right += matrix.T @ (weight * totals.total)
        covariance: Floats = np.linalg.inv(normal).astype(np.float64)
        return cls(covariance @ right, covariance, doubt)

    def log_likelihood(self, totals: _Totals, n_accounts: int) -> Floats:
        """(accounts, classes): of all totals of an account."""
        found = np.zeros((n_accounts, len(totals.leaves)))
        for number, matrix in enumerate(totals.leaves):
            parts = (matrix[one : one + _ROWS] for one in range(0, matrix.shape[0], _ROWS))
            variance = self.doubt + np.concatenate(
                [
                    np.asarray(one.multiply(one @ self.covariance).sum(axis=1)).ravel()
                    for one in parts
                ]
            )
            away = np.square(totals.total - matrix @ self.mean)
            log_p = -(away / variance + np.log(variance)) / 2
            found[:, number] = np.bincount(totals.account, log_p, n_accounts)
        return found
