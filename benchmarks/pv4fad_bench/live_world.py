"""A trained federation in folders, and its processes, for `pv4fad bench live` and `soak`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pv4fad.cli.federation_demo import free_ports
from pv4fad.deployment.card import directory
from pv4fad.deployment.job_notes import Notes, write_notes
from pv4fad.deployment.new_party import NewParty, create_party
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.evidence.trusted import trusted_bits
from pv4fad.lead.data import all_records, load_holders, load_rows
from pv4fad.lead.judging import Judging
from pv4fad.lead.prepare import prepare_run
from pv4fad.lead.rows import LeadData
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.simulate import simulate
from pv4fad.lead.train import new_document, train
from pv4fad.payments.challenge import transactions_file, write_partition
from pv4fad.payments.generate import Difficulty, Settings, generate_tables
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import parse_epsilon
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.run.folder import RunFolder
from pv4fad.run.meter import Meter
from pv4fad.service.access import Tokens
from pv4fad.service.intake import texts_of
from pv4fad.service.journal import Journal, journal_key
from pv4fad.store.sealing import Passphrase
from pv4fad.tables.sides import Sides
from pv4fad.verify.comparison import joined_atoms
from pv4fad.workers import WorkerPool

SHARE = 0.01
SERVICE = "service"
_PASSPHRASE = "of a federation that lasts for minutes"  # noqa: S105
_READY_WITHIN_S = 300.0
_LATER = pl.duration(days=40)


@dataclass(frozen=True)
class Payments:
    """Payments of accounts that banks have matched: those of training, once more."""

    rows: pl.DataFrame = field(repr=False)
    account: NDArray[np.int64] = field(repr=False)
    """(payments, sides): which account; -1 if no bank of the federation keeps it."""
    positive: NDArray[np.bool_] = field(repr=False)
    """(payments,): whether the record of some account is not ordinary."""

    def bodies(self, rows: NDArray[np.int64], ids: Sequence[str], start: int) -> list[bytes]:
        """Each payment as JSON, under these ids: a second after the other, from `start` s on."""
        times = pl.duration(seconds=pl.int_range(start, start + len(rows)))
        moved = _moved(self.rows[rows], pl.lit(self.rows["Timestamp"].max()) + times)
        frame = moved.with_columns(
            pl.Series("MessageId", ids), pl.Series("UETR", [str(uuid4()) for _ in ids])
        )
        names = frame.columns
        values = (json.loads(text) for text in texts_of(frame))
        return [json.dumps(dict(zip(names, one, strict=True))).encode() for one in values]

    def first_dealings(self) -> NDArray[np.int64]:
        """Payments in an order in which each has an account that none before it has."""
        seen: set[int] = {-1}
        chosen = []
        for row, accounts in enumerate(self.account.tolist()):
            if not seen.issuperset(accounts):
                seen.update(accounts)
                chosen.append(row)
        return np.array(chosen, np.int64)

    def among(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """All payments that have no accounts but those of these payments."""
        accounts = np.setdiff1d(self.account[rows], [-1])
        known = np.isin(self.account, accounts)
        return np.flatnonzero((known | (self.account == -1)).all(axis=1) & known.any(axis=1))


class LiveWorld:
    """Folders of all parties, trained in this process."""

    def __init__(self, root: Path, *, transactions: int, banks: int, accounts: int) -> None:
        self.root = root
        settings = Settings(transactions, banks, Difficulty.CHALLENGE, 3, accounts=accounts)
        tables = generate_tables(settings)
        self.banks = list(tables.accounts)
        split = root / "data" / "train"
        write_partition(split, tables.train.transactions, tables.accounts)
        path = split / "swift" / transactions_file("train")
        (port,) = free_ports(1)
        parties = (AGGREGATOR, PAYMENT_NETWORK, *self.banks)
        for name in parties:
            new = _new_party(name, split, path, f"127.0.0.1:{port}")
            create_party(root / name, new, lambda: Passphrase(_PASSPHRASE))
        for name in parties:
            for other in parties:
                PartyFolder(root / name).import_card(root / other / "card.json")
        self._train(split, path)
        folder = root / PAYMENT_NETWORK
        self.token = Tokens(folder).create("bench", "payments")
        self.metrics_token = Tokens(folder).create("watch", "metrics")
        Tokens(folder).create("nobody", "desk")

    def _train(self, split: Path, path: Path) -> None:
        network = PartyFolder(self.root / PAYMENT_NETWORK)
        records = load_holders(SCHEMA, split, self.banks)
        rows = load_rows(SCHEMA, path, labels_required=True)
        data = LeadData(SCHEMA, rows, directory(network.cards()))
        training = TrainingSettings(epsilon="none", seed=5, alert_share=SHARE)
        sizes = {bank: frame.height for bank, frame in records.items()}
        new = prepare_run(data, sizes, training)
        with ExitStack() as opened:
            pool = opened.enter_context(WorkerPool(None))
            stores = {
                name: opened.enter_context(
                    PartyFolder(self.root / name).open_store(Passphrase(_PASSPHRASE))
                )
                for name in (AGGREGATOR, PAYMENT_NETWORK, *self.banks)
            }
            federation = simulate(
                all_records(SCHEMA, records), pool, stores=stores, first_limit=None
            )
            meter = Meter(lambda _: None)
            run = RunFolder(network.path / "runs" / new.parameters.run_id)
            train(federation, new, new_document(new, meter), meter, run.write)
            write_notes(stores[PAYMENT_NETWORK], Notes(run_id=new.parameters.run_id))
            store = stores[PAYMENT_NETWORK]
            judging = Judging.stored(store, new.parameters, data.directory, SHARE)
        self.payments = _payments(rows, judging, records)

    def set_tick(self, tick_ms: int | None) -> None:
        path = self.root / PAYMENT_NETWORK / "party.toml"
        text = path.read_text(encoding="utf-8").split("\n[live]")[0]
        if tick_ms is not None:
            text += f"\n[live]\ntick-ms = {tick_ms}\n"
        path.write_text(text, encoding="utf-8")

    def forget_payments(self) -> None:
        """Begin a new journal."""
        journal = self.root / PAYMENT_NETWORK / "live"
        for file in (*journal.glob("journal.db*"), *journal.glob("known.bin")):
            file.unlink()

    def journal(self) -> dict[str, str]:
        """Payment id → answer, as the journal has them; the service must have ended."""
        folder = PartyFolder(self.root / PAYMENT_NETWORK)
        with folder.visit_store(Passphrase(_PASSPHRASE)) as store:
            key = journal_key(store)
        with Journal.open(folder.path, key) as journal:
            return {one.payment_id: one.answer for one in journal.decisions()}

    def commands(self, port: int) -> dict[str, list[str]]:
        """By process: hub, banks, and the service at this port."""
        service = ["-m", "pv4fad_bench.live_server", str(self.root / PAYMENT_NETWORK), str(port)]
        words = {
            name: ["-m", "pv4fad", "party", "run", str(self.root / name)]
            for name in (AGGREGATOR, *self.banks)
        }
        return words | {SERVICE: service}

    @contextmanager
    def federation(self) -> Iterator[dict[str, int]]:
        """Hub and banks in processes of their own."""
        others = {name: words for name, words in self.commands(0).items() if name != SERVICE}
        with self._started(others) as processes:
            yield {name: one.pid for name, one in processes.items()}

    @contextmanager
    def service(self, federation: dict[str, int]) -> Iterator[Running]:
        """The service beside these, with an empty journal: all accounts are new to it."""
        self.forget_payments()
        (port,) = free_ports(1)
        with self._started({SERVICE: self.commands(port)[SERVICE]}) as processes:
            found = Running(federation | {SERVICE: processes[SERVICE].pid}, port, self)
            until = time.monotonic() + _READY_WITHIN_S
            while not found.is_ready():
                if processes[SERVICE].poll() is not None or time.monotonic() > until:
                    raise RuntimeError((self.root / "service.log").read_text())
                time.sleep(0.2)
            yield found

    @contextmanager
    def _started(
        self, commands: dict[str, list[str]]
    ) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
        processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            for name, words in commands.items():
                processes[name] = self.start(name, words)
            yield processes
        finally:
            for process in processes.values():
                process.terminate()
            for process in processes.values():
                process.wait()

    def start(self, name: str, words: list[str]) -> subprocess.Popen[bytes]:
        """A process of one of these `commands`."""
        with (self.root / f"{name}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                [sys.executable, *words],
                env=os.environ | {"PV4FAD_PASSPHRASE": _PASSPHRASE},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )


@dataclass(frozen=True)
class Running:
    """The processes of a federation."""

    pids: dict[str, int]
    port: int
    world: LiveWorld

    def is_ready(self) -> bool:
        """The service takes payments, and all banks answer."""
        try:
            answering = [
                value for name, value in self.metrics().items() if "bank_answering" in name
            ]
        except OSError:
            return False
        return bool(answering) and all(answering) and self.of("pv4fad_live_queries_total") > 20

    def metrics(self) -> dict[str, float]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/metrics",
            headers={"authorization": f"Bearer {self.world.metrics_token}"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def of(self, name: str) -> float:
        """The sum of a metric over its labels."""
        return sum(value for known, value in self.metrics().items() if known.startswith(name))


def _new_party(name: str, split: Path, transactions: Path, hub: str) -> NewParty:
    if name == AGGREGATOR:
        return NewParty("aggregator", name, hub)
    if name == PAYMENT_NETWORK:
        return NewParty("payment-network", name, hub, data=transactions, epsilon="none")
    accounts = split / name / "bank_dataset.csv"
    return NewParty("bank", name, hub, data=accounts, limit=parse_epsilon("none"))


def _payments(rows: pl.DataFrame, judging: Judging, records: dict[str, pl.DataFrame]) -> Payments:
    # Of payments over several banks only some rows say which bank keeps an account.
    rows = rows.filter(pl.col("UETR").is_unique())
    keys = Sides(SCHEMA, rows).side_keys()
    accounts = pl.concat(keys).unique().sort("Holder", "Id").with_row_index("account")
    atoms = joined_atoms(SCHEMA, accounts.drop("account"), records, judging.absent)
    flags = [trusted_bits(atoms, one.atoms, absent=one.absent) for one in judging.sets]
    flagged = np.any(np.stack(flags), axis=0)
    inside = accounts["Holder"].is_in(list(judging.directory)).fill_null(value=False).to_numpy()
    of_side = [
        side.join(accounts, on=["Holder", "Id"], how="left", nulls_equal=True)["account"].to_numpy()
        for side in keys
    ]
    account = np.stack(of_side, axis=1).astype(np.int64)
    known = inside[account]
    positive = np.asarray((flagged[account].astype(bool) & known).any(axis=1))
    new_ids = pl.Series("UETR", [str(uuid4()) for _ in range(rows.height)])
    again = _moved(rows.drop("Label"), pl.col("Timestamp") + _LATER).with_columns(new_ids)
    return Payments(again, np.where(known, account, -1), positive)


def _moved(rows: pl.DataFrame, time: pl.Expr) -> pl.DataFrame:
    """The same payments at another time; each is settled as many days later as it was."""
    delay = pl.col("SettlementDate") - pl.col("Timestamp").dt.date()
    return rows.with_columns(Timestamp=time, SettlementDate=time.dt.date() + delay)
