"""From payments to messages: one row per leg, in the columns of the challenge format."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from pv4fad.payments.generate.anomalies import KINDS, Marks
from pv4fad.payments.generate.calibration import (
    EXCHANGE_RATES,
    MAJOR_CURRENCIES,
    MINOR_CURRENCIES,
    PERIOD_DAYS,
    PERIOD_START,
    TRAINING_DAYS,
)
from pv4fad.payments.generate.institutions import Floats, Institutions, Integers
from pv4fad.payments.generate.payments import MAX_LEGS, MINUTES_PER_DAY, Edit, Payments
from pv4fad.payments.generate.text import message_ids, payment_ids, payment_references
from pv4fad.payments.schema import LABEL, TRANSACTION_SCHEMA

_CURRENCIES = MAJOR_CURRENCIES + MINOR_CURRENCIES
_LARGEST_CHARGE = 0.002  # share of the amount that each leg may take
_TRAINING_END = TRAINING_DAYS * MINUTES_PER_DAY


@dataclass(frozen=True)
class Messages:
    """Rows by time; `kinds` has one row per anomalous message."""

    transactions: pl.DataFrame
    kinds: pl.DataFrame


def make_messages(
    payments: Payments,
    marks: Marks,
    accounts: pl.DataFrame,
    institutions: Institutions,
    rng: np.random.Generator,
) -> tuple[Messages, Messages]:
    """Training and test messages, split by time."""
    starts = _within_one_split(payments)
    payment, leg = np.nonzero(np.arange(MAX_LEGS) < payments.legs[:, None])
    minute = starts[payment, leg]
    # Within a minute the order is random: it must not tell which payment was made up first.
    order = np.lexsort((rng.random(len(minute)), minute))
    rows = _Rows(minute[order], payment[order], leg[order])
    n_train = int(np.searchsorted(rows.minute, _TRAINING_END))
    ids = [message_ids("TR", n_train, rng), message_ids("TE", len(order) - n_train, rng)]
    label = marks.label[rows.payment, rows.leg]
    transactions = pl.DataFrame({"MessageId": pl.concat(ids)}).hstack(
        _columns(payments, accounts, institutions, rows, rng).with_columns(
            pl.Series(LABEL, label.astype(np.int8))
        )
    )
    anomalous = np.flatnonzero(label)
    kinds = _kinds(transactions["MessageId"].gather(anomalous), rows.payment[anomalous], marks)
    transactions = transactions.cast(TRANSACTION_SCHEMA)
    n_train_kinds = int(label[:n_train].sum())
    return (
        Messages(transactions[:n_train], kinds[:n_train_kinds]),
        Messages(transactions[n_train:], kinds[n_train_kinds:]),
    )


@dataclass(frozen=True)
class _Rows:
    """By message: when it is sent, and which leg of which payment it is."""

    minute: Integers
    payment: Integers
    leg: Integers


def _within_one_split(payments: Payments) -> Integers:
    """When each leg is sent, such that no payment is cut by the end of training or of the period.

    A cut payment would leave a training row whose beneficiary's bank is not known yet.
    """
    starts = payments.leg_starts()
    last = starts[np.arange(len(payments)), payments.legs - 1]
    for end in (_TRAINING_END, PERIOD_DAYS * MINUTES_PER_DAY):
        is_cut = (starts[:, 0] < end) & (last >= end)
        starts -= (is_cut * (last - end + 1))[:, None]
    return starts


def _columns(
    payments: Payments,
    accounts: pl.DataFrame,
    institutions: Institutions,
    rows: _Rows,
    rng: np.random.Generator,
) -> pl.DataFrame:
    """All columns but MessageId and Label."""
    minute, payment, leg = rows.minute, rows.payment, rows.leg
    bics, currencies = _categories(institutions.bics), _categories(_CURRENCIES)
    timestamp = np.datetime64(PERIOD_START, "m") + minute
    settlement = timestamp.astype("datetime64[D]") + payments.delay[payment]
    instructed, settled = _amounts(payments, payment, leg, rng)
    sides = [
        _side("Ordering", accounts, payments.ordering[payment],
              payments.ordering_holder[payment], payments.ordering_edit[payment]),
        _side("Beneficiary", accounts, payments.beneficiary[payment],
              payments.beneficiary_holder[payment], payments.beneficiary_edit[payment]),
    ]  # fmt: skip
    head = {
        "Timestamp": pl.Series(timestamp.astype("datetime64[us]")),
        "UETR": payment_ids(len(payments), rng).gather(payment),
        "Sender": bics.gather(payments.way[payment, leg]),
        "Receiver": bics.gather(payments.way[payment, leg + 1]),
        "TransactionReference": payment_references(payments.ordering, rng).gather(payment),
    }
    tail = {
        "SettlementDate": pl.Series(settlement),
        "SettlementCurrency": currencies.gather(payments.settled_currency[payment]),
        "SettlementAmount": settled,
        "InstructedCurrency": currencies.gather(payments.currency[payment]),
        "InstructedAmount": instructed,
    }
    return pl.concat([pl.DataFrame(head), *sides, pl.DataFrame(tail)], how="horizontal")


def _side(
    side: str, accounts: pl.DataFrame, account: Integers, holder: Integers, edit: Integers
) -> pl.DataFrame:
    """The four columns of one side, with the edits that some messages make to them."""
    frame = pl.DataFrame(
        {
            "account": accounts["Account"].gather(account),
            "name": accounts["Name"].gather(holder),
            "street": accounts["Street"].gather(holder),
            "city": accounts["CountryCityZip"].gather(holder),
        }
    )
    edited = np.flatnonzero(edit)
    code = pl.Series("edit", edit[edited])
    change = frame[edited].with_columns(code, pl.col("name", "street").cast(pl.String))
    name, street = pl.col("name"), pl.col("street")
    # A doubled second letter and a further digit before the house number: always a change.
    misspelt = name.str.replace(r"^(.)(.)", "${1}${2}${2}")
    change = change.select(
        name=pl.when(pl.col("edit") == Edit.NAME_BLANK)
        .then(None)
        .when(pl.col("edit") == Edit.NAME_EDITED)
        .then(misspelt)
        .otherwise(name)
        .cast(frame["name"].dtype),
        street=pl.when(pl.col("edit") == Edit.STREET_EDITED)
        .then("1" + street)
        .otherwise(street)
        .cast(frame["street"].dtype),
    )
    return frame.select(
        frame["account"].alias(f"{side}Account"),
        frame["name"].scatter(edited, change["name"]).alias(f"{side}Name"),
        frame["street"].scatter(edited, change["street"]).alias(f"{side}Street"),
        frame["city"].alias(f"{side}CountryCityZip"),
    )


def _amounts(
    payments: Payments, payment: Integers, leg: Integers, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Instructed amounts, the same in all legs, and settled ones, less with every leg."""
    rates = np.array([EXCHANGE_RATES[code] for code in _CURRENCIES])
    rate = rates[payments.settled_currency] / rates[payments.currency]
    instructed: Floats = np.maximum(np.exp(payments.log_amount), 0.01)
    charge = rng.uniform(0.0, _LARGEST_CHARGE, len(payments))
    settled = (instructed * rate)[payment] * (1.0 - charge[payment] * leg)
    return instructed.round(2)[payment], np.maximum(settled.round(2), 0.01)


def _kinds(ids: pl.Series, payment: Integers, marks: Marks) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "MessageId": ids,
            "Kind": pl.Series([str(kind) for kind in KINDS]).gather(marks.kind[payment]),
            "VisibleAtBank": marks.bank_sees_it[payment].astype(np.int8),
        }
    )


def _categories(texts: tuple[str, ...]) -> pl.Series:
    return pl.Series(texts).cast(pl.Categorical())
