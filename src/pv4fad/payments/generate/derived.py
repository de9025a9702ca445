"""What anyone would derive from the raw columns first: candidates for a leak.

Unlike the payment network's features these look at the whole data set at once, past and future:
whoever searches for a leak would.
"""

from __future__ import annotations

import polars as pl

from pv4fad.payments.schema import NO_FLAG

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
