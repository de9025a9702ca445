"""Train a federation on one machine, from a data folder into a run folder.

    1. prepare   every party's own data becomes what it brings; nothing is written yet
    2. begin     run.json and the stores are made; the payment network keeps seed and nonce
    3. run       the parties exchange messages; after each one all is on disk
    4. finish    run.json says `finished`

Killed or failed in 3, the run is `unfinished` and `resume` carries on where it was: nothing is
drawn anew, nothing is spent twice.  In 2, nothing was sent, and the same call begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pv4fad.errors import ParameterError, ProtocolError, StoreError
from pv4fad.lead.bank_files import load_split
from pv4fad.lead.federation import LedFederation
from pv4fad.lead.new_run import (
    NewRun,
    TrainingRecord,
    begin_run,
    prepare_run,
    read_training_record,
)
from pv4fad.lead.prepare import bank_records
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.site import Site, load_banks, members
from pv4fad.parties.in_process import Observer
from pv4fad.parties.party import PAYMENT_NETWORK, RunRecords
from pv4fad.protocol.wire import Header
from pv4fad.run.document import RunDocument
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import PREPARE, Meter, PhaseCost, Progress, Report
from pv4fad.store.file import holds_store
from pv4fad.store.sealing import Passphrase
from pv4fad.store.store import Store


def train(
    split: Path,
    folder: RunFolder,
    settings: TrainingSettings,
    site: Site,
    report: Report = lambda _: None,
) -> RunDocument:
    """Train on a split folder of the challenge layout; the run folder must be new.

    Or hold a run of which nothing was sent: nobody has learnt or spent anything by it.
    """
    document = folder.read()
    if document is None or (
        document.state == "finished"
        or _training_of_proposed_run(folder, document, site.passphrase) is not None
    ):
        folder.require_new()
    return _start(split, folder, settings, site, report)


def resume(
    split: Path,
    folder: RunFolder,
    given: Mapping[str, Any],
    site: Site,
    report: Report = lambda _: None,
) -> RunDocument:
    """Carry on an unfinished run.  `given`: settings that must be those of the run."""
    document = folder.require_unfinished()
    private = _training_of_proposed_run(folder, document, site.passphrase)
    if private is None:
        raise StoreError(
            f"nothing was sent yet of the run in {folder.path}: repeat the whole command that"
            " began it, without --resume"
        )
    _require_same_settings(private.settings, given)
    # Of the payment network everything is in its store; the banks read their files again.
    accounts, schema = load_banks(split, folder, document), document.parameters.atoms
    records = {bank: bank_records(frame, schema) for bank, frame in accounts.items()}
    honest_banks = document.parameters.honest_banks
    with members(folder, records, site, create=True, honest_banks=honest_banks) as federation:
        return carry_through(folder, document, federation, federation.resume, report)


def _start(
    split: Path, folder: RunFolder, settings: TrainingSettings, site: Site, report: Report
) -> RunDocument:
    started, before = time.monotonic(), folder.read()
    new = _prepare(split, settings)
    prepared = PhaseCost(phase=PREPARE, seconds=time.monotonic() - started)
    report(Progress(prepared, total=0, under_way=False))
    document = RunDocument.of_new_run(new.parameters, new.commitment, datetime.now(UTC))
    document = document.model_copy(update={"phases": (prepared,)})
    if folder.read() != before:
        raise StoreError(f"another process has begun a run in {folder.path} meanwhile")
    folder.write(document)
    honest_banks = new.parameters.honest_banks
    with members(folder, new.records, site, create=True, honest_banks=honest_banks) as federation:
        begin = partial(begin_run, federation, new)
        return carry_through(folder, document, federation, begin, report)


def _prepare(split: Path, settings: TrainingSettings) -> NewRun:
    tables = load_split(split)
    accounts = {bank: table.frame for bank, table in tables.accounts.items()}
    return prepare_run(tables.transactions.frame, accounts, settings)


def carry_through(
    folder: RunFolder,
    document: RunDocument,
    federation: LedFederation,
    begin: Callable[[Observer], None],
    report: Report,
) -> RunDocument:
    """From the first message, or the first one sent again, to the model."""
    meter = Meter(document.parameters, report, phases=document.phases, traffic=document.traffic)

    def observe(message: Header, size_bytes: int) -> None:
        meter(message, size_bytes)
        folder.write(_with_costs(document, meter))

    begin(observe)
    meter.stop()
    if stage_of(federation.payment_network.store, document.run_id) != "Trained":
        raise ProtocolError(f"run {document.run_id} came to a halt before the model was complete")
    finished = _with_costs(document, meter).model_copy(
        update={"state": "finished", "finished": datetime.now(UTC)}
    )
    folder.write(finished)
    return finished


def _with_costs(document: RunDocument, meter: Meter) -> RunDocument:
    return document.model_copy(update={"phases": meter.phases, "traffic": meter.traffic})


def _training_of_proposed_run(
    folder: RunFolder, document: RunDocument, passphrase: Passphrase
) -> TrainingRecord | None:
    """None if the payment network has not proposed the run yet."""
    if not holds_store(folder.path / PAYMENT_NETWORK):
        return None
    with folder.stores([PAYMENT_NETWORK], passphrase) as stores:
        store = stores[PAYMENT_NETWORK]
        if stage_of(store, document.run_id) is None:
            return None
        return read_training_record(store, document.run_id)


def stage_of(store: Store, run_id: str) -> str | None:
    """The name of the party's stage in a run."""
    with store.transaction() as tx:
        run = RunRecords(tx, run_id)
        return None if run.find("stage") is None else str(run.get_json("stage")[0])


def _require_same_settings(stored: TrainingSettings, given: Mapping[str, Any]) -> None:
    wanted = TrainingSettings(**({"epsilon": stored.epsilon} | dict(given)))
    for name in given:
        if getattr(wanted, name) != getattr(stored, name):
            raise ParameterError(
                f"{name} {getattr(wanted, name)}: the run to resume has"
                f" {name} {getattr(stored, name)}; leave the option out"
            )
