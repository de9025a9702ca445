"""A federation whose stations are threads of this process, and a carrier that can lose replies.

Everything but the carrier is as deployed: cards, sealed envelopes, fragments, sessions, relay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import polars as pl

from pv4fad.deployment.card import PartyCard
from pv4fad.deployment.carrier import Failure
from pv4fad.deployment.envelope import Correspondence, Fragment
from pv4fad.deployment.exchange import Reply, Request, from_frames, to_frames
from pv4fad.deployment.jobs import NetworkMember
from pv4fad.deployment.members import AggregatorMember, BankMember
from pv4fad.deployment.party_folder import read_identity
from pv4fad.deployment.relay import relay_job
from pv4fad.deployment.station import Station
from pv4fad.deployment.status import Status, read_status
from pv4fad.lead.asking import Batching
from pv4fad.lead.data import load_holder
from pv4fad.lead.score import How
from pv4fad.lead.settings import TrainingSettings
from pv4fad.payments.challenge import transactions_file, write_partition
from pv4fad.payments.generate import Difficulty, GeneratedTables, Settings, generate_tables
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import parse_epsilon
from pv4fad.privacy.ledger import set_limit
from pv4fad.protocol.identity import create_identity
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.tables import padded
from pv4fad.run.scoring_record import ScoringRecord
from pv4fad.store.store import MemoryStore, Store
from pv4fad.workers import WorkerPool

# In every round something is asked, and some alerts are due to a bank's answer.
SETTINGS = TrainingSettings(epsilon="none", seed=33, alert_share=0.05)
PAPER = TrainingSettings(epsilon="none", model="paper", scoring="votes", trees=4, height=3, seed=33)


@cache
def generated_tables() -> GeneratedTables:
    return generate_tables(Settings(4000, 3, Difficulty.HARD, 3, anomaly_rate=0.03, accounts=1000))


def write_data(root: Path, banks: list[str], tables: GeneratedTables | None = None) -> Path:
    """A scenario in which these banks take part; returns its folder."""
    tables = generated_tables() if tables is None else tables
    scenario = root / "scenario01"
    for split in ("train", "test"):
        accounts = {bank: tables.accounts[bank] for bank in banks}
        write_partition(scenario / split, getattr(tables, split).transactions, accounts)
    return scenario


def transactions_of(scenario: Path, split: str) -> Path:
    return scenario / split / "swift" / transactions_file(split)


def make_card(store: Store, role: str, records: pl.DataFrame | None = None) -> PartyCard:
    """Keys for a store, and the card that shows them."""
    identity = create_identity(store).public().to_bytes().hex()
    if records is None:
        return PartyCard(role=role, name=store.party, identity=identity)
    names = tuple(records["Holder"].unique().sort())
    n = padded(records.height)
    return PartyCard(role=role, name=store.party, identity=identity, names=names, accounts=n)


@dataclass
class ThreadFederation:
    """Stores last as long as the object; stations can be started again."""

    root: Path
    scenario: Path
    banks: list[str]
    settings: TrainingSettings = SETTINGS
    stores: dict[str, Store] = field(default_factory=dict)
    cards: dict[str, PartyCard] = field(default_factory=dict)
    stations: dict[str, Station] = field(default_factory=dict)
    learned: list[ScoringRecord] = field(default_factory=list)
    """What each scoring revealed to the payment network."""

    def __post_init__(self) -> None:
        roles = {PAYMENT_NETWORK: PAYMENT_NETWORK, AGGREGATOR: AGGREGATOR}
        for name in (PAYMENT_NETWORK, AGGREGATOR, *self.banks):
            self.stores[name] = MemoryStore(name)
            role = roles.get(name, "bank")
            records = self.records(name) if role == "bank" else None
            self.cards[name] = make_card(self.stores[name], role, records)
        for bank in self.banks:
            with self.stores[bank].transaction() as tx:
                set_limit(tx, parse_epsilon("none"), datetime(2026, 1, 1, 12, tzinfo=UTC))
        for name in self.cards:
            self.start(name)

    def account_file(self, bank: str) -> Path:
        return self.scenario / "train" / bank / "bank_dataset.csv"

    def records(self, bank: str) -> pl.DataFrame:
        return load_holder(SCHEMA, self.account_file(bank), bank)

    def start(self, name: str) -> None:
        """A new station on the party's store; the old one ends after its present message."""
        if name in self.stations:
            self.stations[name].close()
        store, pool = self.stores[name], WorkerPool(0)
        identity = read_identity(store)
        member: NetworkMember | AggregatorMember | BankMember
        if name == AGGREGATOR:
            member = AggregatorMember(store, pool)
        elif name == PAYMENT_NETWORK:
            member = NetworkMember(
                store,
                pool,
                self.root,
                self.cards,
                schema=SCHEMA,
                transactions=transactions_of(self.scenario, "train"),
                new_transactions=transactions_of(self.scenario, "test"),
                training=self.settings,
                how=How(batching=Batching(layers=2)),
                learned=self.learned.append,
            )
        else:
            member = BankMember(
                store,
                pool,
                identity,
                self.account_file(name),
                self.cards,
                schema=SCHEMA,
                honest_banks=1,
                layers_per_day=1000,
            )
        correspondence = Correspondence(identity, self.cards)
        self.stations[name] = Station(member, correspondence, hold_s=2.0, settle_s=0.05)

    def run(
        self,
        job: str,
        number: int = 1,
        before_request: Callable[[ThreadFederation, str, Request], bool] = lambda *_: True,
        seen: Callable[[Fragment], None] = lambda _: None,
    ) -> Status:
        """Carry a job through; `before_request` may restart stations, and returns whether the
        reply arrives."""
        carrier = ThreadCarrier(self, before_request, seen)
        parties = list(self.cards)
        relay_job(self.root, parties, job, number, carrier, linger_s=0.05, patience_s=60)
        status = read_status(self.root)
        assert status is not None
        return status

    def close(self) -> None:
        for station in self.stations.values():
            station.close()


class ThreadCarrier:
    """Calls stations in threads, through the encoding that the line has."""

    def __init__(
        self,
        federation: ThreadFederation,
        before_request: Callable[[ThreadFederation, str, Request], bool],
        seen: Callable[[Fragment], None],
    ) -> None:
        self._federation = federation
        self._before_request = before_request
        self._seen = seen
        self._back: SimpleQueue[tuple[str, Reply | Failure]] = SimpleQueue()

    def send(self, party: str, request: Request) -> None:
        arrives = self._before_request(self._federation, party, request)
        Thread(target=self._call, args=(party, request, arrives), daemon=True).start()

    def receive(self) -> list[tuple[str, Reply | Failure]]:
        try:
            return [self._back.get(timeout=0.05)]
        except Empty:
            return []

    def _call(self, party: str, request: Request, arrives: bool) -> None:
        sent = from_frames(to_frames(request), Request)
        reply = self._federation.stations[party].exchange(sent)
        reply = from_frames(to_frames(reply), Reply)
        for fragment in reply.fragments:
            self._seen(fragment)
        self._back.put((party, reply if arrives else Failure("lost on purpose")))
