"""Predictions as a file: in the order the challenge asks for, written in one piece.

Decisions:
MessageId, Score      alerts above all others; without an alert, by own evidence alone
Alert, Level          0 or 1; 0 without an alert, 1 to 3 by score
LocalScore            without any bank
Reasons               of an alert: in terms of own data, and whether a bank's record decided

Votes, of the paper's model:
MessageId, Score, Label, Confidence     votes for 1 / trees; majority; share of the majority
GreenVotes, OrderingVotes, BeneficiaryVotes, Reasons
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

BANKS_RECORD = "the bank's record"
"""The reason of an alert that a bank's answer made or raised."""


def prediction_table(
    message_ids: pl.Series,
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
            "MessageId": message_ids,
            "Score": score,
            "Alert": alert.astype(np.int8),
            "Level": level,
            "LocalScore": local_score,
            "Reasons": pl.Series(reasons, dtype=pl.String),
        }
    )


def required_order(transactions: Path) -> pl.Series | None:
    """The MessageIds of predictions_format.csv beside the transactions, if there is one."""
    path = transactions.parent / PREDICTIONS_FORMAT_FILE
    if not path.is_file():
        return None
    try:
        ids = pl.read_csv(path, columns=["MessageId"], schema_overrides={"MessageId": pl.String})
        return ids["MessageId"]
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: no readable CSV with a column MessageId: {error}") from None


def require_order_fits(order: pl.Series, message_ids: pl.Series, where: Path) -> None:
    """The form of the predictions lists each transaction once, and nothing else."""
    path = where.parent / PREDICTIONS_FORMAT_FILE
    if order.n_unique() < len(order):
        raise DataError(f"{path}: some MessageId is listed twice")
    for ids, others, problem in (
        (order, message_ids, "is not among the transactions"),
        (message_ids, order, "is missing"),
    ):
        wrong = ids.filter(~ids.is_in(others.implode()))
        if len(wrong):
            raise DataError(f"{path}: {len(wrong)} MessageIds, the first {wrong[0]!r} {problem}")


def in_order(table: pl.DataFrame, order: pl.Series | None) -> pl.DataFrame:
    """The rows of a table in the order of these MessageIds."""
    if order is None:
        return table
    return order.to_frame().join(table, on="MessageId", how="left", maintain_order="left")


def write_predictions(path: Path, table: pl.DataFrame) -> None:
    """All of it or nothing."""
    # Alerts follow from flags: for the eyes of the owner only, like the stores.
    with whole_file(path, private=True) as file:
        table.write_csv(file)
