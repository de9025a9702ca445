"""Leak check: how much of the labels a single column gives away.

For every raw column and every obvious derived one: the average precision of ranking all rows by it
alone.  Numbers are tried in both directions.  Text is ranked by how often its value occurs, in both
directions, and, where it has few values, also by how often each is anomalous: no ranking by that
column can be better.  A column is a leak above `LEAK_LIMIT`; in `challenge` a bank's flag may be,
because there it is the label's cause.

Derived columns are what anyone would derive from the raw ones first.  Unlike the payment network's
features they look at the whole data set at once, past and future, as a search for leaks would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.payments.features import compute_features
from pv4fad.payments.generate.tables import Difficulty, GeneratedTables
from pv4fad.payments.schema import LABEL, NO_FLAG, TRANSACTION_COLUMNS
from pv4fad.tables.earlier import column_codes

_delay = (pl.col("SettlementDate") - pl.col("Timestamp").dt.date()).dt.total_days()
_hour = pl.col("Timestamp").dt.hour()
_log_amount = pl.col("SettlementAmount").log()
_sender_currency = ("Sender", "SettlementCurrency")
_amount_score = (_log_amount - _log_amount.mean().over(_sender_currency)) / (
    _log_amount.std().over(_sender_currency).fill_null(1.0) + 1e-9
)


def _frequency(*columns: str | pl.Expr) -> pl.Expr:
    return pl.len().over(columns)


def _share_within(account: str, column: str) -> pl.Expr:
    """How often this account shows this value, among all its rows."""
    return _frequency(account, column) / _frequency(account)


DERIVED_COLUMNS: dict[str, pl.Expr] = {
    "row number": pl.int_range(pl.len()),
    "day": pl.col("Timestamp").dt.day(),
    "minute": pl.col("Timestamp").dt.minute(),
    "distance of settlement delay from 0": _delay.abs(),
    "frequency of sender and delay": _frequency("Sender", _delay),
    "amount score, sender and currency": _amount_score,
    "distance of amount score from 0": _amount_score.abs(),
    "settled over instructed amount": pl.col("SettlementAmount") / pl.col("InstructedAmount"),
    "cents of the amount": (pl.col("SettlementAmount") * 100).round() % 100,
    "frequency of currency pair": _frequency("SettlementCurrency", "InstructedCurrency"),
    "frequency of sender and currency": _frequency(*_sender_currency),
    "frequency of sender and hour": _frequency("Sender", _hour),
    "frequency of corridor": _frequency("Sender", "Receiver"),
    "frequency of account pair": _frequency("OrderingAccount", "BeneficiaryAccount"),
    "legs of the payment": _frequency("UETR"),
    "minutes since the payment's first leg": (
        pl.col("Timestamp") - pl.col("Timestamp").min().over("UETR")
    ).dt.total_minutes(),
    "share of the ordering name": _share_within("OrderingAccount", "OrderingName"),
    "share of the beneficiary name": _share_within("BeneficiaryAccount", "BeneficiaryName"),
    "share of the ordering street": _share_within("OrderingAccount", "OrderingStreet"),
    "share of the beneficiary street": _share_within("BeneficiaryAccount", "BeneficiaryStreet"),
    "banks in one country": (
        pl.col("Sender").cast(pl.String).str.slice(4, 2)
        == pl.col("Receiver").cast(pl.String).str.slice(4, 2)
    ).cast(pl.Int8),
}


BANK_COLUMNS = (
    "ordering flag", "ordering account absent",
    "beneficiary flag", "beneficiary account absent",
    "flagged or absent, either side",
)  # fmt: skip


def bank_columns(rows: pl.DataFrame, accounts: pl.DataFrame) -> dict[str, pl.Series]:
    """`BANK_COLUMNS`: flags of both accounts of a row, and whether the accounts are there at all.

    Looked up at the bank where the account belongs: the sender of the first leg of the payment, the
    receiver of its last.
    """
    in_time = pl.col("Timestamp")
    keys = rows.select(
        "OrderingAccount",
        "BeneficiaryAccount",
        OrderingBank=pl.col("Sender").sort_by(in_time).first().over("UETR"),
        BeneficiaryBank=pl.col("Receiver").sort_by(in_time).last().over("UETR"),
    )
    columns: dict[str, pl.Series] = {}
    conspicuous = pl.repeat(0, rows.height, dtype=pl.Int8, eager=True)
    for side in ("Ordering", "Beneficiary"):
        record = accounts.select(
            pl.col("Bank").alias(f"{side}Bank"),
            pl.col("Account").alias(f"{side}Account"),
            Flag=pl.col("Flags").cast(pl.String),
        )
        flag = keys.join(
            record, on=[f"{side}Bank", f"{side}Account"], how="left", maintain_order="left"
        )["Flag"]
        columns[f"{side.lower()} flag"] = flag.fill_null(NO_FLAG)
        columns[f"{side.lower()} account absent"] = flag.is_null().cast(pl.Int8)
        conspicuous |= (flag.fill_null("absent") != NO_FLAG).cast(pl.Int8)
    columns["flagged or absent, either side"] = conspicuous
    return columns


LEAK_LIMIT = 0.35
_FEW_VALUES = 100

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnLeak:
    """The best average precision that a ranking by one column reaches."""

    column: str
    ranking: str
    average_precision: float


def leak_check(tables: GeneratedTables) -> tuple[ColumnLeak, ...]:
    """All columns of the data set, training and test together, most telling first."""
    rows = pl.concat([tables.train.transactions, tables.test.transactions])
    accounts = pl.concat(tables.accounts.values())
    label = rows[LABEL].to_numpy().astype(np.float64)
    found = [_best(column, rankings, label) for column, rankings in _columns(rows, label, accounts)]
    return tuple(sorted(found, key=lambda leak: -leak.average_precision))


def unexpected_leaks(
    leaks: tuple[ColumnLeak, ...], difficulty: Difficulty
) -> tuple[ColumnLeak, ...]:
    """The columns above the limit that must not be."""
    allowed = BANK_COLUMNS if difficulty is Difficulty.CHALLENGE else ()
    return tuple(
        leak for leak in leaks if leak.average_precision > LEAK_LIMIT and leak.column not in allowed
    )


def average_precisions(score: Numbers, label: Numbers) -> tuple[float, float]:
    """Average precision of ranking by `score`, highest first and lowest first.

    Rows of equal score are one step: no order among them is assumed.
    """
    order = np.argsort(score)
    ordered = score[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    positives = np.diff(np.cumsum(label[order])[ends], prepend=0.0)
    sizes = np.diff(ends, prepend=-1)
    upward = _precision_of_steps(positives[::-1], sizes[::-1])
    return upward, _precision_of_steps(positives, sizes)


def _precision_of_steps(positives: Numbers, sizes: NDArray[np.int64]) -> float:
    found = np.cumsum(positives)
    return float((positives * found / np.cumsum(sizes)).sum() / max(found[-1], 1.0))


def _best(column: str, rankings: dict[str, Numbers], label: Numbers) -> ColumnLeak:
    leaks = []
    for name, score in rankings.items():
        high, low = average_precisions(score, label)
        leaks += [ColumnLeak(column, f"high {name}", high), ColumnLeak(column, f"low {name}", low)]
    return max(leaks, key=lambda leak: leak.average_precision)


def _columns(
    rows: pl.DataFrame, label: Numbers, accounts: pl.DataFrame
) -> Iterator[tuple[str, dict[str, Numbers]]]:
    """Every column with the rankings to try, one at a time to save memory."""
    for column in (c.name for c in TRANSACTION_COLUMNS if c.name != LABEL):
        yield column, _rankings(rows[column], label)
    for name, expression in DERIVED_COLUMNS.items():
        yield name, _rankings(rows.select(expression.alias(name))[name], label)
    for name, values in bank_columns(rows, accounts).items():
        yield name, _rankings(values, label)
    features = compute_features(rows)
    for position, name in enumerate(features.names):
        yield name, {"value": features.values[:, position].astype(np.float64)}


def _rankings(values: pl.Series, label: Numbers) -> dict[str, Numbers]:
    if values.dtype.is_numeric() or values.dtype.is_temporal():
        return {"value": values.to_physical().cast(pl.Float64).to_numpy()}
    code = column_codes(values)
    count = np.bincount(code)
    rankings = {"frequency": count[code].astype(np.float64)}
    if np.count_nonzero(count) <= _FEW_VALUES:
        rate = np.bincount(code, label) / np.maximum(count, 1)
        rankings["value's anomaly rate"] = rate[code]
    if values.dtype == pl.String:
        rankings["alphabet"] = values.rank("dense").fill_null(0).cast(pl.Float64).to_numpy()
    return rankings
