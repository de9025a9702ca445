"""A party's own table in its store, sealed with it: what a saved or connected run goes on from."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import polars as pl

from pv4fad.rules import Rules
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Store


@dataclass(frozen=True)
class OwnTable(Record):
    """The lead's rows, or a holder's ids and classes."""

    parquet: bytes = field(repr=False)
    rules: Rules | None = field(default=None, repr=False)
    """A holder's own rules, for its next table."""


def keep_table(store: Store, run_id: str, table: pl.DataFrame, rules: Rules | None = None) -> None:
    """With a run."""
    file = io.BytesIO()
    table.write_parquet(file)
    with store.transaction() as tx:
        Records(tx, run_id).put(OwnTable(file.getvalue(), rules))


def kept_table(store: Store, run_id: str) -> OwnTable | None:
    """What was kept with a run, if anything."""
    with store.transaction() as tx:
        return Records(tx, run_id).find(OwnTable)


def table_of(kept: OwnTable) -> pl.DataFrame:
    """As a frame."""
    return pl.read_parquet(io.BytesIO(kept.parquet))
