"""From votes to scores: what the payment network makes of what it was told (docs/detection.md).

The private run and its verification in the clear use the same functions, and so does the study of
`pv4fad bench utility`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.data.features import FeatureTable, compute_features
from pv4fad.data.routing import route
from pv4fad.data.schema import LABEL
from pv4fad.detection.ladder import LabelNoise
from pv4fad.detection.local_model import LocalModel
from pv4fad.detection.recipe import LOCAL_SCORE, Combiner, Detection
from pv4fad.detection.stacked import Stacking, kinds, sample_rows
from pv4fad.errors import ParameterError
from pv4fad.forest.structure import Forest, PublicSizes
from pv4fad.forest.tree import Side
from pv4fad.parties.party import RunRecords
from pv4fad.parties.store import Store
from pv4fad.privacy.bound import sensitivity
from pv4fad.privacy.epsilon import Epsilon, parse_epsilon
from pv4fad.protocol.parameters import RunParameters
from pv4fad.runs.prepare import account_index, fingerprint, out_of_fold_scores
from pv4fad.runs.scoring_job import JobNotes
from pv4fad.runs.scoring_rows import Batching, ScoringRows, first_payments
from pv4fad.runs.settings import TrainingSettings
from pv4fad.runs.trained_run import TrainedRun

Floats = NDArray[np.float64]

_LOCAL_MODEL = "local model"
_LADDER = "ladder"
_STACKING = "stacking"


def store_detection(records: RunRecords, detection: Detection | None) -> None:
    """Into the payment network's own store."""
    if detection is not None:
        records.put(_LOCAL_MODEL, detection.local.to_bytes())
        records.put_json(_LADDER, detection.ladder_document())


def stored_detection(store: Store, run_id: str) -> Detection | None:
    """None: the run was trained for votes only."""
    with store.transaction() as tx:
        records = RunRecords(tx, run_id)
        local = records.find(_LOCAL_MODEL)
        return None if local is None else Detection.from_parts(local, records.get_json(_LADDER))


def store_stacking(store: Store, run_id: str, stacking: Stacking) -> None:
    with store.transaction() as tx:
        RunRecords(tx, run_id).put_json(_STACKING, stacking.to_document())


def stored_stacking(store: Store, run_id: str) -> Stacking | None:
    """None: no labelled transactions have been scored yet."""
    with store.transaction() as tx:
        document: Any = RunRecords(tx, run_id).find_json(_STACKING, None)
        return None if document is None else Stacking.from_document(document)


def noise_of(parameters: RunParameters) -> LabelNoise:
    """The noise of a run's labels, from its public parameters."""
    n_banks = len(parameters.banks)
    draws = n_banks if parameters.noise == "per-bank" else n_banks / parameters.honest_banks
    return label_noise(parse_epsilon(parameters.epsilon), parameters.bound, parameters.sizes, draws)


def label_noise(epsilon: Epsilon, bound: int, sizes: PublicSizes, draws: float) -> LabelNoise:
    """`draws`: how often discrete Laplace noise is in a sum.

    The leaf of a set has one sum's noise, the rest that of all its group's sums; which of the two
    an account is in, the payment network does not know.
    """
    delta = sensitivity(bound, sizes.n_sets)
    return LabelNoise.of(epsilon, delta, draws * (1 + sizes.n_sets) / 2)


@dataclass(frozen=True)
class LabelledRows:
    """Training transactions to be scored for the stacked combiner."""

    rows: ScoringRows
    labels: NDArray[np.int8] = field(repr=False)
    all_labels: NDArray[np.int8] = field(repr=False)

    def stacking(self, totals: NDArray[np.int64], n_trees: int) -> Stacking:
        """The regression of their labels on local scores and vote totals."""
        return Stacking.fit(
            self.rows.require_local_scores(),
            kinds(totals, self.rows.is_first),
            self.labels,
            n_trees=n_trees,
            all_labels=self.all_labels,
        )


def labelled_rows(
    history: pl.DataFrame,
    forest: Forest,
    seed: int,
    features: FeatureTable | None = None,
    scores: NDArray[np.float32] | None = None,
) -> LabelledRows:
    """A sample of the training transactions, with out-of-fold local scores.

    `features`, `scores`: if they are known already.
    """
    all_labels = history[LABEL].to_numpy().astype(np.int8)
    keys, index = account_index(route(history), forest.sizes.n_trees)
    features = compute_features(history) if features is None else features
    groups = index.key_of[:, Side.BENEFICIARY]
    chosen = sample_rows(all_labels, seed)
    if scores is None:
        scores = out_of_fold_scores(features, all_labels, groups, chosen, seed)
    values = features.values[chosen]
    if LOCAL_SCORE in forest.feature_names:
        values = np.concatenate([values, scores[:, np.newaxis]], axis=1)
    used, key_of = np.unique(index.key_of[chosen], return_inverse=True)
    sample = history[chosen]
    rows = ScoringRows(
        sample["MessageId"],
        fingerprint(sample.drop(LABEL)),
        forest.route(values),
        list(keys[used].iter_rows()),
        key_of.reshape(-1, 2),
        scores,
        first_payments(history).to_numpy()[chosen],
        np.zeros((len(used), 2, 2, 2), np.int64),
    )
    return LabelledRows(rows, all_labels[chosen], all_labels)


def combined_scores(
    combiner: Combiner,
    rows: ScoringRows,
    sides: NDArray[np.int64],
    *,
    detection: Detection | None,
    noise: LabelNoise,
    stacking: Stacking | None = None,
) -> Floats | None:
    """The score of each transaction; None: the share of votes is the score."""
    if combiner == "votes":
        return None
    if detection is None:
        raise ParameterError(
            f"combiner {combiner}: the run was trained for votes and has no local model;"
            " score with --combiner votes, or train anew"
        )
    if combiner == "stacked":
        if stacking is None:
            raise ParameterError("combiner stacked: no labelled transactions have been scored")
        return stacking.probability(rows.require_local_scores(), kinds(sides, rows.is_first))
    return detection.calibrated(
        rows.require_local_scores(),
        sides,
        rows.key_of,
        is_first=rows.is_first,
        history=rows.history,
        noise=noise,
    )


class DetectionAtHand:
    """What the payment network has in its store to make scores of votes."""

    def __init__(self, store: Store, run_id: str, parameters: RunParameters) -> None:
        self._store, self._run_id = store, run_id
        self._noise = noise_of(parameters)
        self._n_trees = parameters.sizes.n_trees
        self._detection = stored_detection(store, run_id)
        self._stacking = stored_stacking(store, run_id)

    @property
    def local(self) -> LocalModel | None:
        return None if self._detection is None else self._detection.local

    def require(self, combiner: Combiner, settings: TrainingSettings) -> None:
        """Refuse, before anybody is asked anything, what cannot be combined later."""
        if combiner == "votes":
            return
        if self._detection is None:
            raise ParameterError(
                f"combiner {combiner}: the run was trained for votes and has no local model;"
                " score with --combiner votes, or train anew"
            )
        if combiner == "calibrated" and not settings.bank_nodes_only:
            raise ParameterError(
                "combiner calibrated: the trees of this run test more than the bank's answer;"
                " score with --combiner stacked or votes"
            )

    def labelled_rows(
        self, combiner: Combiner, history: pl.DataFrame, forest: Forest, seed: int, new: ScoringRows
    ) -> LabelledRows | None:
        """The training transactions that the combiner needs scored first, if any.

        They are scored once in a run.  A scoring that began with them carries on with them.
        """
        if combiner != "stacked":
            return None
        under_way = JobNotes(self._store, self._run_id).read()
        if self._stacking is not None and under_way is None:
            return None
        labelled = labelled_rows(history, forest, seed)
        if self._stacking is not None and under_way is not None:
            together = labelled.rows.then(new).fingerprint
            return labelled if under_way.transactions == together else None
        return labelled

    def learn(self, labelled: LabelledRows, totals: NDArray[np.int64]) -> None:
        """From the votes of labelled transactions; kept, so that they are scored once."""
        self._stacking = labelled.stacking(totals, self._n_trees)
        store_stacking(self._store, self._run_id, self._stacking)

    def scores(
        self, combiner: Combiner, rows: ScoringRows, sides: NDArray[np.int64]
    ) -> Floats | None:
        """As of `combined_scores`."""
        return combined_scores(
            combiner,
            rows,
            sides,
            detection=self._detection,
            noise=self._noise,
            stacking=self._stacking,
        )


def votes_and_stacking(
    run: TrainedRun,
    own: DetectionAtHand,
    rows: ScoringRows,
    labelled: LabelledRows | None,
    batching: Batching,
) -> NDArray[np.int64]:
    """The votes of the rows, (n, 2); labelled rows are scored with them, in one go.

    In one go, so that a scoring that was interrupted carries on where it was.
    """
    if labelled is None:
        return run.votes(rows, batching)
    votes = run.votes(labelled.rows.then(rows), batching)
    own.learn(labelled, votes[: len(labelled.rows)])
    return votes[len(labelled.rows) :]
