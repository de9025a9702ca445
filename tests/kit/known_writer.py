"""A process that knows payments and keeps a journal of them, to be killed.

Takes the payments that the journal does not have, five at a time and two batches under way, and
writes what it found out about each as its answer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from pv4fad.lead.rows import NewRows, fingerprint
from pv4fad.payments.schema import SCHEMA
from pv4fad.service import known_payments
from pv4fad.service.intake import digest, texts_of
from pv4fad.service.journal import Entry, Journal
from pv4fad.service.known_payments import KnownPayments

BATCH, KEY = 5, bytes(range(32))


def entries_of(known: NewRows, texts: list[str]) -> list[Entry]:
    """The features as answers, to the bit."""
    names = tuple(known.rows.columns)
    return [
        Entry(payment_id, digest(text), values.tobytes().hex(), names, text)
        for payment_id, text, values in zip(
            known.ids.to_list(), texts, known.features.values, strict=True
        )
    ]


def known_of(folder: Path, journal: Journal) -> KnownPayments:
    """Of the rows in train.parquet."""
    training = pl.read_parquet(folder / "train.parquet")
    return KnownPayments(
        SCHEMA,
        journal,
        folder,
        KEY,
        training=lambda: training,
        fingerprint=fingerprint(training),
    )


def main(folder: Path) -> None:
    known_payments.SNAPSHOT_AFTER, known_payments._SHARE = 40, 10**9
    rows = pl.read_parquet(folder / "day.parquet")
    with Journal.open(folder, KEY) as journal:
        known, waiting = known_of(folder, journal), []
        sys.stdout.write(f"{journal.n_decisions}\n")
        for batch in rows[journal.n_decisions :].iter_slices(BATCH):
            texts = texts_of(batch)
            waiting.append(entries_of(known.take(batch, texts), texts))
            if len(waiting) > 1:
                write(journal, known, waiting.pop(0))
        for entries in waiting:
            write(journal, known, entries)


def write(journal: Journal, known: KnownPayments, entries: list[Entry]) -> None:
    journal.write(entries)
    known.decided([entry.payment_id for entry in entries])
    sys.stdout.write(f"{journal.n_decisions}\n")
    sys.stdout.flush()
