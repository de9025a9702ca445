"""What a report can say about a run, and what is missing for the rest.

    always            run.json
    if scored         the predictions and their costs
    with DIR          the transactions behind them; with labels, how good they are
    with a root key   the ledger of each holder
    if attacked       what each party got as an attacker

What is missing is no error: the report says so, and how to get it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.attack.findings import FILE_NAME, Attack
from pv4fad.errors import StoreError
from pv4fad.evaluation.evaluate import ALONE, Evaluation, evaluate
from pv4fad.evaluation.joined import joined_scores
from pv4fad.evaluation.scored import (
    ALERT,
    LOCAL_SCORE,
    SCORE,
    ScoredTransactions,
    read_predictions,
)
from pv4fad.lead.data import load_rows
from pv4fad.lead.reasons import feature_text
from pv4fad.payments.challenge import read_partition
from pv4fad.privacy.ledger import Ledger, read_ledger
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RUN_FILE, RunFolder
from pv4fad.run.scoring_record import ScoringRecord, require_run
from pv4fad.schema import Schema
from pv4fad.store.sealing import RootKey
from pv4fad.tables.features import FeatureTable, compute_features

N_ALERTS = 20
ID, TRUTH = "Id", "Truth"  # columns of alerts, whatever the schema calls them
_MOST_UNUSUAL = 3
_RARE = 0.02


@dataclass(frozen=True)
class Gap:
    """Something that the report does not show, and why."""

    what: str
    why: str


@dataclass(frozen=True)
class ReportContent:
    """All that there is to show."""

    document: RunDocument
    predictions: pl.DataFrame | None = field(repr=False)
    """A row per scored transaction; with DIR, also the transaction and, if known, its Label."""
    alerts: pl.DataFrame | None = field(repr=False)
    """Those with the highest scores; with DIR, also what is Unusual about them."""
    evaluation: Evaluation | None
    scoring: ScoringRecord | None
    ledgers: Mapping[str, Ledger] = field(repr=False)
    attack: Attack | None
    gaps: tuple[Gap, ...]


def gather(
    folder: RunFolder,
    predictions: Path,
    splits: tuple[Path, Path] | None,
    root_key: RootKey | None,
    *,
    joined: bool = False,
) -> ReportContent:
    """Read what is there.  `predictions` need not exist; `splits` are the train and test folder.

    `joined`: also compute what a model with all data in one place would have found.
    """
    document = folder.read()
    if document is None:
        raise StoreError(f"{folder.path} holds no run ({RUN_FILE} is missing)")
    gaps, schema = [], document.data_schema
    words = schema.words
    if document.state != "finished":
        gaps.append(Gap("The model", "training is not finished: pv4fad train --resume"))
    table: pl.DataFrame | None = None
    evaluation = None
    scoring = None
    if not predictions.is_file():
        command = f"pv4fad score RUN DIR --out {predictions}"
        gaps.append(Gap("Alerts and curves", f"nothing was scored yet: {command}"))
    elif splits is None:
        scoring = require_run(predictions, document.run_id)
        table = read_predictions(predictions, schema.rows.id)
        what = words("Curves, and the {rows} of the alerts")
        gaps.append(Gap(what, "the data is not named: give DIR after RUN"))
    else:
        scoring = require_run(predictions, document.run_id)
        scored = ScoredTransactions.read(schema, splits[1], predictions)
        table = scored.table
        if scored.labels is None or not scored.labels.any():
            why = "has no labels" if scored.labels is None else "has no anomaly"
            gaps.append(Gap("How good the alerts are", f"the test split {why}"))
        else:
            evaluation = evaluate(
                scored, splits[1], joined_scores(schema, *splits) if joined else None
            )
    if evaluation is not None and evaluation.of(ALONE) is None:
        why = f"the predictions have no column {LOCAL_SCORE}, as those of votes"
        gaps.append(Gap(words("The {lead} alone"), why))
    if table is not None and scoring is None:
        what = words("What scoring cost, and what it told the {lead}")
        gaps.append(Gap(what, "there is no record beside the predictions"))
    if table is not None and ALERT not in table.columns:
        gaps.append(Gap("The highest alerts", f"the predictions have no column {ALERT}"))
    ledgers: dict[str, Ledger] = {}
    if root_key is None:
        gaps.append(Gap(words("The ledgers of the {holders}"), "sealed: give --key-file"))
    else:
        with folder.stores(document.parameters.banks, root_key) as stores:
            ledgers = {bank: read_ledger(store) for bank, store in stores.items()}
    alerts = (
        _alerts(schema, table, splits) if table is not None and ALERT in table.columns else None
    )
    attack = Attack.read(folder.path / PAYMENT_NETWORK / FILE_NAME, document.run_id)
    return ReportContent(document, table, alerts, evaluation, scoring, ledgers, attack, tuple(gaps))


def _alerts(
    schema: Schema, predictions: pl.DataFrame, splits: tuple[Path, Path] | None
) -> pl.DataFrame:
    # Among equal scores the order of the file: there is no better reason to put one first.
    highest_first = np.argsort(-predictions[SCORE].to_numpy(), kind="stable")
    is_alert: NDArray[np.bool_] = predictions[ALERT].to_numpy() == 1
    rows = highest_first[is_alert[highest_first]][:N_ALERTS]
    names = {schema.rows.id: ID, schema.rows.label: TRUTH}
    alerts = predictions[rows].rename(names, strict=False)
    if splits is None:
        return alerts
    known = read_partition(splits[0]).transactions
    history = load_rows(schema, known, labels_required=True)
    features = compute_features(schema, predictions, history)
    return alerts.with_columns(Unusual=pl.Series(unusual(schema, features, rows), dtype=pl.String))


def unusual(schema: Schema, features: FeatureTable, rows: NDArray[np.int64]) -> list[str]:
    """For each of these rows its rarest features, `amount: 59,900 (0.1 %)`, joined by '; '.

    A value is unusual if few rows of the period have one as high, or as low.  That is no reason
    of the model: it is what the lead can look at by itself.
    """
    values, chosen = features.values, features.values[rows]
    ordered = np.sort(values, axis=0)
    n, texts = len(values), []
    tails = np.empty(chosen.shape)
    for column in range(values.shape[1]):
        line = ordered[:, column]
        at_most = np.searchsorted(line, chosen[:, column], side="right")
        at_least = n - np.searchsorted(line, chosen[:, column], side="left")
        tails[:, column] = np.minimum(at_most, at_least) / n
    for row, tail in zip(chosen, tails, strict=True):
        rarest = [k for k in np.argsort(tail, kind="stable")[:_MOST_UNUSUAL] if tail[k] <= _RARE]
        said = (
            f"{feature_text(schema, features.names[k], float(row[k]))} ({100 * tail[k]:.2g} %)"
            for k in rarest
        )
        texts.append("; ".join(said))
    return texts
