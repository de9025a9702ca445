"""What a split of a challenge folder holds, in a few numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from pv4fad.payments.loading import ACCOUNT_KEY, PartitionTables
from pv4fad.payments.schema import ACCOUNT_SCHEMA, FLAG_CODES, LABEL, SCHEMA
from pv4fad.tables.sides import Sides


@dataclass(frozen=True)
class PartitionSummary:
    """Counts and rates over one split."""

    n_transactions: int
    first_timestamp: datetime
    last_timestamp: datetime
    n_payments: int
    n_multi_leg_payments: int
    n_senders: int
    n_receivers: int
    n_anomalous: int | None  # None: no labels
    n_bank_files: int
    n_banks: int
    n_accounts: int
    accounts_by_flag: Mapping[str, int]
    ordering_join_rate: float  # share of the transactions whose account is in its bank's file
    beneficiary_join_rate: float
    institutions_without_accounts: Mapping[str, int]  # BIC → transactions it sends or receives
    notes: tuple[str, ...]  # what was dropped or ignored on loading
    accounts_by_class: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Client id → class → accounts, of the banks whose classes are not just their flags."""

    @property
    def label_rate(self) -> float | None:
        return None if self.n_anomalous is None else self.n_anomalous / self.n_transactions


def summarise(tables: PartitionTables) -> PartitionSummary:
    """Summarise a loaded split; routes every transaction to see which accounts are found."""
    transactions = tables.transactions.frame
    accounts = pl.concat(
        [pl.DataFrame(schema=ACCOUNT_SCHEMA), *(t.frame for t in tables.accounts.values())]
    )
    counts = transactions.select(
        first=pl.col("Timestamp").min(),
        last=pl.col("Timestamp").max(),
        senders=pl.col("Sender").n_unique(),
        receivers=pl.col("Receiver").n_unique(),
    ).row(0, named=True)
    legs = transactions["UETR"].value_counts()["count"]
    labelled = tables.transactions.has_labels
    ordering, beneficiary = Sides(SCHEMA, transactions).side_keys()
    reports = [tables.transactions.report, *(t.report for t in tables.accounts.values())]
    return PartitionSummary(
        n_transactions=transactions.height,
        first_timestamp=counts["first"],
        last_timestamp=counts["last"],
        n_payments=len(legs),
        n_multi_leg_payments=int((legs > 1).sum()),
        n_senders=counts["senders"],
        n_receivers=counts["receivers"],
        n_anomalous=int(transactions[LABEL].sum()) if labelled else None,
        n_bank_files=len(tables.accounts),
        n_banks=accounts["Bank"].n_unique(),
        n_accounts=accounts.height,
        accounts_by_flag=_accounts_by_flag(accounts),
        ordering_join_rate=_join_rate(ordering, accounts),
        beneficiary_join_rate=_join_rate(beneficiary, accounts),
        institutions_without_accounts=_institutions_without_accounts(transactions, accounts),
        notes=tuple(note for report in reports for note in report.notes()),
    )


def _accounts_by_flag(accounts: pl.DataFrame) -> dict[str, int]:
    found = dict(accounts["Flags"].value_counts().iter_rows())
    return {code: found.get(code, 0) for code in FLAG_CODES}


def _join_rate(keys: pl.DataFrame, accounts: pl.DataFrame) -> float:
    # Many transactions per account: join the distinct accounts, weighted by their transactions.
    used = keys.group_by("Holder", "Id").len()
    known = accounts.select(pl.col("Bank").cast(pl.String), "Account")
    found = used.join(known, left_on=["Holder", "Id"], right_on=list(ACCOUNT_KEY), how="semi")
    return int(found["len"].sum()) / keys.height


def _institutions_without_accounts(
    transactions: pl.DataFrame, accounts: pl.DataFrame
) -> dict[str, int]:
    corridors = transactions.group_by("Sender", "Receiver").len()
    sending = corridors.select("len", Bank="Sender")
    # A transaction within one institution is one transaction.
    receiving = corridors.filter(pl.col("Sender") != pl.col("Receiver")).select(
        "len", Bank="Receiver"
    )
    without = (
        pl.concat([sending, receiving])
        .group_by("Bank")
        .agg(pl.col("len").sum())
        .join(accounts, on="Bank", how="anti")
        .with_columns(pl.col("Bank").cast(pl.String))
        .sort("len", "Bank", descending=[True, False])
        .select("Bank", "len")
    )
    return dict(without.iter_rows())
