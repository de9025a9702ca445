"""`pv4fad party run`: a party's station and its carrier's program, until a signal ends them."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from pv4fad.deployment.carrier import Programs
from pv4fad.deployment.envelope import Correspondence
from pv4fad.deployment.jobs import NetworkMember
from pv4fad.deployment.members import AggregatorMember, BankMember
from pv4fad.deployment.party_folder import PartyFolder, read_identity
from pv4fad.deployment.station import Member, Station
from pv4fad.deployment.station_socket import open_socket
from pv4fad.errors import DataError, StoreError
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.roles import AGGREGATOR, BANK
from pv4fad.run.scoring_record import ScoringRecord
from pv4fad.store.sealing import Passphrase
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool

_LOOK_EVERY_S = 1.0
_TRY_AGAIN_S = 5.0
_log = logging.getLogger("pv4fad.station")


def run_party(
    folder: PartyFolder,
    passphrase: Passphrase,
    programs: Programs,
    ready: Callable[[], None],
    learned: Callable[[ScoringRecord], None],
) -> None:
    """Run until SIGINT or SIGTERM.

    `ready` is called when the carrier's program runs, `learned` after each scoring of the payment
    network.
    """
    settings = folder.settings()
    cards = folder.complete_cards()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with folder.open_store(passphrase) as store, WorkerPool(settings.workers) as pool:
        identity = read_identity(store)
        if identity.public().to_bytes().hex() != folder.own_card().identity:
            raise StoreError(f"{folder.path}: card.json has other keys than the store")
        member = _member(folder, store, pool, identity, learned)
        station = Station(member, Correspondence(identity, cards))
        run = _run_hub if settings.role == AGGREGATOR else _run_node
        try:
            with open_socket(station.exchange) as path:
                run(programs, folder, path, ended, ready)
        finally:
            station.close()


def _run_hub(
    programs: Programs,
    folder: PartyFolder,
    station: Path,
    ended: threading.Event,
    ready: Callable[[], None],
) -> None:
    with programs.hub(folder, station) as hub:
        ready()
        while not ended.wait(_LOOK_EVERY_S):
            if hub.has_ended():
                raise StoreError(f"the hub has ended: {hub.why_it_ended()}")


def _run_node(
    programs: Programs,
    folder: PartyFolder,
    station: Path,
    ended: threading.Event,
    ready: Callable[[], None],
) -> None:
    """A node that ends is started again: the hub may not run yet, or no longer."""
    logged = ""
    while not ended.is_set():
        with programs.node(folder, station) as node:
            if not logged:
                ready()
            while not node.has_ended() and not ended.wait(_LOOK_EVERY_S):
                pass
        if ended.is_set():
            return
        reason = node.why_it_ended()
        if reason != logged:
            logged = reason
            _log.warning("not connected: %s; trying again every %.0f s", reason, _TRY_AGAIN_S)
        ended.wait(_TRY_AGAIN_S)


def _member(
    folder: PartyFolder,
    store: Store,
    pool: WorkerPool,
    identity: Identity,
    learned: Callable[[ScoringRecord], None],
) -> Member:
    """The party of a folder, with its data."""
    settings, cards = folder.settings(), folder.complete_cards()
    if settings.role == AGGREGATOR:
        return AggregatorMember(store, pool)
    if not settings.data:
        raise DataError(f"{folder.path}: party.toml has no entry data")
    if settings.role == BANK:
        return BankMember(
            store,
            pool,
            identity,
            folder.file(settings.data),
            cards,
            schema=folder.schema(),
            honest_banks=settings.most_honest_banks(cards),
            layers_per_day=settings.layers_per_day,
        )
    new = settings.new_transactions
    return NetworkMember(
        store,
        pool,
        folder.path,
        cards,
        schema=folder.schema(),
        transactions=folder.file(settings.data),
        new_transactions=folder.file(new) if new else None,
        training=settings.training,
        how=settings.how,
        learned=learned,
    )
