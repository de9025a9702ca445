"""Labels from the alert desk: what people said about alerts becomes labels of the next training.

A CSV file with the id of a payment and its Label, as `pv4fad desk labels` writes it; they replace
those of the data.  The run keeps them, so that scoring sees the rows that training saw.

Where an alert came about with a bank's answer, such a label says something about the bank's record.
For the ε of the next training that is 'what the payment network knew before'; the training record
says how many labels it is about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.lead.rows import fingerprint
from pv4fad.schema import Schema
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Store
from pv4fad.tables.columns import ID, LABEL, Column
from pv4fad.tables.sheet import read_sheet
from pv4fad.validated import ValidatedModel


@dataclass(frozen=True)
class DeskLabels(Record):
    """Those that were used, in the payment network's store."""

    ids: tuple[str, ...] = field(repr=False)
    labels: NDArray[np.int8] = field(repr=False)


class AlertLabels(ValidatedModel):
    """How many labels of a training came from alerts."""

    rows: int = 0
    """Whose label is from the desk."""
    of_rows: int = 0
    anomalies: int = 0
    """Rows of label 1 whose label is from the desk."""
    of_anomalies: int = 0

    @property
    def share(self) -> float:
        """Of all labels."""
        return self.rows / self.of_rows if self.of_rows else 0.0


def read_desk_labels(schema: Schema, path: Path) -> DeskLabels:
    """A file of `pv4fad desk labels`; each id once."""
    id_, label = schema.rows.id, schema.rows.label
    columns = [Column(id_, ID), Column(label, LABEL)]
    rows, _ = read_sheet(path, columns).settle("raise")
    if not rows[id_].is_unique().all():
        raise DataError(f"{path}: column {id_}: an id is listed more than once")
    return DeskLabels(tuple(rows[id_]), rows[label].to_numpy().astype(np.int8))


def relabelled(
    schema: Schema, rows: pl.DataFrame, labels: DeskLabels
) -> tuple[pl.DataFrame, DeskLabels]:
    """The rows with the labels of the desk, and those labels that there is a row for."""
    id_, label = schema.rows.id, schema.rows.label
    given = pl.DataFrame(
        {id_: list(labels.ids), "desk": labels.labels}, schema_overrides={id_: pl.String}
    )
    used = given.join(rows.select(id_), on=id_, how="semi")
    if used.is_empty():
        raise DataError(
            schema.words(
                "the labels of the desk are about {n:,} {rows}, none of which is in the training"
                " data: add these {rows} to it",
                n=given.height,
            )
        )
    joined = rows.join(given, on=id_, how="left", maintain_order="left")
    changed = joined.with_columns(
        pl.coalesce("desk", label).cast(rows[label].dtype).alias(label)
    ).drop("desk")
    return changed, DeskLabels(tuple(used[id_]), used["desk"].to_numpy())


def alert_labels(schema: Schema, rows: pl.DataFrame, labels: DeskLabels | None) -> AlertLabels:
    """What the training record says of them; `rows`: as trained on."""
    n_anomalies = int((rows[schema.rows.label] == 1).sum())
    used = 0 if labels is None else len(labels.ids)
    ones = 0 if labels is None else int(labels.labels.sum())
    return AlertLabels(rows=used, of_rows=rows.height, anomalies=ones, of_anomalies=n_anomalies)


def rows_as_trained(
    schema: Schema, store: Store, run_id: str, rows: pl.DataFrame, trained: str
) -> pl.DataFrame | None:
    """The rows with the labels that training had; None if they are not those of the run.

    `trained`: the fingerprint of the rows that the run was trained on.
    """
    return as_trained(schema, used_labels(store, run_id), rows, trained)


def used_labels(store: Store, run_id: str) -> DeskLabels | None:
    """Those that a run was trained with."""
    with store.transaction() as tx:
        return Records(tx, run_id).find(DeskLabels)


def as_trained(
    schema: Schema, labels: DeskLabels | None, rows: pl.DataFrame, trained: str
) -> pl.DataFrame | None:
    """As `rows_as_trained`, with the labels that the run used."""
    if labels is not None and set(labels.ids) <= set(rows[schema.rows.id]):
        rows, _ = relabelled(schema, rows, labels)
    return rows if fingerprint(rows) == trained else None
