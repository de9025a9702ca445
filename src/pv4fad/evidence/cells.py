"""Which account counts where: one pair (payment, side) per account, in one of 9 cells per side.

    an account with a payment of label 1, a *hit*   one of these payments at random
                                                    cell (side, first, stratum), label 1
    every other account                             one of its payments at random
                                                    cell (side, stratum), label 0

Cells of label 1 come first.  *First*: the accounts of the payment deal with each other for the
first time.  An account is a bare id and counts once in all, so the contribution bound is 1.  The
choice depends on the payment network's own data, labels included, and on nothing that a bank said.
Pairs at institutions outside of the federation are left out before anything is chosen.

A count of accounts is worth as many rows as such accounts have: `rows_per_account`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pv4fad.evidence.strata import N_STRATA, AccountHistory
from pv4fad.forest.pairs import AccountIndex

RECENT = 0.25
"""The part of training, its last, in which payments of label 0 are counted: the share of first
dealings falls with time."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def n_hit_cells(n_sides: int) -> int:
    """Cells of accounts with a payment of label 1."""
    return n_sides * 2 * N_STRATA


def n_cells(n_sides: int) -> int:
    """All cells."""
    return n_hit_cells(n_sides) + n_sides * N_STRATA


@dataclass(frozen=True)
class CountedAccounts:
    """Each account that counts, once."""

    cell: Integers = field(repr=False)
    key: Integers = field(repr=False)
    """The number of its (bank, id)."""
    account: Integers = field(repr=False)
    n_cells: int

    @property
    def kept(self) -> Integers:
        """(cells,): how many accounts count in each."""
        return np.bincount(self.cell, minlength=self.n_cells)


@dataclass(frozen=True)
class TrainingPayments:
    """The payment network's labelled payments, as far as counting looks at them."""

    index: AccountIndex = field(repr=False)
    labels: NDArray[np.int8] = field(repr=False)
    is_first: NDArray[np.bool_] = field(repr=False)
    time: Integers = field(repr=False)
    """Anything that grows with time."""
    inside: NDArray[np.bool_] = field(repr=False)
    """(keys,): whether an account is at an institution of the federation."""

    @property
    def n_sides(self) -> int:
        return int(self.index.key_of.shape[1])

    @cached_property
    def account(self) -> Integers:
        """(payments, sides): bare ids."""
        return self.index.bare_of[self.index.key_of]

    @property
    def n_accounts(self) -> int:
        return int(self.index.bare_of.max(initial=-1)) + 1

    @cached_property
    def recent(self) -> NDArray[np.bool_]:
        """(payments,): the last quarter."""
        recent = np.zeros(len(self.labels), np.bool_)
        recent[np.argsort(self.time, kind="stable")[int((1 - RECENT) * len(recent)) :]] = True
        return recent

    @cached_property
    def strata(self) -> Integers:
        """(payments, sides)."""
        history = AccountHistory.of(self.account, self.labels, self.n_accounts)
        return history.training_strata(self.account, self.labels)


def choose_accounts(payments: TrainingPayments, rng: np.random.Generator) -> CountedAccounts:
    """One pair per account that has any at an institution of the federation."""
    index, labels = payments.index, payments.labels
    strata = payments.strata
    row, side = np.nonzero(payments.inside[index.key_of])
    label, key = labels[row], index.key_of[row, side]
    hit_cell = (side * 2 + payments.is_first[row]) * N_STRATA + strata[row, side]
    other_cell = n_hit_cells(payments.n_sides) + side * N_STRATA + strata[row, side]
    # Label 1 comes first, and otherwise chance decides: of each account the first pair counts.
    order = np.argsort(rng.random(len(row)), kind="stable")
    order = np.concatenate([order[label[order] == 1], order[label[order] == 0]])
    first = np.full(payments.n_accounts, -1)
    first[index.bare_of[key[order[::-1]]]] = order[::-1]  # what is written last stays
    account = np.flatnonzero(first >= 0)
    chosen = first[account]
    cell = np.where(label[chosen] == 1, hit_cell[chosen], other_cell[chosen])
    cells = n_cells(payments.n_sides)
    return CountedAccounts(cell.astype(np.int64), key[chosen], account, cells)


def rows_per_account(payments: TrainingPayments, counted: CountedAccounts) -> Floats:
    """(cells, side, first, stratum, label): rows per account of each cell, on average.

    Rows of label 0 are those of the last quarter, times four.
    """
    labels, recent, strata = payments.labels, payments.recent, payments.strata
    cell_of = np.full(payments.n_accounts, -1)
    cell_of[counted.account] = counted.cell
    row, side = np.nonzero(payments.inside[payments.index.key_of])
    row, side = (one[(labels[row] == 1) | recent[row]] for one in (row, side))
    label = labels[row]
    cell = cell_of[payments.account[row, side]]
    shape = (counted.n_cells, payments.n_sides, 2, N_STRATA, 2)
    where = (cell, side, payments.is_first[row].astype(np.int64), strata[row, side], label)
    number, weights = np.ravel_multi_index(where, shape), np.where(label == 1, 1.0, 1 / RECENT)
    rows = np.bincount(number, weights, minlength=int(np.prod(shape))).reshape(shape)
    return np.asarray(rows / np.maximum(counted.kept, 1)[:, None, None, None, None])
