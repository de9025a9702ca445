"""The payment network's features: numbers about a message and about what preceded it.

    compute_features(transactions, history) → FeatureTable

What 'earlier' means is the same in training and in scoring: strictly smaller timestamp, among the
given rows and the rows of `history`.  Rows with equal timestamps do not see each other.  So a
feature of a row never changes when later rows arrive, and training rows look as rows to be scored
will.  There is no label among the inputs and no NaN among the outputs.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.payments.features.graph import GRAPH_MEANINGS, GraphRows, graph_features
from pv4fad.tables.earlier import (
    EarlierRows,
    Integers,
    column_codes,
    group_codes,
    time_ranks,
)
from pv4fad.tables.features import FeatureTable

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

_INPUT_COLUMNS = (
    "MessageId",
    "Timestamp", "UETR", "Sender", "Receiver", "TransactionReference",
    "OrderingAccount", "OrderingName", "OrderingStreet", "OrderingCountryCityZip",
    "BeneficiaryAccount", "BeneficiaryName", "BeneficiaryStreet", "BeneficiaryCountryCityZip",
    "SettlementDate", "SettlementCurrency", "SettlementAmount",
    "InstructedCurrency", "InstructedAmount",
)  # fmt: skip

_SIDES = ("Ordering", "Beneficiary")
_CURRENCY_COLUMNS = ("SettlementCurrency", "InstructedCurrency")
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
    rows = transactions.select(_INPUT_COLUMNS)
    n_history = 0
    if history is not None:
        n_history = history.height
        rows = pl.concat([history.select(_INPUT_COLUMNS), rows])
    columns = _Columns(rows)
    values = np.empty((transactions.height, len(FEATURE_MEANINGS)), np.float32)
    computed = (
        _message_features(columns)
        | _sender_features(columns)
        | _repetition(columns)
        | graph_features(columns.graph_rows())
    )
    for position, name in enumerate(FEATURE_MEANINGS):
        values[:, position] = computed[name][n_history:]
    return FeatureTable(tuple(FEATURE_MEANINGS), values)


class _Columns:
    """The input columns as codes, each made once."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.rows = rows
        self.time = time_ranks(rows["Timestamp"])
        self.hour = rows["Timestamp"].dt.hour().cast(pl.Int64).to_numpy()
        delay = rows["SettlementDate"] - rows["Timestamp"].dt.date()
        self.delay_days = delay.dt.total_days().to_numpy()
        self._codes: dict[str, Integers] = {}

    def code(self, name: str) -> Integers:
        if name not in self._codes:
            self._codes[name] = column_codes(self.rows[name])
        return self._codes[name]

    def earlier(self, *names: str) -> EarlierRows:
        """The strictly earlier rows that agree in these columns."""
        return self.earlier_by(*(self.code(name) for name in names))

    def earlier_by(self, *codes: Integers) -> EarlierRows:
        return EarlierRows.of(group_codes(*codes), self.time)

    def logs(self, name: str) -> Floats:
        amounts = self.rows[name].to_numpy()
        result: Floats = np.log(np.maximum(amounts, _SMALLEST_AMOUNT))
        return result

    def graph_rows(self) -> GraphRows:
        # One column of both sides: an account has the same code whether it pays or is paid.
        accounts = column_codes(pl.concat([self.rows[f"{side}Account"] for side in _SIDES]))
        ordering, beneficiary = accounts.reshape(2, -1)
        # Of legs at the same time one, as in routing.
        first_leg = pl.col("row").sort_by("Timestamp", "MessageId").first().over("UETR")
        is_first_leg = self.rows.with_row_index("row").select(pl.col("row") == first_leg)
        return GraphRows(
            self.rows["Timestamp"].to_physical().to_numpy().astype(np.int64),
            self.code("UETR"),
            is_first_leg.to_series().to_numpy(),
            ordering,
            beneficiary,
            self.rows["SettlementAmount"].to_numpy(),
        )


def _message_features(columns: _Columns) -> dict[str, NDArray[np.generic]]:
    rows = columns.rows
    settled, instructed = (rows[name].cast(pl.String) for name in _CURRENCY_COLUMNS)
    log_amount = columns.logs("SettlementAmount")
    return {
        "settlement_delay_days": columns.delay_days,
        "currency_mismatch": settled.ne_missing(instructed).to_numpy(),
        "log_amount": log_amount,
        "log_amount_ratio": log_amount - columns.logs("InstructedAmount"),
        "hour": columns.hour,
        "ordering_name_missing": rows["OrderingName"].is_null().to_numpy(),
        "beneficiary_name_missing": rows["BeneficiaryName"].is_null().to_numpy(),
    }


def _sender_features(columns: _Columns) -> dict[str, NDArray[np.generic]]:
    sender = columns.code("Sender")
    seen = columns.earlier("Sender").count()

    def share(*codes: Integers) -> Floats:
        return _share(columns.earlier_by(sender, *codes).count(), seen)

    currency = columns.code("SettlementCurrency")
    by_currency = columns.earlier_by(sender, currency)
    delay = columns.delay_days - columns.delay_days.min(initial=0)
    return {
        "sender_seen": seen,
        "receiver_seen": columns.earlier("Receiver").count(),
        "sender_delay_share": share(delay),
        "sender_hour_share": share(columns.hour),
        "sender_currency_share": _share(by_currency.count(), seen),
        "sender_exchange_share": share(currency, columns.code("InstructedCurrency")),
        "corridor_share": share(columns.code("Receiver")),
        "amount_z": _standard_score(columns.logs("SettlementAmount"), by_currency),
    }


def _share(part: Integers, whole: Integers) -> Floats:
    # With one imagined message more: the share without evidence is 1, and the less a sender or an
    # account has been seen, the less unusual its next message can look.
    result: Floats = (part + 1.0) / (whole + 1.0)
    return result


def _standard_score(values: Floats, earlier: EarlierRows) -> Floats:
    units = np.rint(values / _LOG_UNIT).astype(np.int64)
    n = earlier.count().astype(np.float64)
    mean = earlier.sum(units) * _LOG_UNIT / np.maximum(n, 1.0)
    # Rounding can leave the sum of squared deviations a little below zero.
    squares = earlier.sum(units * units) * _LOG_UNIT**2
    deviations = np.maximum(squares - n * mean * mean, 0.0)
    variance = (deviations + _PRIOR_WEIGHT * _PRIOR_VARIANCE) / (n + _PRIOR_WEIGHT)
    score: Floats = np.where(n > 0, (values - mean) / np.sqrt(variance), 0.0)
    return score


def _repetition(columns: _Columns) -> dict[str, NDArray[np.generic]]:
    features: dict[str, NDArray[np.generic]] = {
        "legs_seen": columns.earlier("UETR").count(),
        "account_pair_seen": columns.earlier("OrderingAccount", "BeneficiaryAccount").count(),
        "reference_seen": columns.earlier("TransactionReference").count(),
    }
    for side in _SIDES:
        account = f"{side}Account"
        seen = columns.earlier(account).count()
        identity = (f"{side}Name", f"{side}Street", f"{side}CountryCityZip")
        same_identity = columns.earlier(account, *identity).count()
        features[f"{side.lower()}_account_seen"] = seen
        features[f"{side.lower()}_identity_share"] = _share(same_identity, seen)
    return features
