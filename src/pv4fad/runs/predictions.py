"""Votes as predictions: a table, in the order the challenge asks for, written in one piece.

MessageId, Score                          Score: of the combiner; of `votes`, votes for 1 / trees
LocalScore                                log-odds without any bank, if there is a local model
Label, Confidence                         1 where Score is above a half; max(Score, 1 − Score)
GreenVotes, OrderingVotes, BeneficiaryVotes
Reasons                                   where the payment network's own tests led it
RedLabels                                 whether the payment network knows how red leaves vote
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.data.challenge import PREDICTIONS_FORMAT_FILE
from pv4fad.errors import DataError
from pv4fad.files import whole_file
from pv4fad.forest.reasons import reasons
from pv4fad.forest.structure import Forest
from pv4fad.forest.votes import green_votes, predictions
from pv4fad.protocol.parameters import Mode
from pv4fad.runs.scoring_rows import ScoringRows

VOTES = ("GreenVotes", "OrderingVotes", "BeneficiaryVotes")
RED_LABELS: dict[Mode, str] = {"sealed": "sealed", "released": "known"}


def prediction_table(
    rows: ScoringRows,
    sides: NDArray[np.int64],
    forest: Forest,
    green_labels: NDArray[np.int8],
    *,
    scores: NDArray[np.float64] | None,
    mode: Mode,
    details: bool,
) -> pl.DataFrame:
    """What the payment network knows about each transaction, in the order of the rows.

    `scores` of a combiner; None: the share of votes.
    """
    green = green_votes(rows.codes, green_labels)
    if scores is None:
        scores = predictions(green + sides.sum(axis=1), forest.sizes.n_trees).score
    table = pl.DataFrame({"MessageId": rows.message_ids, "Score": scores})
    if not details:
        return table
    if rows.local_scores is not None:
        table = table.with_columns(LocalScore=rows.local_scores)
    return table.with_columns(
        Label=(scores > 0.5).astype(np.int8),
        Confidence=np.maximum(scores, 1 - scores),
        **dict(zip(VOTES, (green, *sides.T), strict=True)),
        Reasons=reasons(forest, rows.codes),
        RedLabels=pl.lit(RED_LABELS[mode]),
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
    # Votes follow from flags: for the eyes of the owner only, like the stores.
    with whole_file(path, private=True) as file:
        table.write_csv(file)
