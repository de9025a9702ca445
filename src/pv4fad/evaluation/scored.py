"""Predictions of a run beside the true labels of the transactions.

    Score        what `pv4fad score` made of everything it may use: the detector
    Alert        1 for its alerts; of votes, the predicted label
    LocalScore   what the payment network thinks without any bank: what it is compared with

Labels are read here, after scoring; nothing private depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.errors import DataError
from pv4fad.lead.data import load_rows
from pv4fad.payments.challenge import read_partition
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.schema import Schema

PREDICTIONS_FILE = "predictions.csv"
SCORE, ALERT, LOCAL_SCORE, PREDICTED = "Score", "Alert", "LocalScore", "Label"
_TYPES = {
    SCORE: pl.Float64(),
    ALERT: pl.Int8(),
    PREDICTED: pl.Int8(),
    LOCAL_SCORE: pl.Float64(),
    "Reasons": pl.String(),
}


def default_predictions(run: Path) -> Path:
    """Where predictions are looked for: alerts follow from flags, so with the payment network."""
    return run / PAYMENT_NETWORK / PREDICTIONS_FILE


@dataclass(frozen=True)
class ScoredTransactions:
    """The transactions of a test split with what was predicted, in the order of the split."""

    table: pl.DataFrame = field(repr=False)
    """Transactions, and all columns of the predictions; Label if the split has labels."""
    labels: NDArray[np.int8] | None = field(repr=False)
    """None: the split has none."""

    @classmethod
    def read(cls, schema: Schema, split: Path, predictions: Path) -> ScoredTransactions:
        """A test split, and the file that `pv4fad score` made for it."""
        source = read_partition(split).transactions
        rows = load_rows(schema, source, labels_required=False)
        id_column, label = schema.rows.id, schema.rows.label
        made, ids = read_predictions(predictions, id_column), rows[id_column]
        if made.height != len(ids) or not ids.is_in(made[id_column].implode()).all():
            raise DataError(
                f"{predictions}: must hold exactly one prediction for each row of {source}"
            )
        labels = rows[label].to_numpy() if label in rows.columns else None
        table = rows.join(made, on=id_column, how="left", maintain_order="left")
        return cls(table, labels)

    def __len__(self) -> int:
        return self.table.height

    def column(self, name: str) -> NDArray[np.float64] | None:
        """A column of numbers, if the predictions have it."""
        if name not in self.table.columns:
            return None
        return self.table[name].to_numpy().astype(np.float64)

    def require_labels(self, where: Path) -> NDArray[np.int8]:
        """The labels, one of which is 1 at least."""
        if self.labels is None:
            raise DataError(
                f"{where}: the test split has no labels, so the predictions cannot be evaluated"
            )
        if not self.labels.any():
            raise DataError(f"{where}: no row of the test split is labelled 1")
        return self.labels


def read_predictions(path: Path, id_column: str) -> pl.DataFrame:
    """What `pv4fad score` wrote, in its order; a predicted label is an Alert."""
    if not path.is_file():
        raise DataError(
            f"{path}: there are no predictions yet; make them with"
            f" pv4fad score RUN DIR --out {path}, or name the file with --predictions"
        )
    try:
        table = pl.read_csv(path, schema_overrides={id_column: pl.String(), **_TYPES})
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: the predictions cannot be read: {reason}") from None
    if not {id_column, SCORE} <= set(table.columns) or table[id_column].is_duplicated().any():
        raise DataError(f"{path}: needs the columns {id_column}, each id once, and {SCORE}")
    # Votes have a Label: what was predicted, not what is true.
    if ALERT in table.columns:
        table = table.drop(PREDICTED, strict=False)
    table = table.rename({PREDICTED: ALERT}, strict=False)
    for column in {SCORE, LOCAL_SCORE} & set(table.columns):
        if not table[column].is_finite().fill_null(False).all():
            raise DataError(f"{path}: the column {column} has a value that is not a number")
    if ALERT in table.columns and not table[ALERT].is_in([0, 1]).fill_null(False).all():
        raise DataError(f"{path}: the column {ALERT} has a value other than 0 and 1")
    return table
