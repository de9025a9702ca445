"""What the lead knows when a row arrives, kept up to date row by row: `NewRows` without the past.

    known = KnownRows.of(schema, training)      the labelled rows that the run was trained on
    known.take(rows)  →  NewRows                a batch of rows of any size, each known from then on
    known.snapshot()  →  Snapshot               all of it, to go on from after a restart
    known = KnownRows.of_snapshot(schema, snapshot)
    known.add(rows)                             rows taken since: the same without an answer

`take` says about its rows, bit for bit, what `new_rows` says about them when it is given all rows
taken so far and the training rows: features, who stands on each side and at which bank, first
dealings, strata, hits.  Only the numbers of accounts differ, which are those of the batch.  So what
is fixed at training stays fixed: labels, and the numbers of categories.

A late row, whose time is earlier than that of rows already taken, sees what was strictly earlier,
and is seen by all rows that follow.  What was said about rows before it arrived stays: it is what
the batch code says about the rows known at that time.

Rows are as `lead.data.load_rows` gives them; no id is taken twice, which is for the caller to see
to.  Rows that are refused change nothing.  One thread at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError, ParameterError
from pv4fad.evidence.strata import AccountHistory
from pv4fad.lead.rows import NewRows, fingerprint
from pv4fad.payments.features.incremental import PaymentFeatures
from pv4fad.payments.schema import SCHEMA as PAYMENTS
from pv4fad.schema import Schema
from pv4fad.tables.features import FeatureTable
from pv4fad.tables.incremental.arrivals import Arrivals, Arrived
from pv4fad.tables.incremental.at_rest import Arrays, joined, part_of
from pv4fad.tables.incremental.features import TableFeatures


@dataclass(frozen=True)
class Snapshot:
    """All that `KnownRows` goes on from: arrays that do not change any more.

    Some 400 MB for a million payments.  One thread can store it while another goes on taking rows.
    """

    schema_digest: str
    training: str
    """Fingerprint of the training rows."""
    n_rows: int
    """Those of training included."""
    arrays: Arrays = field(repr=False)


class IncrementalFeatures(Protocol):
    """The features of a schema, of rows that `Arrivals` has just taken."""

    def require(self, rows: pl.DataFrame) -> None:
        """DataError if rows that are about to be taken cannot have features."""

    def add(self, rows: pl.DataFrame, arrived: Arrived) -> None: ...

    def take(self, rows: pl.DataFrame, arrived: Arrived) -> FeatureTable: ...

    def to_arrays(self) -> dict[str, NDArray[Any]]: ...


class KnownRows:
    """All rows so far, as far as rows to come depend on them."""

    def __init__(
        self,
        schema: Schema,
        training: str,
        arrivals: Arrivals,
        features: IncrementalFeatures,
        history: AccountHistory,
    ) -> None:
        self.schema = schema
        self.training = training
        """Fingerprint of the training rows."""
        self._arrivals = arrivals
        self._features = features
        self._history = history

    @classmethod
    def of(cls, schema: Schema, training: pl.DataFrame) -> Self:
        """Of the labelled rows that a run was trained on."""
        if schema.rows.label not in training.columns:
            raise DataError(f"the training rows have no column {schema.rows.label}")
        arrivals, features = Arrivals(schema), _new_features(schema, training)
        features.require(training)
        arrived = arrivals.add(training)
        features.add(training, arrived)
        labels = training[schema.rows.label].to_numpy().astype(np.int8)
        history = AccountHistory.of(arrived.account, labels, arrivals.n_accounts)
        return cls(schema, fingerprint(training), arrivals, features, history)

    def __len__(self) -> int:
        """Those of training included."""
        return self._arrivals.n_rows

    def add(self, rows: pl.DataFrame) -> None:
        """Rows whose `NewRows` nobody needs any more."""
        self._features.require(rows)
        self._features.add(rows, self._arrivals.add(rows))

    def take(self, rows: pl.DataFrame) -> NewRows:
        """What the lead knows about rows, which are known from then on."""
        if self.schema.rows.label in rows.columns:
            rows = rows.drop(self.schema.rows.label)
        self._features.require(rows)
        arrived = self._arrivals.add(rows)
        features = self._features.take(rows, arrived)
        sides = self._arrivals.side_keys(rows, arrived)
        number = {key: position for position, key in enumerate(dict.fromkeys(chain(*sides)))}
        # Training has not seen accounts with higher numbers.
        n_trained = len(self._history.hit)
        account = np.where(arrived.account < n_trained, arrived.account, -1)
        return NewRows(
            self.schema,
            rows,
            features,
            list(number),
            np.array([[number[key] for key in side] for side in sides], np.int64).T,
            arrived.is_first,
            self._history.strata(account, arrived.is_first),
            self._history.hits(account),
        )

    # At rest.

    def snapshot(self) -> Snapshot:
        """All of it as it is now, whatever is taken later."""
        history = {"counterparties": self._history.counterparties, "hit": self._history.hit}
        arrays = joined(
            {
                "arrivals": self._arrivals.to_arrays(),
                "features": self._features.to_arrays(),
                "history": history,
            }
        )
        return Snapshot(self.schema.digest, self.training, len(self), arrays)

    @classmethod
    def of_snapshot(cls, schema: Schema, snapshot: Snapshot) -> Self:
        """As it was."""
        if snapshot.schema_digest != schema.digest:
            raise DataError("what was stored about earlier rows is of another schema")
        arrays = snapshot.arrays
        return cls(
            schema,
            snapshot.training,
            Arrivals.from_arrays(schema, part_of(arrays, "arrivals")),
            _features_from(schema, part_of(arrays, "features")),
            AccountHistory(**part_of(arrays, "history")),
        )


def _new_features(schema: Schema, training: pl.DataFrame) -> IncrementalFeatures:
    if schema.rows.features is None:
        return TableFeatures.trained(schema, training)
    _require_payments(schema)
    return PaymentFeatures()


def _features_from(schema: Schema, arrays: Arrays) -> IncrementalFeatures:
    if schema.rows.features is None:
        return TableFeatures.from_arrays(schema, arrays)
    _require_payments(schema)
    return PaymentFeatures.from_arrays(arrays)


def _require_payments(schema: Schema) -> None:
    if schema.rows.features != PAYMENTS.rows.features:
        raise ParameterError(
            f"rows.features: {schema.rows.features}: features of rows that arrive one by one can be"
            " computed for payments, and for schemas without a function of their own"
        )
