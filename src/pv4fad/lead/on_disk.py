"""Train, score and refresh with all parties on one machine, from data folders into a run folder.

    1. prepare   every party's own data becomes what it brings; nothing is written yet
    2. begin     run.json and the stores are made; the payment network keeps seed and nonce
    3. run       the parties exchange messages; after each one all is on disk
    4. finish    run.json says `finished`, or the predictions are written in one piece

Training that is killed or fails in 3 is `unfinished`, and `resume` carries on.  In 2, nothing was
sent, and the same call begins again.  Scoring and refreshing carry on by the same call.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pv4fad.errors import ParameterError, StoreError
from pv4fad.files import require_new_file
from pv4fad.lead import refresh as refreshing
from pv4fad.lead import train as training
from pv4fad.lead.data import all_records, bank_directory, load_holders, load_split
from pv4fad.lead.desk_labels import read_desk_labels
from pv4fad.lead.prepare import NewRun, TrainingRecord, prepare_run, read_training_record
from pv4fad.lead.rows import LeadData
from pv4fad.lead.score import How, Scored, score_files
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.simulate import Site
from pv4fad.parties.network_stages import is_proposed
from pv4fad.payments.challenge import read_partition
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import Meter, PhaseCost, Report
from pv4fad.schema import Schema
from pv4fad.store.file import holds_store
from pv4fad.store.sealing import RootKey


def train(
    schema: Schema,
    split: Path,
    folder: RunFolder,
    settings: TrainingSettings,
    site: Site,
    *,
    desk_labels: Path | None = None,
    report: Report = lambda _: None,
) -> RunDocument:
    """Train on a split folder of the challenge layout; the run folder must be new.

    Or hold a run of which nothing was sent: nothing was disclosed or spent by it.
    `desk_labels`: a file with labels from the alert desk, in place of those of the data.
    """
    before = folder.read()
    if before is None or (
        before.state == "finished"
        or _training_of_proposed_run(folder, before, site.root_key) is not None
    ):
        folder.require_new()
    meter = Meter(report)
    new, records = _prepare(schema, split, settings, desk_labels)
    document = training.new_document(new, meter)
    if folder.read() != before:
        raise StoreError(f"another process has begun a run in {folder.path} meanwhile")
    folder.write(document)
    with site.open(folder, records, create=True) as federation:
        return training.train(federation, new, document, meter, folder.write)


def resume(
    split: Path,
    folder: RunFolder,
    given: Mapping[str, Any],
    site: Site,
    report: Report = lambda _: None,
) -> RunDocument:
    """Carry on an unfinished run.  `given`: settings that must be those of the run."""
    document = folder.require_unfinished()
    private = _training_of_proposed_run(folder, document, site.root_key)
    if private is None:
        raise StoreError(
            f"nothing was sent yet of the run in {folder.path}: repeat the whole command that"
            " began it, without --resume"
        )
    _require_same_settings(private.settings, given)
    meter, parameters = training.resumed_meter(document, report), document.parameters
    # The payment network has everything in its store; the banks read their files again.
    schema = document.data_schema
    records = all_records(schema, load_holders(schema, split, parameters.banks))
    with site.open(folder, records, create=True) as federation:
        return training.resume(federation, document, meter, folder.write)


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
    parameters, schema = document.parameters, document.data_schema
    require_new_file(out)
    meter, (known, new) = Meter(report), splits
    accounts = load_holders(schema, new, parameters.banks)
    records, directory = all_records(schema, accounts), bank_directory(accounts)
    files = (read_partition(known).transactions, read_partition(new).transactions)
    with site.open(folder, records) as federation:
        return score_files(federation, parameters, files, directory, out, how=how, meter=meter)


def refresh(
    split: Path, folder: RunFolder, site: Site, report: Report = lambda _: None
) -> tuple[PhaseCost, ...]:
    """Match all accounts of a run again, with the account files in `split`; returns the costs."""
    document = folder.require_finished()
    parameters, schema = document.parameters, document.data_schema
    meter = Meter(report)
    accounts = load_holders(schema, split, parameters.banks)
    records, directory = all_records(schema, accounts), bank_directory(accounts)
    with site.open(folder, records) as federation:
        refreshing.refresh(federation, parameters, directory, meter)
    return meter.phases


def _prepare(
    schema: Schema, split: Path, settings: TrainingSettings, desk_labels: Path | None
) -> tuple[NewRun, dict[str, BankRecords]]:
    """What the parties bring; the rows themselves, hundreds of megabytes, are not needed longer."""
    data = load_split(schema, split)
    sizes = {bank: frame.height for bank, frame in data.records.items()}
    lead = LeadData(schema, data.rows, bank_directory(data.records))
    labels = None if desk_labels is None else read_desk_labels(schema, desk_labels)
    new = prepare_run(lead, sizes, settings, labels)
    return new, all_records(schema, data.records)


def _training_of_proposed_run(
    folder: RunFolder, document: RunDocument, root_key: RootKey
) -> TrainingRecord | None:
    """None if the payment network has not proposed the run yet."""
    if not holds_store(folder.path / PAYMENT_NETWORK):
        return None
    with folder.stores([PAYMENT_NETWORK], root_key) as stores:
        store = stores[PAYMENT_NETWORK]
        if not is_proposed(store, document.run_id):
            return None
        return read_training_record(store, document.run_id)


def _require_same_settings(stored: TrainingSettings, given: Mapping[str, Any]) -> None:
    wanted = TrainingSettings(**({"epsilon": stored.epsilon} | dict(given)))
    for name in given:
        if getattr(wanted, name) != getattr(stored, name):
            raise ParameterError(
                f"{name} {getattr(wanted, name)}: the run to resume has"
                f" {name} {getattr(stored, name)}; leave the option out"
            )
