"""Score the test split of a data folder with a run folder's model, all parties on one machine.

    1. prepare   the payment network's features continue from the transactions it trained on
    2. match     accounts that it has not met before; always, also if there are none
    3. score     batch by batch; after each message all is on disk
    4. write     the predictions, in one piece, and beside them what they cost

Killed anywhere, the same call carries on and gives the same predictions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.data.challenge import read_partition
from pv4fad.data.loading import load_transactions
from pv4fad.detection.recipe import Combiner
from pv4fad.detection.stacked import OUTSIDE_THE_CLAIM
from pv4fad.errors import DataError
from pv4fad.federation import LedFederation
from pv4fad.files import require_new_file
from pv4fad.forest.structure import Forest
from pv4fad.parties.party import RunRecords
from pv4fad.parties.scoring_tables import stored_forest
from pv4fad.parties.store import Store
from pv4fad.runs.combining import DetectionAtHand, votes_and_stacking
from pv4fad.runs.document import RunDocument
from pv4fad.runs.folder import RunFolder
from pv4fad.runs.meter import PREPARE, PhaseCost, Progress, Report
from pv4fad.runs.new_run import read_training_record
from pv4fad.runs.predictions import (
    in_order,
    prediction_table,
    require_order_fits,
    required_order,
    write_predictions,
)
from pv4fad.runs.prepare import bank_directory, bank_records, fingerprint
from pv4fad.runs.scoring_record import ScoringRecord, write_record
from pv4fad.runs.scoring_rows import Batching, scoring_rows
from pv4fad.runs.site import Site, load_banks, members
from pv4fad.runs.trained_run import TrainedRun


@dataclass(frozen=True)
class Scored:
    """What was done; the predictions are in the file."""

    document: RunDocument
    transactions: int
    combiner: Combiner
    layers: int
    """Asked of every table in this call."""
    phases: tuple[PhaseCost, ...]


def score(
    splits: tuple[Path, Path],
    folder: RunFolder,
    out: Path,
    site: Site,
    *,
    batching: Batching,
    details: bool = False,
    combiner: Combiner | None = None,
    report: Report = lambda _: None,
) -> Scored:
    """Score the second split; the first must be the one that the run was trained on.

    `combiner`: by default the one that the run was trained for.
    """
    document = folder.require_finished()
    require_new_file(out)
    train, test = splits
    accounts, schema = load_banks(test, folder, document), document.parameters.atoms
    records = {bank: bank_records(frame, schema) for bank, frame in accounts.items()}
    files = (read_partition(train).transactions, read_partition(test).transactions)
    with members(folder, records, site) as federation:
        directory = bank_directory(accounts)
        return predict(
            federation,
            folder,
            files,
            directory,
            out,
            batching=batching,
            details=details,
            combiner=combiner,
            report=report,
        )


def predict(
    federation: LedFederation,
    folder: RunFolder,
    files: tuple[Path, Path],
    directory: Mapping[str, str],
    out: Path,
    *,
    batching: Batching,
    details: bool,
    combiner: Combiner | None = None,
    report: Report,
) -> Scored:
    """What the payment network does, while the others answer.

    `files`: the transactions that the run was trained on, and those to score.
    """
    started = time.monotonic()
    document = folder.require_finished()
    history, transactions, order = _load(*files)
    store, parameters = federation.payment_network.store, document.parameters
    private = read_training_record(store, document.run_id)
    if fingerprint(history) != private.transactions:
        raise DataError(f"{files[0]} does not hold the transactions that the run was trained on")
    forest, green_labels = _model(store, document.run_id)
    chosen = private.settings.chosen_combiner if combiner is None else combiner
    own = DetectionAtHand(store, document.run_id, parameters)
    own.require(chosen, private.settings)
    rows = scoring_rows(transactions, history, forest, own.local)
    labelled = own.labelled_rows(chosen, history, forest, private.seed, rows)
    del history, transactions
    prepared = PhaseCost(phase=PREPARE, seconds=time.monotonic() - started)
    report(Progress(prepared, total=0, under_way=False))
    if chosen == "stacked":
        # Before anything is asked: what was interrupted was asked all the same.
        document = document.with_outside_the_claim(OUTSIDE_THE_CLAIM)
        folder.write(document)
    run = TrainedRun(federation, parameters, directory, report)
    sides = votes_and_stacking(run, own, rows, labelled, batching)
    scores = own.scores(chosen, rows, sides)
    table = prediction_table(
        rows, sides, forest, green_labels, scores=scores, mode=parameters.mode, details=details
    )
    phases = (prepared, *run.meter.phases)
    # Before the predictions: they never stand there without it.
    write_record(
        out,
        ScoringRecord(
            run_id=document.run_id,
            combiner=chosen,
            outside_the_claim=OUTSIDE_THE_CLAIM if chosen == "stacked" else "",
            phases=phases,
            traffic=run.meter.traffic,
        ),
    )
    write_predictions(out, in_order(table, order))
    run.finish_scoring()
    return Scored(document, len(rows), chosen, run.layers, phases)


def _load(known: Path, new: Path) -> tuple[pl.DataFrame, pl.DataFrame, pl.Series | None]:
    """Known transactions, new ones, and the order in which predictions are wanted."""
    transactions = load_transactions(new, labels_required=False).frame
    order = required_order(new)
    if order is not None:
        require_order_fits(order, transactions["MessageId"], new)
    return load_transactions(known, labels_required=True).frame, transactions, order


def _model(store: Store, run_id: str) -> tuple[Forest, NDArray[np.int8]]:
    with store.transaction() as tx:
        run = RunRecords(tx, run_id)
        return stored_forest(run), run.get_arrays("green labels")["labels"]
