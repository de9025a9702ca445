"""Load transactions and accounts into typed, checked tables; nothing is left out silently.

A file with bad rows is refused with one DataError that has a line for each problem: file, column,
number of bad rows, an example.  Who passes on_bad_rows="drop" gets the good rows, and the number
of dropped rows per reason in the table's report.  Of messages with the same MessageId the first is
good; of an account listed with different flags no listing is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from pv4fad.errors import DataError
from pv4fad.payments.challenge import read_partition
from pv4fad.payments.iso20022.labels import labels_beside, labels_name, with_labels
from pv4fad.payments.iso20022.messages import is_messages, read_messages
from pv4fad.payments.schema import ACCOUNT_COLUMNS, LABEL, TRANSACTION_COLUMNS
from pv4fad.rules import Rules
from pv4fad.schema import Schema
from pv4fad.tables.parsing import Check
from pv4fad.tables.several import Several
from pv4fad.tables.sheet import OnBadRows, read_sheet
from pv4fad.tables.source import LoadReport

ACCOUNT_KEY = ("Bank", "Account")


@dataclass(frozen=True)
class TransactionTable:
    """The payment network's transactions: TRANSACTION_SCHEMA, in the order of the file.

    Label is absent if the file has none and labels were not required.
    """

    frame: pl.DataFrame
    report: LoadReport

    @property
    def has_labels(self) -> bool:
        return LABEL in self.frame.columns


@dataclass(frozen=True)
class AccountTable:
    """A bank's accounts: ACCOUNT_SCHEMA, each (Bank, Account) once, in the order of the file."""

    frame: pl.DataFrame
    report: LoadReport


@dataclass(frozen=True)
class PartitionTables:
    """One split of a scenario: the payment network's table, and each bank's by client id."""

    transactions: TransactionTable
    accounts: Mapping[str, AccountTable]


def load_transactions(
    source: Any,
    *,
    labels_required: bool,
    on_bad_rows: OnBadRows = "raise",
    labels: Path | None = None,
    after_rows: Callable[[int], object] = lambda _: None,
) -> TransactionTable:
    """Load the payment network's table: a .csv or .parquet file (a Path), or a frame; or pacs.008,
    .xml, .xml.gz or a folder.

    `labels`: the file with the labels of a table that has none; for messages the one beside them.
    """
    if isinstance(source, Path) and is_messages(source):
        sheet = read_messages(source, after_rows=after_rows)
        labels = labels or labels_beside(source)
        if labels is None and labels_required:
            raise DataError(
                f"{source}: messages carry no labels; put them beside it, into"
                f" {labels_name(source)} with the columns MessageId or UETR, and {LABEL}"
            )
    else:
        optional = () if labels_required and labels is None else (LABEL,)
        sheet = read_sheet(source, TRANSACTION_COLUMNS, optional, name="the rows")
    if labels is not None:
        sheet = with_labels(sheet, labels)
    # Among the good rows only: a bad row must not make a good one with its id a repetition.
    ids = sheet.rows.select(pl.when(~sheet.bad_rows()).then("MessageId")).to_series()
    repeated = ids.is_not_null() & ~ids.is_first_distinct()
    sheet = sheet.with_check(Check("MessageId", "a duplicate MessageId"), repeated)
    return TransactionTable(*sheet.settle(on_bad_rows))


def load_accounts(
    source: Any,
    *,
    on_bad_rows: OnBadRows = "raise",
    further_columns: Sequence[str] = (),
    name: str = "the accounts",
) -> AccountTable:
    """Load a bank's table: a .csv or .parquet file (a Path), or a frame, which errors call `name`.

    Listed twice with one flag, an account counts once.  `further_columns`: columns of the bank's
    own, for its rules; as they are stored.
    """
    sheet = read_sheet(source, ACCOUNT_COLUMNS, further=further_columns, name=name)
    flag = pl.col("Flags").to_physical()
    conflicting = (
        sheet.rows.with_columns(Flags=pl.when(~sheet.bad_rows()).then("Flags"))
        .select(flag.is_not_null() & (flag.min().over(ACCOUNT_KEY) < flag.max().over(ACCOUNT_KEY)))
        .to_series()
        .fill_null(value=False)
    )
    sheet = sheet.with_check(
        Check("Flags", "a duplicate account with conflicting flags"), conflicting
    )
    for column in further_columns:
        differs = pl.col(column).n_unique().over(ACCOUNT_KEY) > 1
        sheet = sheet.with_check(
            Check(column, "a duplicate account with conflicting values"),
            sheet.rows.select(differs).to_series(),
        )
    listed, report = sheet.settle(on_bad_rows)
    frame = listed.unique(ACCOUNT_KEY, keep="first", maintain_order=True)
    return AccountTable(frame, replace(report, n_repeated=listed.height - frame.height))


def load_account_classes(
    source: Any,
    schema: Schema,
    rules: Rules | None = None,
    *,
    name: str = "the accounts",
    on_bad_rows: OnBadRows = "raise",
) -> pl.DataFrame:
    """A bank's accounts with the class that its rules, or those of the schema, give them.

    Holder, Id, Class; the bank's other columns do not go on.
    """
    chosen = Rules(rules=schema.record.rules) if rules is None else rules
    chosen.check_classes(schema.record.classes)
    named = {column.name for column in ACCOUNT_COLUMNS}
    own = [name for name in chosen.columns if name not in named]
    frame = load_accounts(source, on_bad_rows=on_bad_rows, further_columns=own, name=name).frame
    try:
        classes = chosen.classes_of(frame, schema.record.classes)
    except DataError as error:
        raise DataError(f"{source if isinstance(source, Path) else name}: {error}") from None
    return frame.select(Holder=pl.col("Bank").cast(pl.String), Id="Account", Class=classes)


def load_partition(
    folder: Path,
    *,
    on_bad_rows: OnBadRows = "raise",
    after_file: Callable[[], object] = lambda: None,
) -> PartitionTables:
    """Load a split folder of the challenge layout; only data in a `test` folder may lack labels.

    Every file is read even if one is bad, so that the error names all problems.
    """
    partition, several = read_partition(folder), Several()
    accounts: dict[str, AccountTable] = {}
    for client, path in partition.accounts.items():
        with several.reading():
            accounts[client] = load_accounts(path, on_bad_rows=on_bad_rows)
        after_file()
    with several.reading():
        _refuse_shared_banks(accounts)
    with several.reading():
        transactions = load_transactions(
            partition.transactions,
            labels_required=partition.labels_required,
            on_bad_rows=on_bad_rows,
        )
    after_file()
    several.refuse()
    return PartitionTables(transactions, accounts)


def _refuse_shared_banks(accounts: Mapping[str, AccountTable]) -> None:
    """A BIC must not be in two clients' files: a payment is routed by BIC to one client."""
    owner: dict[str, AccountTable] = {}
    problems = []
    for table in accounts.values():
        for bic, n_accounts in table.frame.group_by("Bank").len().sort("Bank").iter_rows():
            if bic in owner:
                problems.append(
                    f"{table.report.source}: column Bank: BIC {bic}, accounts: {n_accounts:,}, "
                    f"is also in {owner[bic].report.source}; a bank's accounts belong in one file"
                )
            owner.setdefault(bic, table)
    if problems:
        raise DataError("\n".join(problems))
