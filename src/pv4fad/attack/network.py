"""The payment network as an attacker: what its store holds of a run, and what that tells.

counts    an account is likely to be what many accounts of its cell are
bits      an account that was asked about has told

Labels of the paper's trees are `labels`, vote totals `votes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from pv4fad.attack.belief import Belief, Integers
from pv4fad.attack.findings import Finding
from pv4fad.errors import DataError
from pv4fad.evidence.cells import n_cells, n_hit_cells
from pv4fad.evidence.classes import judged_kinds, kind_counts
from pv4fad.evidence.judgement import UNKNOWN
from pv4fad.lead.evidence_model import noise_of
from pv4fad.lead.judging import Judging
from pv4fad.lead.paper_model import asked_sets, stored_trees
from pv4fad.lead.scoring_job import JobNotes
from pv4fad.protocol.compare.state import Labels
from pv4fad.protocol.count.state import ReleasedCounts
from pv4fad.protocol.match.state import MatchesInForce, PlacedTable
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import Trees
from pv4fad.protocol.propose.state import CountedAccounts
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.store.records import Records, stored
from pv4fad.store.store import Store


@dataclass(frozen=True)
class Counted:
    """Which account counts where, in the payment network's own terms: one entry each time."""

    ids: tuple[bytes, ...] = field(repr=False)
    """As they were hashed."""
    group: Integers = field(repr=False)
    """The cell, or the group of leaves."""
    weight: Integers = field(repr=False)
    n_path: Integers = field(repr=False)
    """Of each cell or group: the weight of all accounts."""

    @classmethod
    def nothing(cls) -> Counted:
        return cls((), *np.zeros((3, 0), np.int64))

    @classmethod
    def stored(cls, store: Store, parameters: RunParameters) -> Counted:
        with store.transaction() as tx:
            records = Records(tx, parameters.run_id)
            counted = records.get(CountedAccounts)
            tables = [records.find(PlacedTable, plan.table_id) for plan in parameters.tables]
        if any(table is None for table in tables):
            raise DataError(
                "the tables of training are gone since all records were matched again: attack the"
                " run before a refresh"
            )
        id_of = {
            int(key): account
            for table in tables
            if table is not None
            for key, account in zip(table.keys, table.account_ids(), strict=True)
        }
        group = np.repeat(np.arange(len(counted.n_path)), np.diff(counted.start))
        ids = tuple(id_of[int(key)] for key in counted.key)
        return cls(ids, group, counted.weight, counted.n_path)


@dataclass(frozen=True)
class Held:
    """What the payment network holds of a run; vote totals are in its predictions."""

    parameters: RunParameters
    known: frozenset[bytes] = field(repr=False)
    """All accounts in its tables, as they were hashed."""
    counted: Counted = field(repr=False)
    asked: tuple[bytes, ...] = field(repr=False)
    bits: NDArray[np.int8] = field(repr=False)
    """(asked, sets): -1 where nothing was asked."""
    sets: tuple[AskedSet, ...] = field(repr=False)
    counts: Integers | None = field(repr=False)
    """(cells, sets), as released."""
    trees: Trees | None = field(repr=False)
    labels: NDArray[np.int8] | None = field(repr=False)
    """(groups, leaves), as released."""

    @classmethod
    def stored(cls, store: Store, parameters: RunParameters) -> Held:
        run_id, mode = parameters.run_id, parameters.mode
        trees = None if mode == "counts" else stored_trees(store, run_id)
        sets: tuple[AskedSet, ...] = ()
        if trees is None:
            any_share = 0.5
            sets = Judging.stored(store, parameters, {}, any_share).sets
        elif mode == "released":
            sets = asked_sets(trees.forest)
        ids, bits = JobNotes(store, run_id).all_known(len(sets))
        told = (bits != UNKNOWN).any(axis=1)
        released = stored(store, run_id, Labels).labels if mode == "released" else None
        return cls(
            parameters,
            _known_accounts(store, run_id),
            # What sealed labels were counted from tells nothing.
            Counted.nothing() if mode == "sealed" else Counted.stored(store, parameters),
            tuple(one for one, is_told in zip(ids, told, strict=True) if is_told),
            bits[told],
            sets,
            stored(store, run_id, ReleasedCounts).counts if mode == "counts" else None,
            trees,
            None if released is None else released.reshape(parameters.sizes.n_groups, -1),
        )

    def add_bits(self, belief: Belief) -> None:
        belief.add_bits(self.asked, self.bits, self.sets, self.parameters.absent)


def _known_accounts(store: Store, run_id: str) -> frozenset[bytes]:
    found: set[bytes] = set()
    with store.transaction() as tx:
        training = Records(tx, run_id)
        for epoch in training.get(MatchesInForce).epochs:
            records = training.of_epoch(epoch)
            for place in records.places(PlacedTable):
                found.update(records.get(PlacedTable, *place).account_ids())
    return frozenset(found)


@dataclass(frozen=True)
class HeldCounts:
    """The noisy counts of a run."""

    held: Held
    counts: Integers = field(repr=False)
    """(cells, sets)"""

    @property
    def counted(self) -> Counted:
        return self.held.counted

    @property
    def parameters(self) -> RunParameters:
        return self.held.parameters

    @property
    def kept(self) -> Integers:
        """(cells,): accounts that count there."""
        return self.counted.n_path

    def hits(self) -> set[bytes]:
        """Accounts with an anomalous payment: the payment network's own labels say it."""
        n_hit = n_hit_cells(len(self.kept) // n_cells(1))
        return {self.counted.ids[k] for k in np.flatnonzero(self.counted.group < n_hit)}

    def add_to(self, belief: Belief) -> None:
        """An account is what the accounts of its cell are, as far as noise lets one see."""
        sets, absent = self.parameters.counted, self.parameters.absent
        if sets is None or absent is None:
            raise DataError("the run has no counts")
        kind_of = belief.kind_of
        n_kinds = int(kind_of[-1]) - 1
        counts = kind_counts(self.counts, self.kept, sets, absent)
        # As much as the noise can make up is worth no more than what was known before.
        doubt = 1 + noise_of(self.parameters).deviation
        total = self.kept + doubt
        share = np.tile(belief.prior, (len(self.kept), 1))
        rest = np.ones(len(belief.prior), np.bool_)
        for kinds, column in zip(judged_kinds(sets, absent, n_kinds), counts.T, strict=True):
            inside = np.isin(kind_of, kinds)
            before = belief.prior[inside].sum()
            likely = np.clip(column, 0, self.kept) + doubt * before
            # How many there are in all cells together is known: counts below 0 were noise, too.
            likely *= before * total.sum() / likely.sum()
            share[:, inside] *= (np.minimum(likely / total, 1) / before)[:, np.newaxis]
            rest &= ~inside
        least = doubt * belief.prior[rest].sum() / total
        left = np.maximum(1 - share[:, ~rest].sum(axis=1), least)
        share[:, rest] *= (left / belief.prior[rest].sum())[:, np.newaxis]
        belief.add(self.counted.ids, np.log(share / belief.prior)[self.counted.group])


def by_counts(views: list[HeldCounts], belief: Belief) -> Finding:
    """Accounts that count, ordered by how likely the counts of all runs make them odd."""
    ids = list(dict.fromkeys(one for view in views for one in view.counted.ids))
    hit = set().union(*(view.hits() for view in views))
    truth, odd = belief.truth_of(ids) != 0, 1 - belief.chances_of(ids)[:, 0]
    labels = np.array([account in hit for account in ids])
    found, alone = (
        float(average_precision_score(truth, order)) if truth.any() else 0.0
        for order in (odd, labels)
    )
    return Finding(
        attacker="lead",
        target="which {records} are not ordinary, from the counts",
        measure="average precision",
        found=found,
        guess=alone,
        n=len(truth),
        note=f"{len(views)} run{'s' * (len(views) > 1)} together; without the run: from its own"
        f" labels; {truth.mean() if len(truth) else 0:.3f} are not ordinary",
    )
