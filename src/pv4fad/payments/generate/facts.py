"""The published figures, beside what a generated data set gives for them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from pv4fad.payments.generate.calibration import FLAGGED_PER_CODE_BASE, MAJOR_CURRENCIES
from pv4fad.payments.generate.leakcheck import bank_columns
from pv4fad.payments.generate.tables import GeneratedTables
from pv4fad.payments.schema import LABEL, NO_FLAG

_N_SHARES = 7


@dataclass(frozen=True)
class Fact:
    """One figure; `published` is about the original, at its own size and with its 25 banks."""

    name: str
    published: str
    here: str


def calibration_facts(tables: GeneratedTables) -> tuple[Fact, ...]:
    """All figures, over training and test data together unless the name says otherwise."""
    train, test = tables.train.transactions, tables.test.transactions
    rows = pl.concat([train, test])
    accounts = pl.concat(tables.accounts.values())
    return (
        Fact("training messages, of all", "86.9 %", _percent(train.height / rows.height)),
        Fact("anomalous, training", "0.104 %", _percent(_mean(train[LABEL]), 3)),
        Fact("anomalous, test", "0.108 %", _percent(_mean(test[LABEL]), 3)),
        *_account_facts(rows, accounts),
        *_traffic_facts(rows),
        *_bank_facts(rows, accounts),
    )


def _account_facts(rows: pl.DataFrame, accounts: pl.DataFrame) -> tuple[Fact, ...]:
    receiving, ordering = (
        rows[f"{side}Account"].n_unique() for side in ("Beneficiary", "Ordering")
    )
    per_code = accounts.filter(pl.col("Flags") != NO_FLAG)["Flags"].value_counts()["count"]
    scale = FLAGGED_PER_CODE_BASE / accounts.height
    low, mean, high = (scale * bound for bound in _low_mean_high(per_code))
    return (
        Fact("accounts per 1,000 messages", "97.7", f"{1000 * accounts.height / rows.height:.1f}"),
        Fact("accounts that receive, of all", "43.2 %", _percent(receiving / accounts.height)),
        Fact("accounts that order, of all", "62.5 %", _percent(ordering / accounts.height)),
        Fact("messages per receiving account", "23.7", f"{rows.height / receiving:.1f}"),
        Fact(
            "flagged per code, of 527,503 accounts",
            "50 to 64, mean 58",
            f"{low:.0f} to {high:.0f}, mean {mean:.0f}",
        ),
    )


def _traffic_facts(rows: pl.DataFrame) -> tuple[Fact, ...]:
    gaps = rows.select(
        pl.col("Timestamp").sort().diff().dt.total_minutes().over("UETR").alias("minutes")
    )["minutes"]
    legs = rows["UETR"].value_counts()["count"].to_numpy()
    currency = dict(rows["SettlementCurrency"].value_counts(normalize=True).iter_rows())
    minor = rows.filter(~pl.col("SettlementCurrency").cast(pl.String).is_in(MAJOR_CURRENCIES))
    senders = rows["Sender"].value_counts(sort=True, normalize=True)["proportion"]
    return (
        Fact("days", "23", str(rows["Timestamp"].dt.date().n_unique())),
        Fact("senders", "16", str(rows["Sender"].n_unique())),
        Fact("receivers", "27", str(rows["Receiver"].n_unique())),
        Fact("legs per payment", "1 to 3", f"{legs.min()} to {legs.max()}"),
        Fact("minutes between legs, mean", "about 60", f"{_mean(gaps):.0f}"),
        Fact(
            "senders' shares, %",
            "41.8 15.0 11.3 11.0 7.7 5.8 1.7",
            " ".join(f"{100 * share:.1f}" for share in senders[:_N_SHARES]),
        ),
        Fact(
            "EUR USD GBP JPY, %",
            "50 32 16 1.6",
            " ".join(f"{100 * currency.get(code, 0.0):.3g}" for code in MAJOR_CURRENCIES),
        ),
        Fact("anomalous in other currencies", "all", f"{_count(minor[LABEL])} of {minor.height}"),
    )


def _bank_facts(rows: pl.DataFrame, accounts: pl.DataFrame) -> tuple[Fact, ...]:
    known = bank_columns(rows, accounts)
    flagged = known["beneficiary flag"] != NO_FLAG
    touched = flagged | (known["ordering flag"] != NO_FLAG)
    anomalous = rows[LABEL] == 1
    n_anomalous = max(_count(anomalous), 1)

    def share(condition: pl.Series) -> str:
        return _percent(_count(condition & anomalous) / n_anomalous)

    normal_touched = _count(touched & ~anomalous) / max(_count(~anomalous), 1)
    return (
        Fact("anomalies with flagged beneficiary", "16.3 %", share(flagged)),
        Fact(
            "anomalies with absent beneficiary",
            "2.3 %",
            share(known["beneficiary account absent"] == 1),
        ),
        Fact(
            "anomalies with absent ordering account",
            "2.1 %",
            share(known["ordering account absent"] == 1),
        ),
        Fact("normal messages with flagged account", "0 %", _percent(normal_touched, 2)),
    )


def _low_mean_high(counts: pl.Series) -> tuple[float, float, float]:
    values = counts.to_numpy()
    return float(values.min()), float(values.mean()), float(values.max())


def _count(condition: pl.Series) -> int:
    return int(condition.sum())


def _mean(values: pl.Series) -> float:
    return float(values.to_frame().select(pl.first().mean().fill_null(0.0)).item())


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"
