"""Prepare a run: from the payment network's data and settings to what it proposes to the banks.

All that the payment network needs of a bank is public in the federation: which names rows call it
by, and how many accounts it declares.  What a bank brings is in `data`.

The proposal carries a commitment of the payment network to its data, schema, settings, seed, model
and what is counted (`TrainingRecord`): everybody holds it, and only the payment network can open
it.  Who is given the record and the data can do the preparation again (`verify.replay`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pv4fad.errors import DataError
from pv4fad.lead.counted import counted_digest
from pv4fad.lead.desk_labels import AlertLabels, DeskLabels, alert_labels, relabelled
from pv4fad.lead.evidence_model import (
    OwnModel,
    PreparedEvidence,
    little_evidence,
    prepare_evidence,
)
from pv4fad.lead.paper_model import PreparedTrees, prepare_trees
from pv4fad.lead.rows import LeadData, fingerprint
from pv4fad.lead.settings import TrainingSettings
from pv4fad.privacy.effective import default_honest_banks
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput, run_parameters
from pv4fad.randomness import secret_bytes
from pv4fad.schema import Schema
from pv4fad.store.records import Record, Records, stored
from pv4fad.store.store import Store
from pv4fad.tables.features import FeatureTable, compute_features
from pv4fad.validated import ValidatedModel

_SEED_BYTES = 16
_NONCE_BYTES = 32
_PURPOSE = b"pv4fad commitment, version 1"
_LITTLE_EVIDENCE = (
    "Few {records} have an anomaly in training, so noise may drown what the {holders} could tell:"
    " count coarse sets (less noise), train on more {rows}, or let ε be larger."
)

_log = logging.getLogger("pv4fad.lead")


class TrainingRecord(ValidatedModel):
    """What the payment network keeps to itself, and needs to show later what it did."""

    settings: TrainingSettings
    data_schema: Schema
    seed: int
    nonce: str
    """Hex.  Without it, others could try likely records against the commitment."""
    transactions: str
    """Fingerprint of its data."""
    directory: dict[str, str]
    """What rows call a bank → the bank."""
    counted: str
    """Digest of the accounts, cells, sets and trees that are counted."""
    model: str
    """Digest of the local model; none if the model has only trees."""
    alert_labels: AlertLabels = AlertLabels()
    """How many of its labels came from alerts that people had looked at."""

    @property
    def commitment(self) -> str:
        """To all of this; binding, and hiding as long as the nonce is secret."""
        return hashlib.sha256(_PURPOSE + self.model_dump_json().encode()).hexdigest()


@dataclass(frozen=True)
class TrainingNotes(Record):
    """In the payment network's store."""

    private: TrainingRecord = field(repr=False)


@dataclass(frozen=True)
class NewRun:
    """What the payment network brings; nothing is stored or sent yet."""

    parameters: RunParameters
    training: TrainingInput = field(repr=False)
    private: TrainingRecord = field(repr=False)
    own: OwnModel | None = field(repr=False)
    """The payment network's own model; None: the paper's model needs none."""
    desk_labels: DeskLabels | None = field(default=None, repr=False)
    """From the alert desk."""

    def store(self, store: Store) -> None:
        """Into the payment network's own store."""
        with store.transaction() as tx:
            records = Records(tx, self.parameters.run_id)
            records.put(TrainingNotes(self.private))
            if self.own is not None:
                self.own.store(records)
            if self.desk_labels is not None:
                records.put(self.desk_labels)


def prepare_run(
    data: LeadData,
    bank_accounts: Mapping[str, int],
    settings: TrainingSettings,
    desk_labels: DeskLabels | None = None,
) -> NewRun:
    """A new run on labelled rows; `bank_accounts`: how many accounts each bank declares.

    `desk_labels` take the place of those of the rows.
    """
    if not bank_accounts:
        raise DataError("the federation has nobody with records: a run needs at least one")
    if desk_labels is not None:
        rows, desk_labels = relabelled(data.schema, data.rows, desk_labels)
        data = replace(data, rows=rows)
    if data.labels.all():
        raise DataError("every row has label 1: there is nothing to tell anomalies from")
    seed = settings.seed
    if seed is None:
        seed = int.from_bytes(secret_bytes(_SEED_BYTES), "big")
    prepared = prepare_payment_network(data, settings, seed)
    own = prepared.own if isinstance(prepared, PreparedEvidence) else None
    private = TrainingRecord(
        settings=settings,
        data_schema=data.schema,
        seed=seed,
        nonce=secret_bytes(_NONCE_BYTES).hex(),
        transactions=fingerprint(data.rows),
        directory=dict(data.directory),
        counted=counted_digest(prepared.training),
        model=model_digest(own),
        alert_labels=alert_labels(data.schema, data.rows, desk_labels),
    )
    parameters = proposed_parameters(prepared.training, bank_accounts, private)
    if own is not None and little_evidence(own, parameters):
        _log.warning(data.schema.words(_LITTLE_EVIDENCE))
    return NewRun(parameters, prepared.training, private, own, desk_labels)


def proposed_parameters(
    training: TrainingInput, bank_accounts: Mapping[str, int], private: TrainingRecord
) -> RunParameters:
    """What follows from the record and what is counted; the run's id and hash key are drawn."""
    settings = private.settings
    return run_parameters(
        training,
        bank_accounts,
        private.data_schema,
        bound=settings.bound,
        epsilon=settings.exact_epsilon,
        noise=settings.noise_mode,
        honest_banks=settings.honest_banks or default_honest_banks(len(bank_accounts)),
        mode=settings.mode,
        counted=settings.sets if settings.model == "evidence" else None,
        absent=settings.absent if settings.model == "evidence" else None,
        metered=settings.metered,
        commitment=private.commitment,
    )


def prepare_payment_network(
    data: LeadData,
    settings: TrainingSettings,
    seed: int,
    features: FeatureTable | None = None,
) -> PreparedEvidence | PreparedTrees:
    """What the payment network counts, and its own part of the model.

    `seed` governs structure and sampling, nothing else.  `features` of the rows, if they are
    known already.
    """
    label = data.schema.rows.label
    if label not in data.rows.columns:
        raise DataError(f"the rows have no column {label}: training needs labels")
    if data.rows.is_empty():
        raise DataError("there are no rows to train with")
    features = compute_features(data.schema, data.rows) if features is None else features
    prepare = prepare_trees if settings.model == "paper" else prepare_evidence
    return prepare(data, settings, seed, features)


def model_digest(own: OwnModel | None) -> str:
    """Of the payment network's own model."""
    return "" if own is None else hashlib.sha256(own.local.to_bytes()).hexdigest()


def read_training_record(store: Store, run_id: str) -> TrainingRecord:
    """How a run came about, from the payment network's store."""
    return stored(store, run_id, TrainingNotes).private
