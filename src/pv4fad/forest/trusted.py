"""The trusted third party (protocol.md §9): all data in one place, plain arithmetic.

The oracle.  The private protocol must give exactly its counts, labels and votes, or, with noise,
its counts plus that noise.  It shares the routing with the private path and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.pairs import KeptPairs
from pv4fad.forest.structure import Forest


@dataclass(frozen=True)
class Votes:
    """Votes for label 1 that each transaction gets, by where they come from."""

    green: NDArray[np.int64]
    sides: NDArray[np.int64]  # (n_transactions, n_sides)

    @property
    def total(self) -> NDArray[np.int64]:
        return np.asarray(self.green + self.sides.sum(axis=1))


@dataclass(frozen=True)
class TrueDecisions:
    """Which payments alert by the per-side rule, and by the joint vote of the true records."""

    alerts: NDArray[np.bool_] = field(repr=False)
    joint: NDArray[np.bool_] = field(repr=False)

    @property
    def n_different(self) -> int:
        return int((self.alerts != self.joint).sum())


@dataclass(frozen=True)
class TrustedThirdParty:
    """Knows the forest and the joined records.

    `atoms` (n_keys,): the atom of the record that an account key finds at its bank, -1 where it
    finds none.
    """

    forest: Forest
    atoms: NDArray[np.int64] = field(repr=False)

    def counts(self, pairs: KeptPairs) -> NDArray[np.int64]:
        """(n_groups, n_sets + 1): weight of the kept pairs in each red leaf, the rest last."""
        sizes = self.forest.sizes
        counts = np.zeros((sizes.n_groups, sizes.n_sets + 1), np.int64)
        np.add.at(counts, (pairs.group, self.branch(pairs.group, pairs.key)), pairs.weight)
        return counts

    def red_labels(
        self, counts: NDArray[np.int64], noise: NDArray[np.int64] | None = None
    ) -> NDArray[np.int8]:
        """(n_groups, n_sets + 1): 1 where D > 0.  `noise` (n_sums,): one value per sum (g, c).

        The rest is N_path minus the noisy sums of its group, so it gets their noise negated.
        """
        noisy = counts.copy()
        if noise is not None:
            per_set = noise.reshape(len(counts), -1)
            noisy[:, :-1] += per_set
            noisy[:, -1] -= per_set.sum(axis=1)
        return (noisy > 0).astype(np.int8)

    def green_labels(
        self,
        codes: NDArray[np.int32],
        labels: NDArray[np.int8],
        class_weights: tuple[int, int] = (1, 1),
        label0_rates: Sequence[float] | None = None,
    ) -> NDArray[np.int8]:
        """(n_green,): 1 where label 1 outweighs label 0 among all transactions in the leaf."""
        transaction, tree = np.nonzero(codes < 0)
        number = np.zeros((self.forest.n_green, 2), np.int64)
        np.add.at(number, (-1 - codes[transaction, tree], labels[transaction]), 1)
        rate = np.ones(self.forest.n_green)
        if label0_rates is not None:
            rate[-1 - codes[transaction, tree]] = np.array(label0_rates)[tree]
        balance = class_weights[1] * number[:, 1] - class_weights[0] * (rate * number[:, 0])
        return (balance > 0).astype(np.int8)

    def votes(
        self,
        codes: NDArray[np.int32],
        key_of: NDArray[np.int64],
        red_labels: NDArray[np.int8],
        green_labels: NDArray[np.int8],
    ) -> Votes:
        """Every tree casts one vote: that of the leaf which the transaction reaches in it."""
        votes = Votes(np.zeros(len(codes), np.int64), np.zeros(key_of.shape, np.int64))
        for code in codes.T:
            green, red = np.flatnonzero(code < 0), np.flatnonzero(code >= 0)
            votes.green[green] += green_labels[-1 - code[green]]
            group = code[red]
            side = self.forest.group_sides[group]
            votes.sides[red, side] += red_labels[group, self.branch(group, key_of[red, side])]
        return votes

    def decisions(
        self,
        codes: NDArray[np.int32],
        key_of: NDArray[np.int64],
        red_labels: NDArray[np.int8],
        green_labels: NDArray[np.int8],
    ) -> TrueDecisions:
        """A payment alerts if it gets a majority with all accounts ordinary, or with the true
        record of one account and the others ordinary.  Ordinary: the first atom."""
        true = self.votes(codes, key_of, red_labels, green_labels)
        ordinary = TrustedThirdParty(self.forest, np.zeros_like(self.atoms[:1]))
        usual = ordinary.votes(codes, np.zeros_like(key_of), red_labels, green_labels)
        change = true.sides - usual.sides
        most = usual.total + np.maximum(change.max(axis=1), 0)
        n_trees = self.forest.sizes.n_trees
        return TrueDecisions(2 * most > n_trees, 2 * true.total > n_trees)

    def branch(self, group: NDArray[np.integer], key: NDArray[np.int64]) -> NDArray[np.int64]:
        """The branch that an account takes in a group: the number of its set, or of the rest."""
        n_sets = self.forest.sizes.n_sets
        branch = np.full(len(group), n_sets, np.int64)
        atom = self.atoms[key]
        for index in range(n_sets):
            branch[self._in_set[group, index, atom]] = index
        return branch

    @cached_property
    def _in_set(self) -> NDArray[np.bool_]:
        """[group, set, atom]: is the atom in the set?  Atom -1, absent, is in none."""
        sizes = self.forest.sizes
        in_set = np.zeros((sizes.n_groups, sizes.n_sets, sizes.n_atoms + 1), np.bool_)
        for number, group in enumerate(self.forest.groups):
            for index, atoms in enumerate(group.sets):
                in_set[number, index, list(atoms)] = True
        return in_set
