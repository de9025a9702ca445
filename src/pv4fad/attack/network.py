"""The payment network as an attacker: from the noisy counts, the bits, and several runs together.

by counts    an account is likely to be what many accounts of its cell are
by bits      an account that was asked about has told
knowing all others    all records but one are known: what do the counts say about that one?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from pv4fad.attack.findings import Finding
from pv4fad.errors import DataError
from pv4fad.evidence.cells import n_cells, n_hit_cells
from pv4fad.evidence.classes import ORDINARY, counted_sets, kind_counts, provided_kinds
from pv4fad.evidence.judgement import UNKNOWN
from pv4fad.evidence.noise import CountNoise
from pv4fad.lead.evidence_model import noise_of
from pv4fad.privacy.effective import guessing_bound
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.protocol.count.state import ReleasedCounts
from pv4fad.protocol.match.state import MatchesInForce, PlacedTable
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.state import CountedAccounts
from pv4fad.protocol.score.state import KnownBits
from pv4fad.schema import Schema
from pv4fad.store.records import Records
from pv4fad.store.store import Store

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
ABSENT = -1


@dataclass(frozen=True)
class CountsView:
    """What the counts of one run tell, in the payment network's own terms."""

    parameters: RunParameters
    ids: tuple[bytes, ...] = field(repr=False)
    """Of every account that counts, as it was hashed."""
    cell: Integers = field(repr=False)
    counts: Integers = field(repr=False)
    """(cells, sets): as released."""
    kept: Integers = field(repr=False)
    """(cells,): accounts that count there."""

    @classmethod
    def stored(cls, store: Store, parameters: RunParameters) -> CountsView:
        """From the payment network's store."""
        if parameters.mode != "counts":
            raise DataError("the run has no counts")
        with store.transaction() as tx:
            records = Records(tx, parameters.run_id)
            counted, counts = records.get(CountedAccounts), records.get(ReleasedCounts).counts
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
        cell = np.repeat(np.arange(len(counted.n_path)), np.diff(counted.start))
        ids = tuple(id_of[int(key)] for key in counted.key)
        return cls(parameters, ids, cell, counts, counted.n_path)

    def hits(self) -> list[bytes]:
        """Accounts with an anomalous payment: the payment network's own labels say it."""
        n_hit = n_hit_cells(len(self.kept) // n_cells(1))
        return [self.ids[k] for k in np.flatnonzero(self.cell < n_hit)]

    def log_odds(self) -> Floats:
        """Of each account that counts: not ordinary against ordinary, by its cell."""
        parameters = self.parameters
        if parameters.counted is None or parameters.absent is None:
            raise DataError("the run has no counts")
        other = kind_counts(self.counts, self.kept, parameters.counted, parameters.absent)
        # Half an account more of each, so that an empty cell decides nothing.
        odd = np.clip(other.sum(axis=1), 0, self.kept) + 0.5
        odds: Floats = np.log(odd / (self.kept - odd + 1))
        return odds[self.cell]


def known_accounts(store: Store, run_id: str) -> set[bytes]:
    """All accounts that are in the payment network's tables, as they were hashed."""
    found: set[bytes] = set()
    with store.transaction() as tx:
        training = Records(tx, run_id)
        for epoch in training.get(MatchesInForce).epochs:
            records = training.of_epoch(epoch)
            for place in records.places(PlacedTable):
                found.update(records.get(PlacedTable, *place).account_ids())
    return found


def by_counts(views: Sequence[CountsView], odd_of: dict[bytes, bool]) -> Finding:
    """Accounts that count, ordered by how likely the counts of all runs make them odd."""
    total: dict[bytes, float] = {}
    for view in views:
        for account, value in zip(view.ids, view.log_odds(), strict=True):
            total[account] = total.get(account, 0.0) + float(value)
    truth = np.array([odd_of[account] for account in total])
    hit = {account for view in views for account in view.hits()}
    labels = [account in hit for account in total]
    found, alone = (
        float(average_precision_score(truth, order)) if truth.any() else 0.0
        for order in (list(total.values()), labels)
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


def by_bits(store: Store, run_id: str, odd_of: dict[bytes, bool]) -> tuple[Finding, ...]:
    """What the questions of this epoch have told."""
    with store.transaction() as tx:
        records = Records(tx, run_id)
        epoch = records.get(MatchesInForce).epochs[0]
        kept = records.of_epoch(epoch).find(KnownBits)
    ids = [] if kept is None or not kept.ids else kept.ids.split(b"\n")
    bits = np.full((0, 1), UNKNOWN, np.int8) if kept is None else kept.bits
    named = [account for account, row in zip(ids, bits, strict=True) if (row == 1).any()]
    odd = {account for account, is_odd in odd_of.items() if is_odd}
    right = sum(account in odd for account in named)
    rate = len(odd) / max(len(odd_of), 1)
    return (
        Finding(
            attacker="lead",
            target="which {records} are not ordinary, from the answers",
            measure="share recognised",
            found=right / max(len(odd), 1),
            guess=0.0,
            n=len(odd),
            note=f"{len(ids):,} of {len(odd_of):,} {{records}} were asked about; that is what"
            " questions are for",
        ),
        Finding(
            attacker="lead",
            target="which {records} are not ordinary, from the answers",
            measure="precision",
            found=right / max(len(named), 1),
            guess=rate,
            n=len(named),
        ),
    )


def knowing_all_others(
    views: Sequence[CountsView], schema: Schema, class_of: dict[bytes, int]
) -> Finding | None:
    """Whether a record is ordinary, or what it is: an attacker who knows all the others.

    As many ordinary records as others, so that a guess is right in half of the cases.  None if
    there is no record that is not ordinary.
    """
    per_run = [_ratios(view, schema, class_of) for view in views]
    totals: dict[tuple[bytes, bool], float] = {}
    for one in per_run:
        for case, ratio in one.items():
            totals[case] = totals.get(case, 0.0) + ratio
    odd = [ratio for (_, is_odd), ratio in totals.items() if is_odd]
    ordinary = [ratio for (_, is_odd), ratio in totals.items() if not is_odd]
    n = min(len(odd), len(ordinary))
    if n == 0:
        return None
    # Ties are guesses.
    right = sum((r > 0) + (r == 0) / 2 for r in odd) / len(odd)
    right += sum((r < 0) + (r == 0) / 2 for r in ordinary) / len(ordinary)
    bound = guessing_bound(_epsilon_of(views))
    return Finding(
        attacker="lead",
        target="whether {a_record} is ordinary, knowing all others",
        measure="right guesses, where half are right by chance",
        found=right / 2,
        guess=0.5,
        n=2 * n,
        # One draw of the noise in each cell is no average: the audit of ε tests the claim.
        note=f"ε allows {bound:.3f} on average over draws of the noise",
    )


def _epsilon_of(views: Sequence[CountsView]) -> Epsilon:
    """Of all runs together."""
    total = Fraction(0)
    for view in views:
        if isinstance(view.parameters.exact_epsilon, str):
            return view.parameters.exact_epsilon
        total += view.parameters.exact_epsilon
    return total


def _ratios(
    view: CountsView, schema: Schema, class_of: dict[bytes, int]
) -> dict[tuple[bytes, bool], float]:
    """Of each record: log P(counts | as an odd one) − log P(counts | ordinary), all else known.

    An odd record is compared as what it is, an ordinary one as the most frequent odd kind.
    """
    parameters = view.parameters
    if parameters.absent is None or parameters.counted is None:
        return {}
    noise = noise_of(parameters)
    atom_of = [*schema.atom_of_class(parameters.absent), ABSENT]
    atoms = np.array([atom_of[class_of[account]] for account in view.ids])
    provided = provided_kinds(parameters.absent, len(schema.record.kind_names))
    ordinary = provided.index(ORDINARY) if ORDINARY in provided else ABSENT
    sets = counted_sets(parameters.counted, parameters.absent, len(schema.record.kind_names))
    true = np.zeros_like(view.counts)
    for number, members in enumerate(sets):
        inside = np.isin(atoms, members)
        true[:, number] = np.bincount(view.cell[inside], minlength=len(view.kept))
    residual = view.counts - true
    odd = np.flatnonzero(atoms != ordinary)
    if not len(odd):
        return {}
    usual_odd = int(np.bincount(atoms[odd] - ABSENT).argmax()) + ABSENT
    found: dict[tuple[bytes, bool], float] = {}
    # As many ordinary ones, the same each time: an attack on a run has one result.
    rng = np.random.default_rng(0)
    plain = np.flatnonzero(atoms == ordinary)
    chosen = rng.choice(plain, min(len(odd), len(plain)), replace=False)
    for account, other in [(k, int(atoms[k])) for k in odd] + [(k, usual_odd) for k in chosen]:
        is_odd = bool(atoms[account] != ordinary)
        as_odd, as_ordinary = (
            np.array([kind in members for members in sets], np.int64) for kind in (other, ordinary)
        )
        mine = as_odd if is_odd else as_ordinary
        seen = residual[view.cell[account]] + mine  # the noise, plus what this record adds
        ratio = _log_noise(noise, seen - as_odd) - _log_noise(noise, seen - as_ordinary)
        found[view.ids[account], is_odd] = float(ratio)
    return found


def _log_noise(noise: CountNoise, values: Integers) -> float:
    """log P that the noise of these sums is this."""
    chance = noise.probabilities()
    reach = len(chance) // 2
    inside = np.abs(values) <= reach
    found = np.where(inside, chance[np.clip(values, -reach, reach) + reach], 0.0)
    return float(np.log(np.maximum(found, 1e-300)).sum())
