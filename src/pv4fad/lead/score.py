"""Score the test split of a data folder with a run folder's model, all parties on one machine.

    1. prepare   the payment network's features continue from the transactions it trained on
    2. match     accounts that it has not met before; always, also if there are none
    3. ask       a fixed number of rounds (or votes); after each message all is on disk
    4. write     the predictions, in one piece, and beside them what they cost and what was learnt

Killed anywhere, the same call carries on and gives the same predictions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from pv4fad.errors import DataError, ParameterError
from pv4fad.files import require_new_file
from pv4fad.lead.federation import LedFederation
from pv4fad.lead.judging import DecisionJudge, EvidenceJudge, Judge, vote_table
from pv4fad.lead.new_payments import KEY_SCHEMA, NewPayments, new_payments
from pv4fad.lead.new_run import read_training_record
from pv4fad.lead.own_model import OwnModel, stored_evidence
from pv4fad.lead.payments import fingerprint, inside_federation
from pv4fad.lead.prepare import bank_directory, bank_records
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.site import Site, load_banks, members
from pv4fad.lead.trained_run import Batching, TrainedRun
from pv4fad.payments.challenge import read_partition
from pv4fad.payments.loading import load_transactions
from pv4fad.protocol.compare.state import Labels
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import Trees
from pv4fad.protocol.propose.state import StoredTrees
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import PREPARE, PhaseCost, Progress, Report
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
    """What was done; the predictions are in the file."""

    document: RunDocument
    record: ScoringRecord
    transactions: int
    layers: int
    """Asked of every table in this call."""

    @property
    def phases(self) -> tuple[PhaseCost, ...]:
        return self.record.phases


@dataclass(frozen=True)
class Judged:
    """The predictions of some payments, and what was learnt on the way."""

    table: pl.DataFrame = field(repr=False)
    learned: Learned | None
    accounts_known: int = 0
    accounts_positive: int = 0


def score(
    splits: tuple[Path, Path],
    folder: RunFolder,
    out: Path,
    site: Site,
    *,
    how: How,
    report: Report = lambda _: None,
) -> Scored:
    """Score the second split; the first must be the one that the run was trained on."""
    document = folder.require_finished()
    require_new_file(out)
    train, test = splits
    accounts, schema = load_banks(test, folder, document), document.parameters.atoms
    records = {bank: bank_records(frame, schema) for bank, frame in accounts.items()}
    files = (read_partition(train).transactions, read_partition(test).transactions)
    with members(folder, records, site) as federation:
        directory = bank_directory(accounts)
        return predict(federation, folder, files, directory, out, how=how, report=report)


def predict(
    federation: LedFederation,
    folder: RunFolder,
    files: tuple[Path, Path],
    directory: Mapping[str, str],
    out: Path,
    *,
    how: How,
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
    share = checked_share(how.alert_share, private.settings)
    payments = new_payments(transactions, history)
    del history, transactions
    run = TrainedRun(federation, parameters, directory, report)
    judge = judge_of(store, parameters, payments, directory, share)
    prepared = PhaseCost(phase=PREPARE, seconds=time.monotonic() - started)
    report(Progress(prepared, total=0, under_way=False))
    if judge is None:
        trees = stored_trees(store, document.run_id)
        found = voted(run, payments, trees, how.batching)
    else:
        found = judged(run, payments, judge, f"{share} {payments.fingerprint}")
    # Before the predictions: they never stand there without it.
    record = ScoringRecord(
        run_id=document.run_id,
        scoring="votes" if judge is None else "decisions",
        alert_share=share,
        learned=found.learned,
        accounts_known=found.accounts_known,
        accounts_positive=found.accounts_positive,
        phases=(prepared, *run.meter.phases),
        traffic=run.meter.traffic,
    )
    write_record(out, record)
    write_predictions(out, in_order(found.table, order))
    run.finish_scoring()
    return Scored(document, record, len(payments), run.layers)


def checked_share(wanted: float | None, settings: TrainingSettings) -> float | None:
    """The alert share of a scoring; None: this model has none."""
    if settings.model == "paper":
        if wanted is not None:
            raise ParameterError("alert_share: the paper's model has no threshold to move")
        return None
    most = settings.alert_share
    if wanted is not None and not 0 < wanted <= most:
        raise ParameterError(
            f"alert_share {wanted}: the run was trained for {most}; give more than 0 and at most"
            " that"
        )
    return most if wanted is None else wanted


def judge_of(
    store: Store,
    parameters: RunParameters,
    payments: NewPayments,
    directory: Mapping[str, str],
    alert_share: float | None,
) -> Judge | None:
    """From the payment network's store; None: the labels are sealed, and votes are asked for."""
    run_id = parameters.run_id
    if parameters.mode == "counts" and parameters.absent is not None and alert_share is not None:
        own = OwnModel.stored(store, run_id)
        model = stored_evidence(own, parameters, store)
        return EvidenceJudge(own, model, parameters.absent, payments, directory, alert_share)
    if parameters.mode == "released":
        labels = stored(store, run_id, Labels).labels
        keys = pl.DataFrame(payments.keys, schema=KEY_SCHEMA, orient="row")
        return DecisionJudge(
            stored_trees(store, run_id),
            labels.reshape(parameters.sizes.n_groups, -1),
            payments,
            inside_federation(keys, directory)[payments.key_of],
        )
    return None


def judged(run: TrainedRun, payments: NewPayments, judge: Judge, job: str) -> Judged:
    """Ask what is to be asked.  `job` says what is scored and how: the same call carries on."""
    n_sets = len(judge.sets)
    run.begin(f"decisions {job}", payments.keys, n_sets=n_sets)
    judge.begin(run.known_bits(payments.keys, n_sets))
    run.ask(payments.keys, judge)
    return Judged(judge.table(), judge.learned(), *run.n_known())


def voted(run: TrainedRun, payments: NewPayments, trees: Trees, batching: Batching) -> Judged:
    """Ask for vote totals; the same call carries on, with the batches it began with."""
    run.begin(f"votes {payments.fingerprint}", payments.keys, batch_size=batching.transactions)
    codes = trees.forest.route(payments.features.values)
    sides = run.votes(codes, payments.keys, payments.key_of, batching.layers)
    return Judged(vote_table(payments, trees, codes, sides), None)


def stored_trees(store: Store, run_id: str) -> Trees:
    """The paper's model, as the payment network keeps it."""
    return stored(store, run_id, StoredTrees).trees()


def _load(known: Path, new: Path) -> tuple[pl.DataFrame, pl.DataFrame, pl.Series | None]:
    """Known transactions, new ones, and the order in which predictions are wanted."""
    transactions = load_transactions(new, labels_required=False).frame
    order = required_order(new)
    if order is not None:
        require_order_fits(order, transactions["MessageId"], new)
    return load_transactions(known, labels_required=True).frame, transactions, order
