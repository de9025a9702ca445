"""The default model at the payment network: how it is prepared and kept.

What the payment network keeps of its own has no bank's data in it: the local model, and its
knowledge of its own payments (`evidence.knowledge`).  With the noisy counts of the run it becomes
the evidence that payments are judged by (`judging`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.detection.histograms import FeatureHistograms
from pv4fad.detection.local_model import LocalModel, usual_values
from pv4fad.detection.local_scale import honest_sample
from pv4fad.errors import ParameterError
from pv4fad.evidence.cells import CountedAccounts, TrainingPayments, n_hit_cells
from pv4fad.evidence.classes import counted_sets, n_kinds_of
from pv4fad.evidence.knowledge import Knowledge
from pv4fad.evidence.model import EvidenceModel
from pv4fad.evidence.noise import CountNoise
from pv4fad.forest.pairs import GroupCounts
from pv4fad.lead.rows import LeadData, account_index, inside_federation
from pv4fad.lead.settings import TrainingSettings
from pv4fad.protocol.count.state import ReleasedCounts
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput
from pv4fad.store.records import Record, Records, stored
from pv4fad.store.store import Store
from pv4fad.tables.features import FeatureTable

_ENOUGH = 20  # deviations of the noise


@dataclass(frozen=True)
class StoredModel(Record):
    """The own model in the payment network's store; `LocalModel`, and the arrays of `Knowledge`."""

    local: bytes = field(repr=False)
    usual: NDArray[np.float32] = field(repr=False)
    scale: NDArray[np.float64] = field(repr=False)
    history: NDArray[np.float64] = field(repr=False)
    rows: NDArray[np.float64] = field(repr=False)
    kept: NDArray[np.int64] = field(repr=False)
    hazard: NDArray[np.float64] = field(repr=False)
    is_first: NDArray[np.bool_] = field(repr=False)
    stratum: NDArray[np.int64] = field(repr=False)
    weight: NDArray[np.float64] = field(repr=False)

    def knowledge(self) -> Knowledge:
        arrays = {part.name: getattr(self, part.name) for part in fields(self)[2:]}
        return Knowledge.from_arrays(arrays)


@dataclass(frozen=True)
class OrderOfKinds(Record):
    """As of `EvidenceModel.of`; settled once per run."""

    order: tuple[int, ...]


@dataclass(frozen=True)
class OwnModel:
    """Fitted to the payment network's own training data."""

    local: LocalModel = field(repr=False)
    usual: NDArray[np.float32] = field(repr=False)
    """The usual value of each feature of the local model."""
    knowledge: Knowledge = field(repr=False)
    histograms: FeatureHistograms | None = field(repr=False)
    """What the features of later payments are compared with; None: of a run before there were."""

    def store(self, records: Records) -> None:
        """Into the payment network's own store."""
        arrays = self.knowledge.to_arrays()
        records.put(StoredModel(self.local.to_bytes(), self.usual, **arrays))
        if self.histograms is not None:
            records.put(self.histograms)

    @classmethod
    def stored(cls, store: Store, run_id: str) -> OwnModel:
        kept = stored(store, run_id, StoredModel)
        with store.transaction() as tx:
            histograms = Records(tx, run_id).find(FeatureHistograms)
        return cls(LocalModel.from_bytes(kept.local), kept.usual, kept.knowledge(), histograms)

    def evidence(
        self,
        parameters: RunParameters,
        noisy_counts: NDArray[np.int64],
        order: Sequence[int] | None = None,
    ) -> EvidenceModel:
        """What the noisy counts of the run are worth.  `order`: as of `EvidenceModel.of`."""
        if parameters.counted is None or parameters.absent is None:
            raise ParameterError("the run has labels of leaves, and no counts of classes")
        return EvidenceModel.of(
            self.knowledge,
            noisy_counts,
            noise_of(parameters),
            sets=parameters.counted,
            absent=parameters.absent,
            n_kinds=n_kinds_of(parameters.sizes.n_atoms, parameters.absent),
            order=order,
        )


def little_evidence(own: OwnModel, parameters: RunParameters) -> bool:
    """Whether noise is likely to drown what the counts of the run could tell.

    A rule of thumb: the accounts with an anomaly are fewer than 20 deviations of the noise of one
    count, which is 80 of them for ε = 1 with fine sets and half of the banks honest.
    """
    hits = own.knowledge.kept[: n_hit_cells(parameters.sizes.n_sides)].sum()
    return bool(hits < _ENOUGH * noise_of(parameters).deviation)


def noise_of(parameters: RunParameters) -> CountNoise:
    """The noise of a run's counts, from its public parameters."""
    n_banks = len(parameters.banks)
    draws = n_banks if parameters.noise == "per-bank" else n_banks / parameters.honest_banks
    return CountNoise.of(parameters.exact_epsilon, parameters.sensitivity, draws)


def stored_evidence(own: OwnModel, parameters: RunParameters, store: Store) -> EvidenceModel:
    """The evidence of a trained run.

    The order of the kinds is settled once per run: answers are kept by it, and the last digits of
    an average may differ on another machine.
    """
    with store.transaction() as tx:
        records = Records(tx, parameters.run_id)
        counts, settled = records.get(ReleasedCounts).counts, records.find(OrderOfKinds)
        model = own.evidence(parameters, counts, None if settled is None else settled.order)
        records.put(OrderOfKinds(tuple(model.order)))
    return model


# Training.


@dataclass(frozen=True)
class PreparedEvidence:
    """The payment network's side of a run of the default model."""

    training: TrainingInput = field(repr=False)
    keys: pl.DataFrame = field(repr=False)  # Holder, Id: row k is account key k
    counted: CountedAccounts = field(repr=False)
    own: OwnModel = field(repr=False)


def prepare_evidence(
    data: LeadData,
    settings: TrainingSettings,
    seed: int,
    features: FeatureTable,
) -> PreparedEvidence:
    """The local model, and which account counts in which cell."""
    # Scikit-learn takes seconds to import, and only training needs it.
    from pv4fad.detection.fitting import fit_local_model  # noqa: PLC0415

    schema, rows, labels = data.schema, data.rows, data.labels
    keys, accounts = account_index(data.sides, 1)
    groups = accounts.key_of[:, -1]
    fitted = fit_local_model(features.values, features.names, labels, groups, seed=seed)
    sample = honest_sample(fitted, features.values, labels, seed)
    payments = TrainingPayments(
        accounts,
        labels,
        data.sides.first_dealings(),
        rows[schema.rows.time].cast(pl.Int64).to_numpy(),
        inside_federation(keys, data.directory),
    )
    knowledge, counted = Knowledge.of(payments, sample, seed)
    usual = usual_values(features.values)
    sets = counted_sets(settings.sets, settings.absent, len(schema.record.kind_names))
    tables = data.tables(keys, 1)
    training = TrainingInput(cell_counts(counted), (sets,) * counted.n_cells, tables)
    histograms = FeatureHistograms.of(features.names, features.values)
    own = OwnModel(fitted.model, usual, knowledge, histograms)
    return PreparedEvidence(training, keys, counted, own)


def cell_counts(counted: CountedAccounts) -> GroupCounts:
    """Each account that counts, once, in its cell."""
    order = np.lexsort((counted.key, counted.cell))
    start = np.searchsorted(counted.cell[order], np.arange(counted.n_cells + 1))
    ones = np.ones(len(order), np.int64)
    return GroupCounts(start, counted.key[order], ones, counted.kept)
