"""A run in the clear: the scores that `pv4fad train` and `pv4fad score` would arrive at.

Features, local model, trees, pairs and combiners are those of a private run; counts, labels and
votes are the trusted third party's, which a private run equals; noise is drawn as the banks draw
it.  Only the cryptography is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.data.features import FeatureTable, compute_features
from pv4fad.data.routing import route
from pv4fad.data.schema import LABEL
from pv4fad.detection.local_model import LocalModel
from pv4fad.detection.recipe import Combiner
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.forest.votes import green_votes, predictions
from pv4fad.privacy.bound import sensitivity
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.privacy.noise import discrete_laplace
from pv4fad.runs.combining import combined_scores, label_noise, labelled_rows
from pv4fad.runs.comparison import joined_atoms
from pv4fad.runs.prepare import account_index, bank_directory, prepare_payment_network
from pv4fad.runs.scoring_rows import ScoringRows, scoring_rows
from pv4fad.runs.settings import TrainingSettings

Floats = NDArray[np.float64]
Accounts = Mapping[str, pl.DataFrame]
RedLabels = NDArray[np.int8]


@dataclass(frozen=True)
class Records:
    """The atoms of the record that each account key finds, -1 for none."""

    of_training: NDArray[np.int64] = field(repr=False)
    of_own: NDArray[np.int64] = field(repr=False)  # in labelled rows that are scored
    of_new: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True)
class Totals:
    """Vote totals of both sides: of labelled rows, of new rows."""

    of_new: NDArray[np.int64] = field(repr=False)
    of_own: NDArray[np.int64] = field(repr=False)


class ClearRun:
    """One data set, prepared once; labels and scores for any noise and any records of banks."""

    def __init__(
        self,
        transactions: pl.DataFrame,
        new: pl.DataFrame,
        accounts: Accounts,
        settings: TrainingSettings,
        seed: int,
    ) -> None:
        self._settings = settings
        known, self._new_features = _features(transactions, new)
        self._known_features = known
        self._history = transactions
        self.accounts = accounts
        self._prepared = prepare_payment_network(
            transactions, bank_directory(accounts), settings, seed, known
        )
        self._forest = self._prepared.training.forest
        detection = self._prepared.detection
        local = None if detection is None else detection.local
        self._rows = scoring_rows(new, transactions, self._forest, local, self._new_features)
        self._labelled = labelled_rows(
            transactions, self._forest, seed, known, self._prepared.sample_scores
        )
        self._own = self._labelled.rows

    @property
    def alone(self) -> Floats:
        """The payment network's own score of each new transaction."""
        return self._rows.require_local_scores().astype(np.float64)

    def joined(self, seed: int) -> Floats:
        """What the local model finds if it is given the flags of both accounts as well."""
        keys, index = account_index(route(self._history), self._settings.trees)
        known = self._atoms(keys, self.accounts)[index.key_of, 0]
        new_keys = pl.DataFrame(self._rows.keys, schema=_KEYS, orient="row")
        new = self._atoms(new_keys, self.accounts)[self._rows.key_of, 0]
        labels = self._prepared.labels
        names = (*self._known_features.names, "ordering_flag", "beneficiary_flag")
        model, _ = LocalModel.fit(
            np.hstack([self._known_features.values, known.astype(np.float32)]),
            names,
            labels,
            np.zeros(len(labels), np.int64),  # one group: no out-of-fold scores are wanted
            seed=seed,
        )
        joined = np.hstack([self._new_features.values, new.astype(np.float32)])
        return model.score(joined).astype(np.float64)

    def red_labels(self, records: Records, epsilon: Epsilon, draws: int) -> RedLabels:
        """The labels of red leaves; `draws`: how often discrete Laplace noise is in a sum."""
        oracle = TrustedThirdParty(self._forest, records.of_training)
        sizes = self._forest.sizes
        noise = None
        if epsilon != "none":
            delta = sensitivity(self._settings.bound, sizes.n_sets)
            drawn = discrete_laplace(Fraction(epsilon), delta, draws * sizes.n_sums)
            noise = drawn.reshape(draws, sizes.n_sums).sum(axis=0)
        return oracle.red_labels(oracle.counts(self._prepared.pairs), noise)

    def votes(self, red: RedLabels, records: Records) -> Totals:
        """The vote totals that follow from these labels."""
        return Totals(
            self._votes(self._rows, red, records.of_new),
            self._votes(self._own, red, records.of_own),
        )

    def scores(self, combiner: Combiner, totals: Totals, *, epsilon: Epsilon, draws: int) -> Floats:
        """The score of each new transaction."""
        rows, sizes = self._rows, self._forest.sizes
        stacking = None
        if combiner == "stacked":
            stacking = self._labelled.stacking(totals.of_own, sizes.n_trees)
        scores = combined_scores(
            combiner,
            rows,
            totals.of_new,
            detection=self._prepared.detection,
            noise=label_noise(epsilon, self._settings.bound, sizes, draws),
            stacking=stacking,
        )
        if scores is None:
            green = green_votes(rows.codes, self._prepared.training.green_labels)
            scores = predictions(green + totals.of_new.sum(axis=1), sizes.n_trees).score
        return scores

    def _votes(
        self, rows: ScoringRows, red: RedLabels, atoms: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        oracle = TrustedThirdParty(self._forest, atoms)
        green = self._prepared.training.green_labels
        return oracle.votes(rows.codes, rows.key_of, red, green).sides

    def records(self, accounts: Accounts | None) -> Records:
        """The records that the accounts find; None: no bank knows any account."""
        own, new = (
            pl.DataFrame(rows.keys, schema=_KEYS, orient="row") for rows in (self._own, self._rows)
        )
        return Records(*(self._atoms(keys, accounts) for keys in (self._prepared.keys, own, new)))

    def _atoms(self, keys: pl.DataFrame, accounts: Accounts | None) -> NDArray[np.int64]:
        schema = self._forest.schema
        if accounts is None:
            return np.full((keys.height, len(schema.families)), -1, np.int64)
        return joined_atoms(keys, accounts, schema)


_KEYS = {"Bank": pl.String, "Account": pl.String}


def _features(transactions: pl.DataFrame, new: pl.DataFrame) -> tuple[FeatureTable, FeatureTable]:
    """Both in one go: what comes later changes no feature of what was before."""
    columns = [name for name in transactions.columns if name != LABEL]
    both = compute_features(pl.concat([transactions.select(columns), new.select(columns)]))
    n = transactions.height
    return FeatureTable(both.names, both.values[:n]), FeatureTable(both.names, both.values[n:])
