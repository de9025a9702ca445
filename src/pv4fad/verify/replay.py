"""Do the payment network's preparation again, for an auditor who is given its data.

    commitment      the one that all parties hold is to this record
    rows            the data are those of the record
    counted         the same accounts count in the same cells, sets and trees
    model           the same local model

Nothing of a bank is needed, and nothing of a bank is shown.  Models are compared bit by bit: on a
machine with other arithmetic, `model` may differ in the last digits, and `counted` with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from pv4fad.lead.counted import counted_digest
from pv4fad.lead.desk_labels import rows_as_trained
from pv4fad.lead.evidence_model import PreparedEvidence
from pv4fad.lead.prepare import model_digest, prepare_payment_network, read_training_record
from pv4fad.lead.rows import LeadData
from pv4fad.store.store import Store


@dataclass(frozen=True)
class Replay:
    """Whether each part is what was committed to; None: it could not be tried."""

    commitment: bool
    rows: bool
    counted: bool | None
    model: bool | None

    @property
    def holds(self) -> bool:
        return self.commitment and self.rows and bool(self.counted) and bool(self.model)


def replay(store: Store, run_id: str, committed: str, rows: pl.DataFrame) -> Replay:
    """`store`: the payment network's; `committed`: the commitment that the others hold."""
    record = read_training_record(store, run_id)
    opens = record.commitment == committed
    as_trained = rows_as_trained(record.data_schema, store, run_id, rows, record.transactions)
    if as_trained is None:
        return Replay(opens, rows=False, counted=None, model=None)
    data = LeadData(record.data_schema, as_trained, record.directory)
    prepared = prepare_payment_network(data, record.settings, record.seed)
    own = prepared.own if isinstance(prepared, PreparedEvidence) else None
    return Replay(
        opens,
        rows=True,
        counted=counted_digest(prepared.training) == record.counted,
        model=model_digest(own) == record.model,
    )
