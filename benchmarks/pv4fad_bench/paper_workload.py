"""Work of the paper's model: a forest whose every tree asks the bank who pays.

Every account of the payment network sends one payment and receives one, and labels are coin flips.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.decisions import account_classes, decision_sets
from pv4fad.forest.pairs import (
    AccountIndex,
    CountConfig,
    KeptPairs,
    choose_pairs,
    green_labels,
    group_counts,
)
from pv4fad.forest.structure import Forest, PublicSizes
from pv4fad.forest.tree import BankCondition, BankNode, Leaf, Node, Split
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.hashing.keyed import tree_of
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput, Trees, run_parameters
from pv4fad.protocol.score.inputs import AskedSet, ScoringInput
from pv4fad_bench.batches import Batch, DecisionBatch, VoteBatch
from pv4fad_bench.workload import Workload, bare_ids

PAYER = 0  # a side
Scoring = Literal["decisions", "votes"]
"""Decisions need released labels, votes sealed ones."""
_NO_GREEN: NDArray[np.int8] = np.zeros(0, np.int8)  # no tree ends without asking the bank


@dataclass(frozen=True)
class PaperWorkload(Workload):
    """A forest with one condition and so many groups per tree."""

    n_classes: int = 11
    absent: ClassVar[None] = None
    n_trees: int = 12
    groups_per_tree: int = 1
    bound: int = 2  # every account has two payments
    scoring: Scoring = "votes"

    @cached_property
    def forest(self) -> Forest:
        """Each tree asks the bank who pays, then divides one feature into its groups."""
        groups = _intervals(0, self.groups_per_tree, self.groups_per_tree)
        asks = BankNode(BankCondition(PAYER, ((0,),)), groups)
        trees = (asks,) * self.n_trees
        sizes = PublicSizes(self.n_trees, self.groups_per_tree, 1, 1, self.n_classes)
        return Forest(trees, ("amount",), sizes)

    @cached_property
    def pairs(self) -> KeptPairs:
        """The payments that count."""
        keys = np.arange(self.pns_accounts)
        bare_trees = tree_of(bare_ids(keys), self.n_trees)
        rng = np.random.default_rng([self.seed, 2])
        sides = np.stack([rng.permutation(keys), rng.permutation(keys)], axis=1)
        return choose_pairs(
            self.forest,
            self._codes,
            self._labels,
            AccountIndex(sides, keys, bare_trees),
            config=CountConfig(bound=self.bound),
            rng=rng,
        )

    @cached_property
    def training_input(self) -> TrainingInput:
        own = green_labels(self.forest, self._codes, self._labels)
        return TrainingInput(
            group_counts(self.forest, self.pairs, self.pns_accounts),
            tuple(group.sets for group in self.forest.groups),
            self.tables,
            Trees(self.forest, own),
        )

    def parameters(self) -> RunParameters:
        return run_parameters(
            self.training_input,
            dict.fromkeys(self.banks, self.bank_accounts),
            self.schema,
            bound=self.bound,
            epsilon="none",
            noise="none",
            honest_banks=1,
            mode="sealed" if self.scoring == "votes" else "released",
        )

    @cached_property
    def _codes(self) -> NDArray[np.int32]:
        rng = np.random.default_rng([self.seed, 3])
        return self.forest.route(rng.random((self.pns_accounts, 1), np.float32))

    @cached_property
    def _labels(self) -> NDArray[np.int8]:
        rng = np.random.default_rng([self.seed, 4])
        return (rng.random(self.pns_accounts) < 0.5).astype(np.int8)

    # The truth.

    @property
    def truth(self) -> TrustedThirdParty:
        """All of it in one place."""
        return TrustedThirdParty(self.forest, self.atoms)

    def true_counts(self) -> NDArray[np.int64]:
        return self.truth.counts(self.pairs)[:, :-1]

    def true_labels(self) -> NDArray[np.int8]:
        """(groups, sets + 1): of the red leaves."""
        return self.truth.red_labels(self.truth.counts(self.pairs))

    # Payments to score.

    def batch(self, n: int, per_account: int) -> Batch:
        account, labels = self.paying_accounts(n, per_account), self.true_labels()
        sides = np.stack([account, account], axis=1)
        rng = np.random.default_rng([self.seed, 6])
        codes = self.forest.route(rng.random((n, 1), np.float32))
        if self.scoring == "votes":
            votes = self.truth.votes(codes, sides, labels, _NO_GREEN).sides
            data = ScoringInput(codes, self.keys, sides, layers_at_once=per_account)
            return VoteBatch(data, votes)
        asked = decision_sets(self.forest, codes, labels, _NO_GREEN)
        alerts = self.truth.decisions(codes, sides, labels, _NO_GREEN).alerts
        return DecisionBatch(
            self.keys,
            account,
            self._kinds,
            asked.asks[:, [PAYER]],
            self.atoms,
            alerts & ~asked.alert_alone,
        )

    @property
    def _kinds(self) -> tuple[AskedSet, ...]:
        """With one condition there are two classes, and one question: is it the other one?"""
        _, other = account_classes(self.forest)
        return (AskedSet(*other),)

    def n_layers(self, per_account: int) -> int:
        return per_account if self.scoring == "votes" else len(self._kinds)


def _intervals(first: int, stop: int, n: int) -> Node:
    """A balanced tree over the intervals first..stop−1 of n equal ones between 0 and 1."""
    if stop - first == 1:
        return Leaf()
    middle = (first + stop) // 2
    cut = float(np.float32(middle / n))
    return Split(0, cut, _intervals(first, middle, n), _intervals(middle, stop, n))
