"""A federation whose stations are threads of this process, and connections that can break.

Everything but the connections is as deployed: cards, sealed envelopes, fragments, sessions, relay.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Condition, Thread

import polars as pl

from pv4fad.audit.notary import Notary, known_keys
from pv4fad.deployment.card import PartyCard
from pv4fad.deployment.certificates import new_certificate
from pv4fad.deployment.correspondence import Correspondence
from pv4fad.deployment.envelope import Fragment
from pv4fad.deployment.exchange import Reply, Request, from_bytes, to_bytes
from pv4fad.deployment.hub.desk import Desk
from pv4fad.deployment.jobs import NetworkMember
from pv4fad.deployment.members import AggregatorMember, BankMember
from pv4fad.deployment.party_folder import read_identity
from pv4fad.deployment.station import Member, Station
from pv4fad.deployment.status import Status
from pv4fad.deployment.work import FileWork
from pv4fad.errors import ProtocolError
from pv4fad.lead.asking import Batching
from pv4fad.lead.data import load_holder
from pv4fad.lead.score import How
from pv4fad.lead.settings import TrainingSettings
from pv4fad.metrics.figures import Figures
from pv4fad.payments.challenge import transactions_file, write_partition
from pv4fad.payments.generate import Difficulty, GeneratedTables, Settings, generate_tables
from pv4fad.payments.schema import SCHEMA
from pv4fad.privacy.epsilon import parse_epsilon
from pv4fad.privacy.ledger import set_limit
from pv4fad.protocol.identity import create_identity
from pv4fad.protocol.propose.policy import Policy
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.score.metering import DEFAULT_BUDGET
from pv4fad.protocol.tables import padded
from pv4fad.run.scoring_record import ScoringRecord
from pv4fad.store.store import MemoryStore, Store
from pv4fad.workers import WorkerPool

# In every round something is asked, and some alerts are due to a bank's answer.
SETTINGS = TrainingSettings(epsilon="none", seed=33, alert_share=0.05)
Arrives = Callable[["ThreadFederation", str, Request | Reply], bool]
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


@cache
def any_certificate() -> str:
    """For cards of parties that do not connect."""
    with TemporaryDirectory() as folder:
        return new_certificate(Path(folder) / "key")


def make_card(store: Store, role: str, records: pl.DataFrame | None = None) -> PartyCard:
    """Keys for a store, and the card that shows them."""
    card = PartyCard(
        role=role,
        name=store.party,
        identity=create_identity(store).public().to_bytes().hex(),
        certificate=any_certificate(),
    )
    if records is None:
        return card
    names = tuple(records["Holder"].unique().sort())
    return card.model_copy(update={"names": names, "accounts": padded(records.height)})


@dataclass
class ThreadFederation:
    """Stores last as long as the object; stations can be started again."""

    root: Path
    scenario: Path
    banks: list[str]
    settings: TrainingSettings = SETTINGS
    stores: dict[str, Store] = field(default_factory=dict)
    cards: dict[str, PartyCard] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    stations: dict[str, Station] = field(default_factory=dict)
    learned: list[ScoringRecord] = field(default_factory=list)
    """What each scoring revealed to the payment network."""

    def __post_init__(self) -> None:
        if not self.stores:
            self._create_parties()
        for name in self.cards:
            self.start(name)

    def _create_parties(self) -> None:
        roles = {PAYMENT_NETWORK: PAYMENT_NETWORK, AGGREGATOR: AGGREGATOR}
        for name in (PAYMENT_NETWORK, AGGREGATOR, *self.banks):
            self.stores[name] = MemoryStore(name)
            role = roles.get(name, "bank")
            records = self.records(name) if role == "bank" else None
            self.cards[name] = make_card(self.stores[name], role, records)
        for bank in self.banks:
            with self.stores[bank].transaction() as tx:
                set_limit(tx, parse_epsilon("none"), datetime(2026, 1, 1, 12, tzinfo=UTC))

    def copied_to(self, root: Path) -> ThreadFederation:
        """The same parties with copies of all that they have, to go on in another way."""
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        return ThreadFederation(
            root,
            root / self.scenario.relative_to(self.root),
            self.banks,
            self.settings,
            {name: MemoryStore(name, store.snapshot()) for name, store in self.stores.items()},
            self.cards,
        )

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
        member: Member
        if name == AGGREGATOR:
            member = AggregatorMember(store, pool)
        elif name == PAYMENT_NETWORK:
            work = FileWork(
                self.root,
                SCHEMA,
                transactions_of(self.scenario, "train"),
                transactions_of(self.scenario, "test"),
                self.settings,
                How(batching=Batching(layers=2)),
                learned=self.learned.append,
            )
            member = NetworkMember(store, pool, self.root, self.cards, schema=SCHEMA, work=work)
        else:
            member = BankMember(
                store,
                pool,
                identity,
                self.account_file(name),
                self.cards,
                schema=SCHEMA,
                policy=Policy(honest_banks=1),
                layers_per_day=1000,
                budget=DEFAULT_BUDGET,
            )
        correspondence = Correspondence(identity, self.cards)
        self.members[name] = member
        notary = Notary(store, identity, known_keys(card.public for card in self.cards.values()))
        self.stations[name] = Station(member, correspondence, notary)

    def run(
        self,
        job: str = "",
        arrives: Arrives = lambda *_: True,
        seen: Callable[[Fragment], None] = lambda _: None,
    ) -> Status:
        """Carry a job through; without a name, the one that a hub was doing when it was killed.

        `arrives` may restart stations, and says whether what is said to or by a party arrives; if
        not, its connection breaks.
        """
        hub = ThreadHub(self, arrives, seen)
        try:
            status = hub.carry_through(job)
        finally:
            hub.close()
        if status.state == "failed":
            raise ProtocolError(status.error)
        return status

    def close(self) -> None:
        for station in self.stations.values():
            station.close()


class ThreadHub:
    """Passes on what stations and desk say, through the encoding that the line has."""

    def __init__(
        self,
        federation: ThreadFederation,
        arrives: Arrives,
        seen: Callable[[Fragment], None],
    ) -> None:
        self._federation = federation
        self._arrives = partial(arrives, federation)
        self._seen = seen
        self._changed = Condition()
        self._killed: BaseException | None = None
        self._closed = False
        self._desk = Desk(federation.root, list(federation.cards), Figures())
        self._threads = [
            Thread(target=self._listen, args=(party,), daemon=True) for party in federation.cards
        ]

    def carry_through(self, job: str) -> Status:
        if job:
            self._desk.start(job)
        for thread in self._threads:
            thread.start()
        with self._changed:
            for party in self._federation.cards:
                self._tell(party)
            assert self._changed.wait_for(self._is_over, 600), "the job does not end"
        if self._killed is not None:
            raise self._killed
        status = self._desk.status()
        assert status is not None
        return status

    def close(self) -> None:
        with self._changed:
            self._closed = True
        for station in self._federation.stations.values():
            station.new_line()  # ends the ones before

    def _is_over(self) -> bool:
        status = self._desk.status()
        return self._killed is not None or (status is not None and status.state != "running")

    def _listen(self, party: str) -> None:
        """All that a station says, through one connection after the other."""
        while not self._closed:
            line = self._federation.stations[party].new_line()
            while (reply := line.next()) is not None and not self._closed:
                with self._changed:
                    arrived = self._take(party, from_bytes(to_bytes(reply), Reply))
                    self._changed.notify_all()
                if not arrived:
                    break
            time.sleep(0.01)  # the station is closed, and another one about to be there

    def _take(self, party: str, reply: Reply) -> bool:
        """Whether it arrived."""
        if self._killed is not None:
            return True
        try:
            if not self._arrives(party, reply):
                self._desk.lost(party, "lost on purpose")
                return False
            for fragment in reply.fragments:
                self._seen(fragment)
            for woken in self._desk.take(party, reply):
                self._tell(woken)
        except BaseException as error:
            self._killed = error
        return True

    def _tell(self, party: str) -> None:
        while (request := self._desk.next(party)) is not None:
            if not self._arrives(party, request):
                self._desk.lost(party, "lost on purpose")
                self._federation.stations[party].new_line()  # the listening thread makes another
                return
            self._federation.stations[party].take(from_bytes(to_bytes(request), Request))
