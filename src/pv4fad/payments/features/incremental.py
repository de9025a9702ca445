"""The payment network's features, of messages that arrive a few at a time.

What `payment` defines, as counts of strictly earlier messages that agree in some columns, and sums
of log amounts by sender and currency.  The graph of payments is `incremental_graph`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError, ParameterError
from pv4fad.payments.features.incremental_graph import PaymentGraph
from pv4fad.payments.features.payment import (
    FEATURE_MEANINGS,
    INPUT_COLUMNS,
    Messages,
    share,
    standard_score,
)
from pv4fad.payments.schema import BENEFICIARY, ORDERING
from pv4fad.tables.earlier import Integers
from pv4fad.tables.features import FeatureTable, side_by_side
from pv4fad.tables.incremental.arrivals import Arrived, ArrivedLegs
from pv4fad.tables.incremental.at_rest import Arrays, joined, part_of
from pv4fad.tables.incremental.numbering import NUMBER_BITS, Numbering, keys
from pv4fad.tables.incremental.timed_sums import TimedSums

# What earlier messages have to agree in.
(
    _SENDER, _RECEIVER, _DELAY, _HOUR, _CURRENCY, _EXCHANGE, _CORRIDOR, _PAYMENT, _PAIR, _REFERENCE,
    _ORDERING, _ORDERING_IDENTITY, _BENEFICIARY, _BENEFICIARY_IDENTITY,
) = range(14)  # fmt: skip
_SIDES, _IDENTITY = ("Ordering", "Beneficiary"), ("Name", "Street", "CountryCityZip")
_TEXTS = (
    "Sender", "Receiver", "TransactionReference", "SettlementCurrency", "InstructedCurrency",
    *(f"{side}{part}" for side in _SIDES for part in _IDENTITY),
)  # fmt: skip
_MIDDLE = 1 << (NUMBER_BITS - 1)  # a delay in days may be negative


@dataclass(frozen=True)
class _Taken:
    """Messages in numbers."""

    messages: Messages
    key: Integers  # (kinds, rows)
    legs: ArrivedLegs


class PaymentFeatures:
    """What the features of messages to come need to know of those so far."""

    def __init__(self) -> None:
        self._texts, self._pairs = Numbering(), Numbering()
        self._seen, self._log_amounts = TimedSums(0), TimedSums(2)
        self._graph = PaymentGraph()

    def require(self, rows: pl.DataFrame) -> None:
        """DataError if messages that are about to be taken cannot have features."""
        for name in INPUT_COLUMNS:
            if name not in rows.columns:
                raise DataError(f"the table has no column {name!r}")

    def add(self, rows: pl.DataFrame, arrived: Arrived) -> None:
        """Messages that `Arrivals` has just taken."""
        self._add(rows, arrived)

    def take(self, rows: pl.DataFrame, arrived: Arrived) -> FeatureTable:
        """Add messages; their features."""
        taken = self._add(rows, arrived)
        messages, time = taken.messages, arrived.time
        seen = self._seen.count(taken.key.reshape(-1), np.tile(time, len(taken.key)))
        seen = seen.reshape(taken.key.shape)
        sums, squares = self._log_amounts.sums(taken.key[_CURRENCY], time)
        found = messages.features() | self._graph.features(arrived, taken.legs)
        found |= {
            "sender_seen": seen[_SENDER],
            "receiver_seen": seen[_RECEIVER],
            "sender_delay_share": share(seen[_DELAY], seen[_SENDER]),
            "sender_hour_share": share(seen[_HOUR], seen[_SENDER]),
            "sender_currency_share": share(seen[_CURRENCY], seen[_SENDER]),
            "sender_exchange_share": share(seen[_EXCHANGE], seen[_SENDER]),
            "corridor_share": share(seen[_CORRIDOR], seen[_SENDER]),
            "amount_z": standard_score(messages.log_amount, seen[_CURRENCY], sums, squares),
            "legs_seen": seen[_PAYMENT],
            "account_pair_seen": seen[_PAIR],
            "reference_seen": seen[_REFERENCE],
            "ordering_account_seen": seen[_ORDERING],
            "ordering_identity_share": share(seen[_ORDERING_IDENTITY], seen[_ORDERING]),
            "beneficiary_account_seen": seen[_BENEFICIARY],
            "beneficiary_identity_share": share(seen[_BENEFICIARY_IDENTITY], seen[_BENEFICIARY]),
        }
        values = side_by_side([found[name] for name in FEATURE_MEANINGS], rows.height)
        return FeatureTable(tuple(FEATURE_MEANINGS), values)

    def _add(self, rows: pl.DataFrame, arrived: Arrived) -> _Taken:
        if arrived.legs is None:
            raise ParameterError("payments: the schema must name the event, whose rows are legs")
        messages = Messages(rows)
        key = self._keys(messages, arrived, arrived.legs)
        self._seen.add(key.reshape(-1), np.tile(arrived.time, len(key)))
        units = messages.log_units
        self._log_amounts.add(key[_CURRENCY], arrived.time, units, units * units)
        self._graph.add(arrived, arrived.legs, rows["SettlementAmount"].to_numpy())
        return _Taken(messages, key, arrived.legs)

    def _keys(self, messages: Messages, arrived: Arrived, legs: ArrivedLegs) -> Integers:
        rows = messages.rows
        number = dict(zip(_TEXTS, self._texts.of_texts(*(rows[t] for t in _TEXTS)), strict=True))
        sender, receiver = number["Sender"], number["Receiver"]
        currency = number["SettlementCurrency"]
        exchange = self._pairs.of_pairs(currency, number["InstructedCurrency"])
        name, street, city = (
            np.concatenate([number[f"{side}{part}"] for side in _SIDES]) for part in _IDENTITY
        )
        identity = self._pairs.of_pairs(name, self._pairs.of_pairs(street, city))
        of_ordering, of_beneficiary = np.split(identity, 2)
        ordering, beneficiary = arrived.account[:, ORDERING], arrived.account[:, BENEFICIARY]
        return np.stack(
            [
                keys(_SENDER, sender),
                keys(_RECEIVER, receiver),
                keys(_DELAY, sender, messages.delay_days + _MIDDLE),
                keys(_HOUR, sender, messages.hour),
                keys(_CURRENCY, sender, currency),
                keys(_EXCHANGE, sender, exchange),
                keys(_CORRIDOR, sender, receiver),
                keys(_PAYMENT, legs.event),
                keys(_PAIR, ordering, beneficiary),
                keys(_REFERENCE, number["TransactionReference"]),
                keys(_ORDERING, ordering),
                keys(_ORDERING_IDENTITY, ordering, of_ordering),
                keys(_BENEFICIARY, beneficiary),
                keys(_BENEFICIARY_IDENTITY, beneficiary, of_beneficiary),
            ]
        )

    # At rest.

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """By name; none of them changes any more."""
        return joined({name: part.to_arrays() for name, part in vars(self).items()})

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        found = cls()
        found._texts = Numbering.from_arrays(part_of(arrays, "_texts"))
        found._pairs = Numbering.from_arrays(part_of(arrays, "_pairs"))
        found._seen = TimedSums.from_arrays(0, part_of(arrays, "_seen"))
        found._log_amounts = TimedSums.from_arrays(2, part_of(arrays, "_log_amounts"))
        found._graph = PaymentGraph.from_arrays(part_of(arrays, "_graph"))
        return found
