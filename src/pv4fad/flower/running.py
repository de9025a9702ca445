"""`pv4fad party run`: a party's station and its program of Flower, until somebody ends them."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from pv4fad.errors import DataError, StoreError
from pv4fad.flower.envelope import Correspondence
from pv4fad.flower.members import AggregatorMember, BankMember
from pv4fad.flower.network_member import NetworkMember
from pv4fad.flower.party_folder import PartyFolder, PartySettings, read_identity
from pv4fad.flower.processes import (
    Control,
    superlink,
    supernode,
    wait_until_listening,
    why_it_ended,
)
from pv4fad.flower.station import Member, Station
from pv4fad.flower.station_socket import open_door
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
    ready: Callable[[], None],
    learned: Callable[[ScoringRecord], None],
) -> None:
    """Until a signal ends it.

    `ready` is called when the program of Flower runs, `learned` after a scoring of the payment
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
            raise StoreError(f"{folder.path}: card.json does not show the keys of the store")
        member = make_member(folder, settings, store, pool, identity, learned=learned)
        station = Station(member, Correspondence(identity, cards))
        try:
            with open_door(station) as door:
                if settings.role == AGGREGATOR:
                    _run_superlink(folder, settings, door, ended, ready)
                else:
                    _run_supernode(folder, settings, door, ended, ready)
        finally:
            station.close()


def _run_superlink(
    folder: PartyFolder,
    settings: PartySettings,
    door: Path,
    ended: threading.Event,
    ready: Callable[[], None],
) -> None:
    with superlink(folder, settings, door) as process:
        wait_until_listening(*settings.listens_at, process)
        Control(folder, settings).register(folder.complete_cards())
        ready()
        while not ended.wait(_LOOK_EVERY_S):
            if process.poll() is not None:
                raise StoreError(f"the SuperLink has ended: {why_it_ended(folder, process)}")


def _run_supernode(
    folder: PartyFolder,
    settings: PartySettings,
    door: Path,
    ended: threading.Event,
    ready: Callable[[], None],
) -> None:
    """Started again when it ends: the others may not be there yet, or no longer."""
    told = ""
    while not ended.is_set():
        with supernode(folder, settings, door) as process:
            if not told:
                ready()
            while process.poll() is None and not ended.wait(_LOOK_EVERY_S):
                pass
        if ended.is_set():
            return
        why = why_it_ended(folder, process)
        if why != told:
            told = why
            _log.warning("not connected: %s; trying again every %.0f s", why, _TRY_AGAIN_S)
        ended.wait(_TRY_AGAIN_S)


def make_member(
    folder: PartyFolder,
    settings: PartySettings,
    store: Store,
    pool: WorkerPool,
    identity: Identity,
    *,
    learned: Callable[[ScoringRecord], None],
) -> Member:
    """The party of a folder, with its data."""
    cards = folder.complete_cards()
    if settings.role == AGGREGATOR:
        return AggregatorMember(store, pool)
    if not settings.data:
        raise DataError(f"{folder.path}: party.toml says nothing about data")
    if settings.role == BANK:
        return BankMember(
            store,
            pool,
            identity,
            folder.file(settings.data),
            cards,
            honest_banks=settings.most_honest_banks(cards),
            layers_per_day=settings.layers_per_day,
        )
    new = settings.new_transactions
    return NetworkMember(
        store,
        pool,
        Path(folder.path),
        cards,
        transactions=folder.file(settings.data),
        new_transactions=folder.file(new) if new else None,
        training=settings.training,
        how=settings.how,
        learned=learned,
    )
