"""Train, score and refresh from Python, with data frames: all parties in this process.

    model = train(schema, rows, records, TrainingSettings(epsilon="1.0"))
    found = model.score(new_rows)
    model.refresh(changed_records)

Frames have the types that the loaders give them (`lead.data`).  Stores are in memory
and end with the process; `on_disk` keeps runs in folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import polars as pl

from pv4fad.errors import DataError
from pv4fad.lead import refresh as refreshing
from pv4fad.lead import score as scoring
from pv4fad.lead import train as training
from pv4fad.lead.data import all_records, bank_directory, bank_records
from pv4fad.lead.federation import Federation
from pv4fad.lead.prepare import prepare_run
from pv4fad.lead.rows import LeadData, new_rows
from pv4fad.lead.score import How, Scored
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.simulate import memory_stores, simulate
from pv4fad.protocol.parameters import RunParameters
from pv4fad.run.document import RunDocument
from pv4fad.run.meter import Meter
from pv4fad.schema import Schema
from pv4fad.store.store import MemoryStore
from pv4fad.workers import WorkerPool


def train(
    schema: Schema,
    rows: pl.DataFrame,
    records: Mapping[str, pl.DataFrame],
    settings: TrainingSettings,
    *,
    workers: int = 0,
) -> Model:
    """Train on the lead's labelled rows and each bank's records.

    `workers`: processes besides this one.  With any, a script needs `if __name__ == "__main__":`
    around what it does, and the model is best used in a `with` block, which ends them.
    """
    meter = Meter()
    sizes = {bank: frame.height for bank, frame in records.items()}
    directory = bank_directory(records)
    new = prepare_run(LeadData(schema, rows, directory), sizes, settings)
    stores, pool = memory_stores(records), WorkerPool(workers)
    federation = simulate(
        all_records(schema, records),
        pool,
        stores=stores,
        first_limit=settings.exact_epsilon,
        honest_banks=new.parameters.honest_banks,
    )
    try:
        document = training.train(federation, new, training.new_document(new, meter), meter)
    except BaseException:
        pool.close()
        raise
    return Model(document, stores, federation, pool, rows, directory)


@dataclass(repr=False)
class Model:
    """A trained run whose parties are all in this process; made by `train`."""

    document: RunDocument
    """What is public about the run: parameters, the privacy claim, costs."""
    stores: Mapping[str, MemoryStore]
    """What each party keeps, by name."""
    _federation: Federation
    _pool: WorkerPool
    _history: pl.DataFrame
    _directory: Mapping[str, str]

    @property
    def parameters(self) -> RunParameters:
        return self.document.parameters

    @property
    def schema(self) -> Schema:
        return self.document.data_schema

    def score(self, rows: pl.DataFrame, how: How | None = None) -> Scored:
        """A prediction for each row, in order, and what was learnt on the way.

        Features continue from the rows that the model was trained on.
        """
        meter, how = Meter(), How() if how is None else how
        payments = new_rows(self.schema, rows, self._history)
        return scoring.score(
            self._federation, self.parameters, payments, self._directory, how=how, meter=meter
        )

    def refresh(self, records: Mapping[str, pl.DataFrame]) -> None:
        """The banks' records have changed: match all accounts again, with new keys."""
        if set(records) != set(self.parameters.banks):
            raise DataError(f"give the records of {', '.join(self.parameters.banks)}")
        for bank in self._federation.banks:
            bank.replace_records(bank_records(self.schema, records[bank.name]))
        self._directory = bank_directory(records)
        refreshing.refresh(self._federation, self.parameters, self._directory, Meter())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes."""
        self._pool.close()
