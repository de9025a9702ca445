"""Score payments with a trained model.

    1. prepare   the payment network's features continue from the transactions it trained on
    2. match     accounts that it has not met before; always, also if there are none
    3. ask       a fixed number of rounds (or votes); after each message all is stored
    4. keep      the caller stores the predictions, with what they cost and what was learnt

The same for all parties on one machine and for a deployed payment network.  Killed anywhere, the
same call carries on and gives the same predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from pv4fad.errors import DataError, ParameterError
from pv4fad.lead.asking import Batching, Judge, Scoring
from pv4fad.lead.data import load_rows
from pv4fad.lead.desk_labels import rows_as_trained
from pv4fad.lead.federation import LedFederation
from pv4fad.lead.judging import EvidenceJudge, Judging
from pv4fad.lead.paper_model import DecisionJudge, stored_trees, vote_table
from pv4fad.lead.prepare import read_training_record
from pv4fad.lead.rows import NewRows, new_rows, require_untrained
from pv4fad.lead.settings import TrainingSettings
from pv4fad.protocol.compare.state import Labels
from pv4fad.protocol.parameters import RunParameters
from pv4fad.run.meter import Meter
from pv4fad.run.predictions import (
    in_order,
    require_order_fits,
    required_order,
    write_predictions,
)
from pv4fad.run.scoring_record import Learned, ScoringRecord, write_record
from pv4fad.store.records import stored
from pv4fad.store.store import Store


@dataclass(frozen=True)
class How:
    """What a person decides about a scoring."""

    alert_share: float | None = None
    """Of payments expected to become alerts; by default, and at most, that of the run."""
    batching: Batching = field(default_factory=Batching)
    """Of votes."""


@dataclass(frozen=True)
class Scored:
    """The predictions of some payments, what they cost and what was learnt on the way."""

    table: pl.DataFrame = field(repr=False)
    """One row per payment, in order; `run.predictions` explains the columns."""
    record: ScoringRecord
    layers: int
    """Asked of every table in this call."""


def score_files(
    federation: LedFederation,
    parameters: RunParameters,
    files: tuple[Path, Path],
    directory: Mapping[str, str],
    out: Path,
    *,
    how: How,
    meter: Meter,
) -> Scored:
    """Score a file of transactions and write the predictions, and beside them their record.

    `files`: the transactions that the run was trained on, and those to score.
    """
    payments, order = _load(federation.payment_network.store, parameters.run_id, *files)

    def write(scored: Scored) -> None:
        write_record(out, scored.record)  # first: predictions without a record have no origin
        write_predictions(out, in_order(scored.table, order))

    return score(federation, parameters, payments, directory, how=how, meter=meter, keep=write)


def score(
    federation: LedFederation,
    parameters: RunParameters,
    payments: NewRows,
    directory: Mapping[str, str],
    *,
    how: How,
    meter: Meter,
    keep: Callable[[Scored], object] = lambda _: None,
) -> Scored:
    """Score payments; `directory`: what rows call a bank → bank.

    `keep` stores the result; only after that does the payment network forget how far it was.
    """
    store, run_id = federation.payment_network.store, parameters.run_id
    share = checked_share(how.alert_share, read_training_record(store, run_id).settings)
    judge = judge_of(store, parameters, payments, directory, share)
    scoring = Scoring(federation, parameters, directory, meter)
    learned: Learned | None = None
    n_known = n_positive = 0
    if judge is None:
        table = _vote(scoring, payments, store, run_id, how.batching)
    else:
        table = _decide(scoring, payments, judge, share)
        learned = judge.learned()
        n_known, n_positive = scoring.n_known()
    record = ScoringRecord(
        run_id=run_id,
        scoring="votes" if judge is None else "decisions",
        alert_share=share,
        learned=learned,
        records_known=n_known,
        records_positive=n_positive,
        positive_answers=dict(scoring.positive_answers) if parameters.metered else None,
        phases=meter.phases,
        traffic=meter.traffic,
    )
    scored = Scored(table, record, scoring.layers)
    keep(scored)
    scoring.finish()
    return scored


def checked_share(wanted: float | None, settings: TrainingSettings) -> float | None:
    """The alert share of a scoring; None: this model has none."""
    if settings.model == "paper":
        if wanted is not None:
            raise ParameterError("alert_share: the paper's model has no threshold to move")
        return None
    most = settings.alert_share
    if wanted is not None and not 0 < wanted <= most:
        raise ParameterError(
            f"alert_share {wanted}: the run was trained for {most}; choose a share greater than 0"
            f" and at most {most}"
        )
    return most if wanted is None else wanted


def judge_of(
    store: Store,
    parameters: RunParameters,
    payments: NewRows,
    directory: Mapping[str, str],
    alert_share: float | None,
) -> Judge | None:
    """From the payment network's store; None: the labels are sealed, and votes are asked for."""
    run_id = parameters.run_id
    if parameters.mode == "counts" and alert_share is not None:
        judging = Judging.stored(store, parameters, directory, alert_share)
        return EvidenceJudge(judging, payments)
    if parameters.mode == "released":
        labels = stored(store, run_id, Labels).labels
        return DecisionJudge(
            stored_trees(store, run_id),
            labels.reshape(parameters.sizes.n_groups, -1),
            payments,
            payments.askable(directory, broadcast=not parameters.metered),
        )
    return None


def _decide(scoring: Scoring, payments: NewRows, judge: Judge, share: float | None) -> pl.DataFrame:
    """Ask questions; the same payments with the same alert share carry on."""
    n_sets = len(judge.sets)
    scoring.begin(f"decisions {share} {payments.fingerprint}", payments.keys, n_sets=n_sets)
    judge.begin(scoring.known_bits(payments.keys, n_sets))
    scoring.ask(payments.keys, judge)
    return judge.table()


def _vote(
    scoring: Scoring, payments: NewRows, store: Store, run_id: str, batching: Batching
) -> pl.DataFrame:
    """Ask for vote totals; the same payments carry on, with the batches they began with."""
    trees = stored_trees(store, run_id)
    batch_size = batching.transactions
    scoring.begin(f"votes {payments.fingerprint}", payments.keys, batch_size=batch_size)
    codes = trees.forest.route(payments.features.values)
    sides = scoring.votes(codes, payments.keys, payments.key_of, batching.layers)
    schema = read_training_record(store, run_id).data_schema
    return vote_table(schema, payments, trees, codes, sides)


def _load(store: Store, run_id: str, known: Path, new: Path) -> tuple[NewRows, pl.Series | None]:
    """The new payments, and the order in which their predictions are wanted."""
    trained = read_training_record(store, run_id)
    schema = trained.data_schema
    rows = load_rows(schema, new, labels_required=False)
    order = required_order(new, schema.rows.id)
    if order is not None:
        require_order_fits(order, rows[schema.rows.id], new)
    history = load_rows(schema, known, labels_required=True)
    as_trained = rows_as_trained(schema, store, run_id, history, trained.transactions)
    if as_trained is None:
        raise DataError(f"{known} does not hold the rows that the run was trained on")
    require_untrained(schema, rows, as_trained, new)
    return new_rows(schema, rows, as_trained), order
