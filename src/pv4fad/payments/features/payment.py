"""The payment network's features: numbers about a message and about what preceded it.

    compute_features(transactions, history) → FeatureTable

What 'earlier' means is the same in training and in scoring: strictly smaller timestamp, among the
given rows and the rows of `history`.  Rows with equal timestamps do not see each other.  So a
feature of a row never changes when later rows arrive, and training rows look as rows to be scored
will.  There is no label among the inputs and no NaN among the outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.payments.features.graph import (
    GRAPH_MEANINGS,
    HOUR,
    Feature,
    GraphRows,
    graph_features,
)
from pv4fad.tables.earlier import (
    AskedRows,
    EarlierTotals,
    Integers,
    column_codes,
    group_codes,
    time_ranks,
)
from pv4fad.tables.features import FeatureTable, empty_table, microseconds, put_column
from pv4fad.tables.sides import first_and_last
from pv4fad.workers import available_cores

Floats = NDArray[np.float64]

_MESSAGE_MEANINGS: dict[str, str] = {
    "settlement_delay_days": "settlement date minus date of the message, in days",
    "sender_delay_share": "share of the sender's earlier messages with this delay",
    "currency_mismatch": "1 where settlement and instructed currency differ",
    "log_amount": "natural logarithm of the settlement amount",
    "log_amount_ratio": "logarithm of settlement amount over instructed amount",
    "amount_z": "log amount against earlier messages of this sender and settlement currency, in "
    "standard deviations",
    "hour": "hour of the day of the message",
    "sender_hour_share": "share of the sender's earlier messages in this hour of the day",
    "sender_currency_share": "share of the sender's earlier messages in this settlement currency",
    "sender_exchange_share": "share of the sender's earlier messages with this pair of instructed "
    "and settlement currency",
    "corridor_share": "share of the sender's earlier messages to this receiver",
    "sender_seen": "earlier messages of the sender",
    "receiver_seen": "earlier messages to the receiver",
    "legs_seen": "earlier messages of this payment (UETR)",
    "account_pair_seen": "earlier messages from this ordering to this beneficiary account",
    "ordering_account_seen": "earlier messages of this ordering account",
    "beneficiary_account_seen": "earlier messages to this beneficiary account",
    "reference_seen": "earlier messages with this transaction reference",
    "ordering_name_missing": "1 where the ordering name is blank",
    "ordering_identity_share": "share of the ordering account's earlier messages with this name "
    "and address",
    "beneficiary_name_missing": "1 where the beneficiary name is blank",
    "beneficiary_identity_share": "share of the beneficiary account's earlier messages with this "
    "name and address",
}
FEATURE_MEANINGS: dict[str, str] = _MESSAGE_MEANINGS | GRAPH_MEANINGS

INPUT_COLUMNS = (
    "MessageId",
    "Timestamp", "UETR", "Sender", "Receiver", "TransactionReference",
    "OrderingAccount", "OrderingName", "OrderingStreet", "OrderingCountryCityZip",
    "BeneficiaryAccount", "BeneficiaryName", "BeneficiaryStreet", "BeneficiaryCountryCityZip",
    "SettlementDate", "SettlementCurrency", "SettlementAmount",
    "InstructedCurrency", "InstructedAmount",
)  # fmt: skip

_SIDES = ("Ordering", "Beneficiary")
_CURRENCY_COLUMNS = ("SettlementCurrency", "InstructedCurrency")
_IDENTITY = ("Name", "Street", "CountryCityZip")
_CODED_COLUMNS = (
    "Sender", "Receiver", "UETR", "TransactionReference", *_CURRENCY_COLUMNS,
    *(f"{side}{part}" for side in _SIDES for part in _IDENTITY),
)  # fmt: skip
_SMALLEST_AMOUNT = 0.01
# Log amounts enter sums as whole multiples of 2^-14: exact, and squares of 10^7 rows fit 64 bits.
_LOG_UNIT = 2.0**-14
# A sender and currency without history is taken to spread by one log unit (a factor of e), with the
# weight of five messages: the first few amounts of a group then have no extreme scores.
_PRIOR_VARIANCE, _PRIOR_WEIGHT = 1.0, 5.0


def compute_features(
    transactions: pl.DataFrame, history: pl.DataFrame | None = None
) -> FeatureTable:
    """The features of `transactions` (schema types), which continue from the rows of `history`."""
    rows = transactions.select(INPUT_COLUMNS)
    n_history = 0
    if history is not None:
        n_history = history.height
        rows = pl.concat([history.select(INPUT_COLUMNS), rows])
    columns = _Columns(rows, n_history)
    position = {name: number for number, name in enumerate(FEATURE_MEANINGS)}
    values = empty_table(transactions.height, len(position))

    def put(features: Iterator[Feature]) -> None:
        for name, found in features:
            put_column(values, position[name], found)

    # Sorting and looking up let other threads run meanwhile.
    with ThreadPoolExecutor(available_cores()) as threads:
        graph = threads.submit(graph_features, columns.graph_rows(), n_history)
        own = [_sender_features(columns), _repetition(columns)]
        parts = [threads.submit(put, part) for part in own]
        parts += [threads.submit(put, part) for part in graph.result()]
        put(iter(Messages(transactions).features().items()))
        for part in parts:
            part.result()
    return FeatureTable(tuple(position), values)


class Messages:
    """What messages say about themselves."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.rows = rows
        hours = microseconds(rows["Timestamp"]) // HOUR
        self.hour = hours % 24
        self.delay_days = rows["SettlementDate"].to_numpy().astype(np.int64) - hours // 24
        self.log_amount = _logs(rows["SettlementAmount"])

    @property
    def log_units(self) -> Integers:
        """Log amounts as they enter sums."""
        return np.rint(self.log_amount / _LOG_UNIT).astype(np.int64)

    def features(self) -> dict[str, NDArray[np.generic]]:
        """That do not depend on other messages."""
        # Without a query: beside other busy threads it takes as long as hundreds of rows.
        settled, instructed = (self.rows[name].cast(pl.String) for name in _CURRENCY_COLUMNS)
        return {
            "settlement_delay_days": self.delay_days,
            "log_amount": self.log_amount,
            "log_amount_ratio": self.log_amount - _logs(self.rows["InstructedAmount"]),
            "hour": self.hour,
            "currency_mismatch": settled.ne_missing(instructed).to_numpy(),
            **{
                f"{side.lower()}_name_missing": self.rows[f"{side}Name"].is_null().to_numpy()
                for side in _SIDES
            },
        }


def _logs(amounts: pl.Series) -> Floats:
    result: Floats = np.log(np.maximum(amounts.to_numpy(), _SMALLEST_AMOUNT))
    return result


class _Columns(Messages):
    """The input columns as codes, each made once; about rows after `n_history` is asked."""

    def __init__(self, rows: pl.DataFrame, n_history: int) -> None:
        super().__init__(rows)
        self.asked = slice(n_history, None)
        self._time = time_ranks(rows["Timestamp"])
        self._rows = AskedRows(self._time, n_history)
        # One column of both sides: an account has the same code whether it pays or is paid.
        names = [f"{side}Account" for side in _SIDES]
        columns = [*(rows[name] for name in _CODED_COLUMNS), pl.concat([rows[n] for n in names])]
        with ThreadPoolExecutor(available_cores()) as threads:
            *codes, accounts = threads.map(column_codes, columns)
        self._codes = dict(zip(_CODED_COLUMNS, codes, strict=True))
        self._codes |= zip(names, accounts.reshape(len(names), -1), strict=True)

    def code(self, name: str) -> Integers:
        return self._codes[name]

    def earlier(self, *names: str) -> EarlierTotals:
        """The strictly earlier rows that agree in these columns."""
        return self.earlier_by(*(self.code(name) for name in names))

    def earlier_by(self, *codes: Integers) -> EarlierTotals:
        return self._rows.earlier(group_codes(*codes))

    def graph_rows(self) -> GraphRows:
        # Of legs at the same time one, as in routing.
        payment = self.code("UETR")
        first, _ = first_and_last(payment, self._time, self.rows["MessageId"])
        return GraphRows(
            self.rows["Timestamp"].to_physical().to_numpy().astype(np.int64),
            payment,
            first[payment] == np.arange(len(payment)),
            self.code("OrderingAccount"),
            self.code("BeneficiaryAccount"),
            self.rows["SettlementAmount"].to_numpy(),
        )


def _sender_features(columns: _Columns) -> Iterator[Feature]:
    sender = columns.code("Sender")
    seen = columns.earlier("Sender").count()

    def habit(*codes: Integers) -> Floats:
        return share(columns.earlier_by(sender, *codes).count(), seen)

    yield "sender_seen", seen
    yield "receiver_seen", columns.earlier("Receiver").count()
    yield "sender_delay_share", habit(columns.delay_days - columns.delay_days.min(initial=0))
    yield "sender_hour_share", habit(columns.hour)
    yield "corridor_share", habit(columns.code("Receiver"))
    currency = columns.code("SettlementCurrency")
    yield "sender_exchange_share", habit(currency, columns.code("InstructedCurrency"))
    by_currency, units = columns.earlier_by(sender, currency), columns.log_units
    n_seen = by_currency.count()
    yield "sender_currency_share", share(n_seen, seen)
    sums = by_currency.sum(units), by_currency.sum(units * units)
    yield "amount_z", standard_score(columns.log_amount[columns.asked], n_seen, *sums)


def share(part: Integers, whole: Integers) -> Floats:
    """Of the earlier messages, as features have it."""
    # With one imagined message more: the share without evidence is 1, and the less a sender or an
    # account has been seen, the less unusual its next message can look.
    result: Floats = (part + 1.0) / (whole + 1.0)
    return result


def standard_score(values: Floats, n: Integers, sums: Integers, squares: Integers) -> Floats:
    """Log amounts against `n` earlier ones, whose `log_units` and their squares have these sums."""
    n_seen = n.astype(np.float64)
    mean = sums * _LOG_UNIT / np.maximum(n_seen, 1.0)
    # Rounding can leave the sum of squared deviations a little below zero.
    deviations = np.maximum(squares * _LOG_UNIT**2 - n_seen * mean * mean, 0.0)
    variance = (deviations + _PRIOR_WEIGHT * _PRIOR_VARIANCE) / (n_seen + _PRIOR_WEIGHT)
    score: Floats = np.where(n > 0, (values - mean) / np.sqrt(variance), 0.0)
    return score


def _repetition(columns: _Columns) -> Iterator[Feature]:
    yield "legs_seen", columns.earlier("UETR").count()
    yield "account_pair_seen", columns.earlier("OrderingAccount", "BeneficiaryAccount").count()
    yield "reference_seen", columns.earlier("TransactionReference").count()
    for side in _SIDES:
        account = f"{side}Account"
        seen = columns.earlier(account).count()
        identity = (f"{side}{part}" for part in _IDENTITY)
        same_identity = columns.earlier(account, *identity).count()
        yield f"{side.lower()}_account_seen", seen
        yield f"{side.lower()}_identity_share", share(same_identity, seen)
