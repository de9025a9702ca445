"""What the payment network counts for itself (protocol.md §11.2, §4, §5.1).

Red leaves count pairs (transaction, tested account).  A pair counts in one tree only,
`tree_of(account)`, and only if the transaction reaches a group there that tests this side of it.  A
transaction thus gives at most one pair per side.  Then:

    1. under-sampling   tree t keeps pairs of label-0 transactions at its own rate
    2. weight           +w1 for label 1, -w0 for label 0, integers
    3. bound            Σ|weight| ≤ bound for each bare id

From the kept pairs each group gets its integer vector d over accounts, which the banks' data turns
into counts, and N_path.  Green leaves need no bank: all transactions, every tree, no bound; a tree
that keeps a share of the label-0 pairs weighs the label-0 transactions of its green leaves by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from pv4fad.errors import DataError, ParameterError
from pv4fad.forest.structure import Forest
from pv4fad.privacy.bound import keep_within_bound
from pv4fad.validated import ValidatedModel

Rate = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[int, Field(ge=1, le=1000)]


class CountConfig(ValidatedModel):
    """How pairs are sampled, weighted and bounded."""

    bound: int = Field(ge=1, le=1_000_000)
    """Most weight that one account contributes to all sums together."""
    class_weights: tuple[Weight, Weight] = (1, 1)
    """What a transaction of label 0, of label 1 counts."""
    label0_rates: tuple[Rate, ...] | None = None
    """For each tree the share of label-0 pairs that it keeps (`undersampling_rates`); None: all."""

    @model_validator(mode="after")
    def _weights_fit_the_bound(self) -> CountConfig:
        if max(self.class_weights) > self.bound:
            raise ParameterError(
                f"class_weights {self.class_weights} exceed bound = {self.bound}: "
                "a transaction of that label could never count"
            )
        return self


def undersampling_rates(
    n_trees: int, highest: float = 0.3, lowest: float = 0.001
) -> tuple[float, ...]:
    """Rates that fall geometrically, so that the vote total grades how anomalous a leaf is."""
    return tuple(float(rate) for rate in np.geomspace(highest, lowest, n_trees))


@dataclass(frozen=True)
class AccountIndex:
    """Who stands on each side of each transaction.

    `key_of` (n_transactions, n_sides) numbers the distinct (bank, id) keys;
    `bare_of` (n_keys,) numbers the distinct bare ids; `tree_of` (n_bare,) is their tree.
    """

    key_of: NDArray[np.int64] = field(repr=False)
    bare_of: NDArray[np.int64] = field(repr=False)
    tree_of: NDArray[np.int64] = field(repr=False)

    def __post_init__(self) -> None:
        if self.key_of.ndim != 2:
            raise DataError("key_of needs one column per side of a transaction")
        for name, values, limit in (
            ("key_of", self.key_of, len(self.bare_of)),
            ("bare_of", self.bare_of, len(self.tree_of)),
        ):
            if values.size and not 0 <= values.min() <= values.max() < limit:
                raise DataError(f"{name} holds a number outside 0..{limit - 1}")

    @property
    def n_keys(self) -> int:
        return len(self.bare_of)


@dataclass(frozen=True)
class KeptPairs:
    """The pairs that count, one row each, so that anyone with the data can count again."""

    transaction: NDArray[np.int64] = field(repr=False)
    side: NDArray[np.int8] = field(repr=False)
    group: NDArray[np.int64] = field(repr=False)
    key: NDArray[np.int64] = field(repr=False)
    weight: NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.weight)

    def only(self, chosen: NDArray[np.bool_]) -> KeptPairs:
        """The rows where `chosen` is true."""
        return KeptPairs(
            self.transaction[chosen],
            self.side[chosen],
            self.group[chosen],
            self.key[chosen],
            self.weight[chosen],
        )


def choose_pairs(
    forest: Forest,
    codes: NDArray[np.int32],
    labels: NDArray[np.int8],
    accounts: AccountIndex,
    *,
    config: CountConfig,
    rng: np.random.Generator,
) -> KeptPairs:
    """The pairs that count: in the account's own tree, after under-sampling, weights and bound."""
    check_labels(codes, labels)
    if accounts.tree_of.max(initial=0) >= forest.sizes.n_trees:
        raise ParameterError("an account teaches a tree that the forest does not have")
    if accounts.key_of.shape[1] != forest.sizes.n_sides:
        raise DataError(f"accounts of {accounts.key_of.shape[1]} sides for {forest.sizes.n_sides}")
    candidates = _candidates(forest, codes, labels, accounts, config.class_weights)
    if config.label0_rates is not None:
        rates = check_rates(forest, config.label0_rates)
        rate = rates[candidates.group // forest.sizes.groups_per_tree]
        drawn = rng.random(len(candidates)) < rate
        candidates = candidates.only((candidates.weight > 0) | drawn)
    bare = accounts.bare_of[candidates.key]
    return candidates.only(keep_within_bound(bare, candidates.weight, config.bound, rng))


def _candidates(
    forest: Forest,
    codes: NDArray[np.int32],
    labels: NDArray[np.int8],
    accounts: AccountIndex,
    class_weights: tuple[int, int],
) -> KeptPairs:
    """All pairs that reach a group of their account's tree on the tested side."""
    signed = np.array([-class_weights[0], class_weights[1]], np.int64)[labels]
    sides = []
    for side in range(accounts.key_of.shape[1]):
        key = accounts.key_of[:, side]
        group = codes[np.arange(len(codes)), accounts.tree_of[accounts.bare_of[key]]]
        # A green leaf is negative and would read the side of some group: exclude it first.
        rows = np.flatnonzero(group >= 0)
        rows = rows[forest.group_sides[group[rows]] == side]
        sides.append((rows, np.full(len(rows), side, np.int8), group[rows], key[rows]))
    transaction, side_of, group, key = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    return KeptPairs(transaction, side_of, group.astype(np.int64), key, signed[transaction])


def check_labels(codes: NDArray[np.int32], labels: NDArray[np.int8]) -> None:
    """One label, 0 or 1, for each transaction."""
    if len(labels) != len(codes):
        raise DataError(f"{len(labels)} labels for {len(codes)} transactions")
    if not np.isin(labels, (0, 1)).all():
        raise DataError("labels must be 0 or 1")


def check_rates(forest: Forest, rates: Sequence[float] | None) -> NDArray[np.float64]:
    """The share of label-0 transactions that each tree keeps; None: all of them."""
    n_trees = forest.sizes.n_trees
    if rates is None:
        return np.ones(n_trees)
    if len(rates) != n_trees:
        raise ParameterError(f"label0_rates has {len(rates)} rates for {n_trees} trees")
    return np.array(rates)


@dataclass(frozen=True)
class GroupCounts:
    """For each group a sparse integer vector over account keys, and N_path.

    Group g has d[key[i]] = weight[i] for i in start[g]..start[g+1]-1, keys ascending, each once,
    and 0 for all other keys.
    """

    start: NDArray[np.int64] = field(repr=False)
    key: NDArray[np.int64] = field(repr=False)
    weight: NDArray[np.int64] = field(repr=False)
    n_path: NDArray[np.int64] = field(repr=False)

    def of_group(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The account keys of a group with d ≠ 0 or cancelled weights, and their d."""
        part = slice(self.start[group], self.start[group + 1])
        return self.key[part], self.weight[part]


def group_counts(forest: Forest, pairs: KeptPairs, n_keys: int) -> GroupCounts:
    """The vectors d and N_path that follow from the kept pairs."""
    n_groups = forest.sizes.n_groups
    cell, where = np.unique(pairs.group * n_keys + pairs.key, return_inverse=True)
    weight = np.zeros(len(cell), np.int64)
    np.add.at(weight, where, pairs.weight)
    n_path = np.zeros(n_groups, np.int64)
    np.add.at(n_path, pairs.group, pairs.weight)
    group, key = np.divmod(cell, max(n_keys, 1))
    start = np.searchsorted(group, np.arange(n_groups + 1))
    return GroupCounts(start, key, weight, n_path)


def green_labels(
    forest: Forest,
    codes: NDArray[np.int32],
    labels: NDArray[np.int8],
    class_weights: tuple[int, int] = (1, 1),
    label0_rates: Sequence[float] | None = None,
) -> NDArray[np.int8]:
    """The label of each green leaf of tree t: 1 if w1·N1 > w0·rate_t·N0, over all transactions."""
    check_labels(codes, labels)
    rates = check_rates(forest, label0_rates)
    ones = np.zeros(forest.n_green)
    zeros = np.zeros(forest.n_green)
    for tree, rate in enumerate(rates):
        green = codes[:, tree] < 0
        leaf, label = -1 - codes[green, tree], labels[green]
        ones += np.bincount(leaf[label == 1], minlength=forest.n_green)
        zeros += rate * np.bincount(leaf[label == 0], minlength=forest.n_green)
    return (class_weights[1] * ones > class_weights[0] * zeros).astype(np.int8)
