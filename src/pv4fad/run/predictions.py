"""Predictions as a file: in the order the challenge asks for, written in one piece.

Decisions:
<id>, Score           alerts above all others; without an alert, by own evidence alone
Alert, Level          0 or 1; 0 without an alert, 1 to 3 by score
LocalScore            without any bank
Reasons               of an alert: in terms of own data, and whether a bank's record decided

Votes, of the paper's model:
<id>, Score, Label, Confidence     votes for 1 / trees; majority; share of the majority
GreenVotes, <Side>Votes …, Reasons

<id> is the id column of the schema: MessageId for payments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.files import whole_file
from pv4fad.payments.challenge import PREDICTIONS_FORMAT_FILE

HOLDERS_ANSWER = "the {holder}'s record"
"""The reason of an alert that the answer of a holder made or raised."""


def prediction_table(
    ids: pl.Series,
    *,
    score: NDArray[np.float64],
    alert: NDArray[np.bool_],
    level: NDArray[np.int8],
    local_score: NDArray[np.float64],
    reasons: Sequence[str | None],
) -> pl.DataFrame:
    """One row per payment; nothing but these columns depends on a bank."""
    return pl.DataFrame(
        {
            ids.name: ids,
            "Score": score,
            "Alert": alert.astype(np.int8),
            "Level": level,
            "LocalScore": local_score,
            "Reasons": pl.Series(reasons, dtype=pl.String),
        }
    )


def required_order(rows: Path, id_column: str) -> pl.Series | None:
    """The ids of predictions_format.csv beside the rows, if there is one."""
    path = rows.parent / PREDICTIONS_FORMAT_FILE
    if not path.is_file():
        return None
    try:
        ids = pl.read_csv(path, columns=[id_column], schema_overrides={id_column: pl.String})
        return ids[id_column]
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: no readable CSV with a column {id_column}: {error}") from None


def require_order_fits(order: pl.Series, row_ids: pl.Series, where: Path) -> None:
    """The form of the predictions lists each transaction once, and nothing else."""
    path = where.parent / PREDICTIONS_FORMAT_FILE
    if order.n_unique() < len(order):
        raise DataError(f"{path}: some {order.name} is listed twice")
    for ids, others, problem in (
        (order, row_ids, "is not among the rows"),
        (row_ids, order, "is missing"),
    ):
        wrong = ids.filter(~ids.is_in(others.implode()))
        if len(wrong):
            raise DataError(
                f"{path}: {len(wrong)} × {order.name}, the first {wrong[0]!r} {problem}"
            )


def in_order(table: pl.DataFrame, order: pl.Series | None) -> pl.DataFrame:
    """The rows of a table in the order of these ids."""
    if order is None:
        return table
    return order.to_frame().join(table, on=order.name, how="left", maintain_order="left")


def write_predictions(path: Path, table: pl.DataFrame) -> None:
    """All of it or nothing."""
    # Alerts follow from flags: for the eyes of the owner only, like the stores.
    with whole_file(path, private=True) as file:
        table.write_csv(file)
