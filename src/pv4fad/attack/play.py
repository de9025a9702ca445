"""All attacks on a finished run, from its stores and data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from pv4fad.attack.epsilon import RELEASES, audit_of_run
from pv4fad.attack.findings import Attack, Finding
from pv4fad.attack.lab import lab_findings
from pv4fad.attack.network import (
    CountsView,
    by_bits,
    by_counts,
    knowing_all_others,
    known_accounts,
)
from pv4fad.attack.votes import by_votes
from pv4fad.errors import DataError
from pv4fad.lead.data import bank_directory, load_holders, load_rows
from pv4fad.lead.paper_model import stored_trees
from pv4fad.lead.rows import new_rows
from pv4fad.payments.challenge import read_partition
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.tables import account_key
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.schema import KEY_SEPARATOR, Schema
from pv4fad.store.sealing import RootKey
from pv4fad.verify.comparison import joined_classes
from pv4fad.verify.predictions import ScoredData
from pv4fad.workers import WorkerPool


@dataclass(frozen=True)
class Options:
    releases: int = RELEASES
    """Of the audit of ε."""
    worlds: int = 4
    """Runs of each of two worlds that banks and aggregator try to tell apart."""


def attack(
    runs: Sequence[RunFolder],
    splits: tuple[Path, Path],
    root_key: RootKey,
    options: Options,
    *,
    predictions: Path | None = None,
    pool: WorkerPool,
    report: Callable[[str], None] = lambda _: None,
) -> Attack:
    """The first run; the others are what the payment network knows besides.

    `splits`: what was trained on, what was scored.  `predictions`: needed for vote totals.
    """
    document = runs[0].require_finished()
    schema, parameters = document.data_schema, document.parameters
    records = load_holders(schema, splits[0], parameters.banks)
    findings: list[Finding] = []
    if parameters.mode == "counts":
        report("The {lead}: counts and answers ...")
        findings += _counts_and_bits(runs, schema, records, root_key)
    elif predictions is not None and parameters.mode == "sealed":
        report("The {lead}: vote totals ...")
        findings += _votes(
            runs[0], document, splits, records, predictions=predictions, root_key=root_key
        )
    if parameters.epsilon != "none":
        report(f"An audit of ε: {options.releases:,} releases in each of two worlds ...")
        findings.append(audit_of_run(parameters, options.releases))
    if options.worlds:
        report(f"{{Holders}} and aggregator: {2 * options.worlds} small runs of two worlds ...")
        findings += lab_findings(options.worlds, pool)
    return Attack(run_id=document.run_id, findings=tuple(findings))


def _counts_and_bits(
    runs: Sequence[RunFolder],
    schema: Schema,
    records: Mapping[str, pl.DataFrame],
    root_key: RootKey,
) -> list[Finding]:
    views: list[CountsView] = []
    findings: list[Finding] = []
    class_of: dict[bytes, int] = {}
    for number, run in enumerate(runs):
        document = run.require_finished()
        if document.data_schema.digest != schema.digest:
            raise DataError(f"{run.path}: a run with another schema")
        with run.stores([PAYMENT_NETWORK], root_key) as stores:
            store = stores[PAYMENT_NETWORK]
            views.append(CountsView.stored(store, document.parameters))
            if number == 0:
                class_of = classes_of(known_accounts(store, document.run_id), records)
                odd = {account: found != 0 for account, found in class_of.items()}
                findings += by_bits(store, document.run_id, odd)
    class_of |= classes_of({one for view in views for one in view.ids} - set(class_of), records)
    odd = {account: found != 0 for account, found in class_of.items()}
    findings.insert(0, by_counts(views, odd))
    alone = knowing_all_others(views, schema, class_of)
    return findings if alone is None else [*findings, alone]


def classes_of(accounts: set[bytes], records: Mapping[str, pl.DataFrame]) -> dict[bytes, int]:
    """The truth: the class of each account's record, -1 where there is none.

    Without those of institutions outside: no bank says anything about them.
    """
    inside = bank_directory(records)
    every = [
        (one, account_key(one, broadcast=KEY_SEPARATOR.encode() not in one))
        for one in sorted(accounts)
    ]
    ids = [one for one, (holder, _) in every if holder is None or holder in inside]
    keys = [key for _, key in every if key[0] is None or key[0] in inside]
    table = pl.DataFrame(keys, schema={"Holder": pl.String, "Id": pl.String}, orient="row")
    classes = joined_classes(table, records)
    return dict(zip(ids, classes.tolist(), strict=True))


def _votes(
    run: RunFolder,
    document: RunDocument,
    splits: tuple[Path, Path],
    records: Mapping[str, pl.DataFrame],
    *,
    predictions: Path,
    root_key: RootKey,
) -> list[Finding]:
    schema = document.data_schema
    scored = ScoredData.read(schema, splits[1], records, predictions, document.run_id)
    history = load_rows(schema, read_partition(splits[0]).transactions, labels_required=True)
    payments = new_rows(schema, scored.transactions, history)
    with run.stores([PAYMENT_NETWORK], root_key) as stores:
        trees = stored_trees(stores[PAYMENT_NETWORK], document.run_id)
    inside = bank_directory(records)
    at_holder = np.array([holder is None or holder in inside for holder, _ in payments.keys])
    odd = at_holder & (joined_classes(payments.key_table(), records) != 0)
    return list(by_votes(payments, trees, scored.predictions, odd))
