"""Prepare a run: from the payment network's data and settings to what it proposes to the banks.

All that the payment network needs of a bank is public in the federation: which names rows call it
by, and how many accounts it declares.  What a bank brings is in `data`.

The run carries a commitment to what is counted: public in run.json, opened by the payment network's
nonce.  Who is later given the payment network's data and nonce can check that these accounts,
cells, sets and trees were counted, and no others.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pv4fad.errors import DataError, ParameterError
from pv4fad.forest.forest_file import NONCE_BYTES, to_document
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
_PURPOSE = b"pv4fad counted, version 1"
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
    """Hex; opens the commitment to what was counted."""
    transactions: str
    """Fingerprint of its data."""
    alert_labels: AlertLabels = AlertLabels()
    """How many of its labels came from alerts that people had looked at."""


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

    @property
    def commitment(self) -> bytes:
        """To what is counted, and the trees if there are any; public."""
        return commitment(self.training, bytes.fromhex(self.private.nonce))

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
    parameters = run_parameters(
        prepared.training,
        bank_accounts,
        data.schema,
        bound=settings.bound,
        epsilon=settings.exact_epsilon,
        noise=settings.noise_mode,
        honest_banks=settings.honest_banks or default_honest_banks(len(bank_accounts)),
        mode=settings.mode,
        counted=settings.sets if settings.model == "evidence" else None,
        absent=settings.absent if settings.model == "evidence" else None,
        metered=settings.metered,
    )
    private = TrainingRecord(
        settings=settings,
        data_schema=data.schema,
        seed=seed,
        nonce=secret_bytes(NONCE_BYTES).hex(),
        transactions=fingerprint(data.rows),
        alert_labels=alert_labels(data.schema, data.rows, desk_labels),
    )
    own = prepared.own if isinstance(prepared, PreparedEvidence) else None
    if own is not None and little_evidence(own, parameters):
        _log.warning(data.schema.words(_LITTLE_EVIDENCE))
    return NewRun(parameters, prepared.training, private, own, desk_labels)


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


def read_training_record(store: Store, run_id: str) -> TrainingRecord:
    """How a run came about, from the payment network's store."""
    return stored(store, run_id, TrainingNotes).private


def commitment(training: TrainingInput, nonce: bytes) -> bytes:
    """Binding, and hiding as long as the nonce is secret and random.

    Without the nonce a bank could try likely trees; there are not many.
    """
    if len(nonce) != NONCE_BYTES:
        raise ParameterError(f"a commitment needs a nonce of {NONCE_BYTES} bytes")
    counts, trees, tables = training.counts, training.trees, training.tables
    structure = {
        "sets": training.sets,
        "forest": None if trees is None else to_document(trees.forest),
        "accounts": {
            table_id: hashlib.sha256(b"\n".join(accounts.ids)).hexdigest()
            for table_id, accounts in tables.items()
        },
    }
    canonical = json.dumps(structure, sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(_PURPOSE + nonce)
    # Which account of a table has which number decides who is counted.
    numbers = (tables[table_id].keys for table_id in sorted(tables))
    arrays = (counts.start, counts.key, counts.weight, counts.n_path, *numbers)
    for part in (canonical.encode(), *(array.tobytes() for array in arrays)):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
