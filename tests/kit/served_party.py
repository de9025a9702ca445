"""Folders of a deployed federation with a model that was really trained, and its service."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
import polars as pl
from tests.kit.in_threads import transactions_of, write_data
from tests.kit.live_banks import trusted_table
from tests.kit.live_service import free_port
from tests.kit.small_federation import telling_tables
from tests.kit.waiting import comes_true

from pv4fad.deployment.card import directory
from pv4fad.deployment.job_notes import Notes, read_notes, write_notes
from pv4fad.deployment.new_party import NewParty, create_party
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.lead.data import all_records, load_holders, load_rows
from pv4fad.lead.judging import Judging
from pv4fad.lead.prepare import prepare_run
from pv4fad.lead.rows import LeadData, new_rows
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.simulate import simulate
from pv4fad.lead.train import new_document, train
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import parse_epsilon
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import Meter
from pv4fad.store.sealing import Passphrase
from pv4fad.workers import WorkerPool

PASSPHRASE = "correct horse battery"
BANKS = ["bank01", "bank02"]
PATIENCE_S = 300
PATIENT = "\n[live]\ntimeout-ms = 60000\n"
"""In the settings of a payment network: it decides without a bank only if the bank is away."""
SETTINGS = TrainingSettings(epsilon="none", seed=5, alert_share=0.05)


def trained_parties(root: Path) -> Path:
    """Every party in its folder; the payment network and its banks have trained."""
    scenario = write_data(root / "data", BANKS, telling_tables())
    hub = f"127.0.0.1:{free_port()}"
    for name in (AGGREGATOR, PAYMENT_NETWORK, *BANKS):
        create_party(root / name, _new(name, scenario, hub), lambda: Passphrase(PASSPHRASE))
    for name in (AGGREGATOR, PAYMENT_NETWORK, *BANKS):
        for other in (AGGREGATOR, PAYMENT_NETWORK, *BANKS):
            PartyFolder(root / name).import_card(root / other / "card.json")
    network = PartyFolder(root / PAYMENT_NETWORK)
    accounts = load_holders(SCHEMA, scenario / "train", BANKS)
    rows = load_rows(SCHEMA, transactions_of(scenario, "train"), labels_required=True)
    data = LeadData(SCHEMA, rows, directory(network.cards()))
    new = prepare_run(data, {bank: frame.height for bank, frame in accounts.items()}, SETTINGS)
    with ExitStack() as stack, WorkerPool(0) as pool:
        stores = {
            name: stack.enter_context(PartyFolder(root / name).open_store(Passphrase(PASSPHRASE)))
            for name in (AGGREGATOR, PAYMENT_NETWORK, *BANKS)
        }
        records = all_records(SCHEMA, accounts)
        federation = simulate(records, pool, stores=stores, first_limit=None)
        meter = Meter(lambda _: None)
        folder = RunFolder(network.path / "runs" / new.parameters.run_id)
        train(federation, new, new_document(new, meter), meter, folder.write)
        write_notes(stores[PAYMENT_NETWORK], Notes(run_id=new.parameters.run_id))
    return scenario


def payments_to_come(scenario: Path) -> pl.DataFrame:
    """Those of the test period, and the anomalies of training once more: these ask banks."""
    before, new = _rows(scenario, "train"), _rows(scenario, "test")
    later = pl.duration(days=40)
    again = before.filter(pl.col("Label") == 1).with_columns(
        pl.col("MessageId") + "-again", pl.col("Timestamp") + later
    )
    both = [one.drop("Label", strict=False) for one in (new, again)]
    return pl.concat(both, how="vertical_relaxed").sort("Timestamp", maintain_order=True)


def _rows(scenario: Path, split: str) -> pl.DataFrame:
    return load_rows(SCHEMA, transactions_of(scenario, split), labels_required=split == "train")


def trusted_decisions(root: Path, scenario: Path) -> pl.DataFrame:
    """Predictions of somebody who sees the records of all accounts that the banks have matched."""
    network = PartyFolder(root / PAYMENT_NETWORK)
    with network.visit_store(Passphrase(PASSPHRASE)) as store:
        run_id = read_notes(store).run_id
        parameters = RunFolder(network.path / "runs" / run_id).require_finished().parameters
        banks = directory(network.cards())
        judging = Judging.stored(store, parameters, banks, SETTINGS.alert_share)
        payments = new_rows(SCHEMA, payments_to_come(scenario), _rows(scenario, "train"))
        seen = np.array([name in banks for name, _ in payments.keys])
        lead = PaymentNetwork(store, WorkerPool(0))
        seen[lead.unknown_accounts(run_id, payments.keys)] = False
    records = load_holders(SCHEMA, scenario / "train", BANKS)
    return trusted_table(judging, payments, records, seen)


def _new(name: str, scenario: Path, hub: str) -> NewParty:
    if name == AGGREGATOR:
        return NewParty("aggregator", name, hub)
    if name == PAYMENT_NETWORK:
        data = transactions_of(scenario, "train")
        return NewParty("payment-network", name, hub, data=data, epsilon="none")
    accounts = scenario / "train" / name / "bank_dataset.csv"
    return NewParty("bank", name, hub, data=accounts, limit=parse_epsilon("none"))


@contextmanager
def served(folder: Path, role: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`pv4fad serve` in a process of its own, once it answers; its address."""
    with being_served(folder, role) as (address, process):
        assert comes_true(lambda: process.poll() is not None or is_there(address), PATIENCE_S)
        yield address, process


@contextmanager
def being_served(
    folder: Path, role: str, port: int | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The same, at once."""
    port = port or free_port()
    with _process(folder, "serve", role, str(folder), "--port", str(port)) as process:
        yield f"http://127.0.0.1:{port}", process


@contextmanager
def taking_part(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`pv4fad party run` in a process of its own."""
    with _process(folder, "party", "run", str(folder)) as process:
        yield process


def command(root: Path, *words: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """`pv4fad` with these words, in a process of its own."""
    return _process(root / "command", *words)


@contextmanager
def _process(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder.parent / f"{folder.name}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pv4fad", *words],
            env=os.environ | {"PV4FAD_PASSPHRASE": PASSPHRASE},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()  # nothing is left behind
            process.wait()


def is_there(address: str, page: str = "login") -> bool:
    """Whether somebody serves this page there."""
    try:
        return httpx.get(f"{address}/{page}", timeout=30).status_code == 200
    except httpx.HTTPError:
        return False
