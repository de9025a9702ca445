"""The paper's model at the payment network: random decision trees.

decisions    labels are released: rounds of questions about sets of classes
votes        labels are sealed: a vote total per side of a payment
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.evidence.judgement import UNKNOWN
from pv4fad.forest.decisions import NOTHING, account_classes, decision_sets
from pv4fad.forest.pairs import KeptPairs, choose_pairs, green_labels, group_counts
from pv4fad.forest.random_trees import build_forest
from pv4fad.forest.reasons import reasons
from pv4fad.forest.structure import Forest
from pv4fad.forest.votes import green_votes, predictions
from pv4fad.lead.rows import LeadData, NewRows, account_index
from pv4fad.lead.settings import TrainingSettings
from pv4fad.protocol.propose.inputs import TrainingInput, Trees
from pv4fad.protocol.propose.state import StoredTrees
from pv4fad.protocol.score.inputs import AskedSet
from pv4fad.run.predictions import HOLDERS_ANSWER, prediction_table
from pv4fad.run.scoring_record import Learned
from pv4fad.schema import Schema
from pv4fad.store.records import stored
from pv4fad.store.store import Store
from pv4fad.tables.features import FeatureTable

_MOST_ROUNDS = 7


@dataclass(frozen=True)
class PreparedTrees:
    """The payment network's side of a run of the paper's model."""

    training: TrainingInput = field(repr=False)
    keys: pl.DataFrame = field(repr=False)
    trees: Trees = field(repr=False)
    codes: NDArray[np.int32] = field(repr=False)  # (transactions, trees): where each one lands
    labels: NDArray[np.int8] = field(repr=False)
    pairs: KeptPairs = field(repr=False)


def prepare_trees(
    data: LeadData,
    settings: TrainingSettings,
    seed: int,
    features: FeatureTable,
) -> PreparedTrees:
    """The forest of the paper's model, and what its leaves count."""
    labels = data.labels
    keys, accounts = account_index(data.sides, settings.trees)
    config, counting = settings.forest_config(data.schema), settings.count_config(labels)
    forest = build_forest(config, features.names, features.values, seed)
    codes = forest.route(features.values)
    # Of its own: the draws of the forest must not depend on how many accounts there are.
    rng = np.random.default_rng([seed, 1])
    pairs = choose_pairs(forest, codes, labels, accounts, config=counting, rng=rng)
    own_labels = green_labels(forest, codes, labels, counting.class_weights, counting.label0_rates)
    trees = Trees(forest, own_labels)
    training = TrainingInput(
        group_counts(forest, pairs, accounts.n_keys),
        tuple(group.sets for group in forest.groups),
        data.tables(keys, config.n_trees),
        trees,
    )
    return PreparedTrees(training, keys, trees, codes, labels, pairs)


def stored_trees(store: Store, run_id: str) -> Trees:
    """The paper's model, as the payment network keeps it."""
    return stored(store, run_id, StoredTrees).trees()


@dataclass
class DecisionJudge:
    """The paper's model with released labels: one bit where it can change the majority."""

    trees: Trees = field(repr=False)
    red_labels: NDArray[np.int8] = field(repr=False)  # (groups, sets + 1)
    payments: NewRows = field(repr=False)
    askable: NDArray[np.bool_] = field(repr=False)  # (payments, sides)

    def __post_init__(self) -> None:
        forest = self.trees.forest
        self._codes = forest.route(self.payments.features.values)
        self._decisions = decision_sets(
            forest, self._codes, self.red_labels, self.trees.green_labels
        )
        numbers = {one: number for number, one in enumerate(self.sets)}
        number_of = [numbers[AskedSet(*asked)] for asked in self._decisions.sets] + [NOTHING]
        # The last entry is read where nothing is asked.
        self._set_of = np.where(self.askable, np.array(number_of)[self._decisions.set_of], NOTHING)

    @property
    def sets(self) -> tuple[AskedSet, ...]:
        return asked_sets(self.trees.forest)

    def begin(self, known: NDArray[np.int8]) -> None:
        self._known = known.copy()
        self._asked = np.zeros(len(known), np.bool_)

    def ask(self, number: int) -> NDArray[np.int64]:
        wanted = self.payments.key_of[self._set_of == number]
        return np.unique(wanted[self._known[wanted, number] == UNKNOWN])

    def take(self, number: int, accounts: NDArray[np.int64], bits: NDArray[np.int64]) -> None:
        self._known[accounts, number] = bits
        self._asked[accounts] = True

    def table(self) -> pl.DataFrame:
        alone, by_bank = self._decisions.alert_alone, self._alerts_by_bank()
        alert, share = alone | by_bank, self._decisions.share_alone
        answer = self.payments.schema.words(HOLDERS_ANSWER)
        own = [
            f"{answer}; {one}" if bank else one
            for one, bank in zip(reasons(self.trees.forest, self._codes), by_bank, strict=True)
        ]
        return prediction_table(
            self.payments.ids,
            score=(alert + share) / 2,
            alert=alert,
            level=alert.astype(np.int8),
            local_score=share,
            reasons=[one if flagged else None for one, flagged in zip(own, alert, strict=True)],
        )

    def learned(self) -> Learned:
        return Learned(
            rows=len(self.payments),
            rows_asked=int((self._set_of != NOTHING).any(axis=1).sum()),
            records=len(self.payments.keys),
            records_asked=int(self._asked.sum()),
            alerts=int((self._decisions.alert_alone | self._alerts_by_bank()).sum()),
            holder_alerts=int(self._alerts_by_bank().sum()),
        )

    def _alerts_by_bank(self) -> NDArray[np.bool_]:
        bits = self._known[self.payments.key_of, np.maximum(self._set_of, 0)] == 1
        return (
            self._decisions.alerts(bits & (self._set_of != NOTHING)) & ~self._decisions.alert_alone
        )


def asked_sets(forest: Forest) -> tuple[AskedSet, ...]:
    """All that could ever be asked about, so that the number of rounds says nothing."""
    _, *others = account_classes(forest)
    n_rounds = 2 ** len(others) - 1
    if n_rounds > _MOST_ROUNDS:
        raise ParameterError(
            f"scoring by decisions: {len(others) + 1} classes need {n_rounds} rounds,"
            f" more than {_MOST_ROUNDS}; score by votes"
        )
    return tuple(_union(others, mask) for mask in range(1, n_rounds + 1))


def _union(classes: Sequence[tuple[tuple[int, ...], bool]], mask: int) -> AskedSet:
    chosen = [one for number, one in enumerate(classes) if mask >> number & 1]
    atoms = sorted(atom for atoms, _ in chosen for atom in atoms)
    return AskedSet(tuple(atoms), any(absent for _, absent in chosen))


def vote_columns(schema: Schema) -> tuple[str, ...]:
    """Of the paper's output: votes of green leaves, and of each side."""
    return ("GreenVotes", *(f"{name.capitalize()}Votes" for name in schema.side_names))


def vote_table(
    schema: Schema,
    payments: NewRows,
    trees: Trees,
    codes: NDArray[np.int32],
    sides: NDArray[np.int64],
) -> pl.DataFrame:
    """The paper's output: share of votes, majority, confidence; and the votes themselves."""
    green = green_votes(codes, trees.green_labels)
    found = predictions(green + sides.sum(axis=1), trees.forest.sizes.n_trees)
    return pl.DataFrame(
        {
            schema.rows.id: payments.ids,
            "Score": found.score,
            "Label": found.label,
            "Confidence": found.confidence,
            **dict(zip(vote_columns(schema), (green, *sides.T), strict=True)),
            "Reasons": reasons(trees.forest, codes),
        }
    )
