"""Leak check: how much of the labels a single column gives away.

For every raw column and every obvious derived one: the average precision of ranking all rows by it
alone.  Numbers are tried in both directions.  Text is ranked by how often its value occurs, in both
directions, and, where it has few values, also by how often each is anomalous: no ranking by that
column can be better.  A column is a leak above `LEAK_LIMIT`; in `challenge` a bank's flag may be,
because there it is the label's cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.payments.features import compute_features
from pv4fad.payments.features.history import column_codes
from pv4fad.payments.generate.derived import BANK_COLUMNS, DERIVED_COLUMNS, bank_columns
from pv4fad.payments.generate.settings import Difficulty
from pv4fad.payments.generate.tables import GeneratedTables
from pv4fad.payments.schema import LABEL, TRANSACTION_COLUMNS

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
