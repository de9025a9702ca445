"""`pv4fad party run`: a party's station and its carrier, until a signal ends them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager

from pv4fad.audit.catch_up import require_caught_up
from pv4fad.audit.notary import Notary, known_keys
from pv4fad.deployment.bank_answers import BankAnswers
from pv4fad.deployment.carrier import Carrier
from pv4fad.deployment.correspondence import Correspondence
from pv4fad.deployment.jobs import NetworkMember
from pv4fad.deployment.members import AggregatorMember, BankMember
from pv4fad.deployment.party_figures import show_aggregator, show_bank, show_station
from pv4fad.deployment.party_folder import PartyFolder, read_identity
from pv4fad.deployment.station import Member, Station
from pv4fad.deployment.work import FileWork
from pv4fad.errors import DataError, StoreError
from pv4fad.metrics.endpoint import May, endpoint
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.live.bank import LiveAnswers
from pv4fad.protocol.live.booking import Booking
from pv4fad.protocol.live.budget import TickBudget
from pv4fad.protocol.roles import AGGREGATOR, BANK
from pv4fad.protocol.score.metering import Budget
from pv4fad.run.scoring_record import ScoringRecord
from pv4fad.store.sealing import RootKey
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool


def run_party(
    folder: PartyFolder,
    root_key: RootKey,
    carrier: Carrier,
    ready: Callable[[], None],
    *,
    learned: Callable[[ScoringRecord], None],
    may_read: May,
) -> None:
    """Run until SIGINT or SIGTERM.

    `ready` is called when the carrier runs, `learned` after each scoring of the payment network.
    `may_read`: whether a token is for metrics.
    """
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with (
        opened_station(folder, root_key, carrier, learned) as station,
        figures_shown(folder, station, may_read),
    ):
        carrier.serve(folder, station, ended, ready)


@contextmanager
def figures_shown(folder: PartyFolder, station: Station, may_read: May) -> Iterator[None]:
    """The station's figures at the address of party.toml, if it has one, until the block ends."""
    listen = folder.metrics_address()
    if listen is None:
        yield
        return
    with endpoint(listen, station.figures, None if listen.is_loopback else may_read):
        yield


@contextmanager
def opened_station(
    folder: PartyFolder,
    root_key: RootKey,
    carrier: Carrier,
    learned: Callable[[ScoringRecord], None] = lambda _: None,
) -> Iterator[Station]:
    """The station of a party, with its store and its workers, until the block ends."""
    settings, cards = folder.settings(), folder.complete_cards()
    with ExitStack() as opened:
        # A live service works beside the payment network's station; any party makes backups and
        # shows its log while it runs.
        store = opened.enter_context(folder.open_store(root_key, shared=True))
        pool = opened.enter_context(WorkerPool(settings.workers))
        identity = own_identity(folder, store)

        def errand(work: Callable[[], None]) -> Future[None]:
            return station.errand(work)

        per_day = settings.live_ticks_per_day
        booking = Booking(store, errand, per_day)
        counted = folder.path / "live" / "ticks.json"
        ticks = TickBudget(counted, per_day, is_booked=booking.covers)
        queries = LiveAnswers(settings.name, ticks.spend)
        member = _member(folder, store, pool, learned, queries)
        correspondence = Correspondence(identity, cards)
        notary = Notary(store, identity, known_keys(card.public for card in cards.values()))
        station = Station(member, correspondence, notary, window_bytes=carrier.window_bytes)
        show_station(station, folder, pool)
        if settings.role == BANK:
            station.live = BankAnswers(store, member.handle, station.errand, queries)
            show_bank(station, folder, store, queries, ticks)
        if settings.role == AGGREGATOR:
            show_aggregator(station, folder, store)
        try:
            yield station
        finally:
            station.close()


def own_identity(folder: PartyFolder, store: Store) -> Identity:
    """The keys in a party's store, to act with; `StoreError` if its card shows others, or it was
    restored and does not know what it has done."""
    require_caught_up(store)
    identity = read_identity(store)
    if identity.public().to_bytes().hex() != folder.own_card().identity:
        raise StoreError(f"{folder.path}: card.json has other keys than the store")
    return identity


def _member(
    folder: PartyFolder,
    store: Store,
    pool: WorkerPool,
    learned: Callable[[ScoringRecord], None],
    queries: LiveAnswers,
) -> Member:
    """The party of a folder, with its data.  `queries`: a bank's answers to live ones."""
    settings, cards = folder.settings(), folder.complete_cards()
    if settings.role == AGGREGATOR:
        return AggregatorMember(store, pool)
    if not settings.data:
        raise DataError(f"{folder.path}: party.toml has no entry data")
    if settings.role == BANK:
        return BankMember(
            store,
            pool,
            own_identity(folder, store),
            folder.file(settings.data),
            cards,
            schema=folder.schema(),
            policy=settings.policy,
            layers_per_day=settings.layers_per_day,
            budget=Budget(settings.positives_per_day, settings.metered_release),
            live=queries,
        )
    new = settings.new_transactions
    work = FileWork(
        folder.path,
        folder.schema(),
        folder.file(settings.data),
        folder.file(new) if new else None,
        settings.training,
        settings.how,
        folder.file(settings.desk_labels) if settings.desk_labels else None,
        learned,
    )
    return NetworkMember(store, pool, folder.path, cards, schema=folder.schema(), work=work)
