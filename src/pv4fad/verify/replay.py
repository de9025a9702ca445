"""Do the payment network's preparation again, for an auditor who is given its data.

    commitment      the one that all parties hold is to this record
    rows            the data are those of the record
    counted         the same accounts count in the same cells, sets and trees
    parameters      those of the proposal follow from the settings of the record and the data
    model           the same local model

Nothing of a bank is needed, and nothing of a bank is shown.  Models are compared bit by bit: on a
machine with other arithmetic, `model` may differ in the last digits, and `counted` with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from pv4fad.errors import ParameterError
from pv4fad.lead.counted import counted_digest
from pv4fad.lead.desk_labels import rows_as_trained
from pv4fad.lead.evidence_model import PreparedEvidence
from pv4fad.lead.prepare import (
    TrainingRecord,
    model_digest,
    prepare_payment_network,
    proposed_parameters,
    read_training_record,
)
from pv4fad.lead.rows import LeadData
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput
from pv4fad.store.store import Store


@dataclass(frozen=True)
class Replay:
    """Whether each part is what was committed to; None: it could not be tried."""

    commitment: bool
    rows: bool
    counted: bool | None
    parameters: bool | None
    model: bool | None

    @property
    def holds(self) -> bool:
        return all((self.commitment, self.rows, self.counted, self.parameters, self.model))


_DRAWN = {"run_id", "hash_key"}


def replay(store: Store, proposed: RunParameters, rows: pl.DataFrame) -> Replay:
    """`store`: the payment network's; `proposed`: with the commitment that the others hold."""
    run_id = proposed.run_id
    record = read_training_record(store, run_id)
    opens = record.commitment == proposed.commitment
    as_trained = rows_as_trained(record.data_schema, store, run_id, rows, record.transactions)
    if as_trained is None:
        return Replay(opens, rows=False, counted=None, parameters=None, model=None)
    data = LeadData(record.data_schema, as_trained, record.directory)
    prepared = prepare_payment_network(data, record.settings, record.seed)
    own = prepared.own if isinstance(prepared, PreparedEvidence) else None
    return Replay(
        opens,
        rows=True,
        counted=counted_digest(prepared.training) == record.counted,
        parameters=_follow(proposed, prepared.training, record),
        model=model_digest(own) == record.model,
    )


def _follow(proposed: RunParameters, training: TrainingInput, record: TrainingRecord) -> bool:
    """All but what is drawn, and the numbers of accounts, which the banks declare."""
    try:
        expected = proposed_parameters(training, proposed.banks, record)
    except ParameterError:  # there is no run with these settings
        return False
    return expected.model_dump(exclude=_DRAWN) == proposed.model_dump(exclude=_DRAWN)
