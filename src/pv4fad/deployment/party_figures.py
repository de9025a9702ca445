"""Figures about a party beside its station's own: what its folder, its store and its workers say.

The store belongs to the station's thread.  Whoever reads asks it, and gets what it said last if it
is busy for more than a moment.  Everything here is a party's own and about all of its accounts:
what it has spent and allows, sizes, dates.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from fractions import Fraction
from math import inf
from pathlib import Path

from prometheus_client.metrics_core import Metric as Family

from pv4fad import __version__
from pv4fad.deployment.bank_answers import BankAnswers
from pv4fad.deployment.card import PartyCard
from pv4fad.deployment.certificates import read_certificate
from pv4fad.deployment.party_folder import PartyFolder
from pv4fad.deployment.station import Station
from pv4fad.deployment.station_figures import of_state
from pv4fad.metrics import catalogue
from pv4fad.metrics.figures import Figures
from pv4fad.privacy.days import days_ahead
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.privacy.ledger import read_ledger
from pv4fad.protocol.live.bank import LiveAnswers
from pv4fad.protocol.live.budget import TickBudget
from pv4fad.protocol.roles import BANK
from pv4fad.protocol.score.metering import Metered
from pv4fad.protocol.score.state import LayersAnswered
from pv4fad.store.file import FILE_NAME
from pv4fad.store.records import Records
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool

_WAIT_S = 1.0
Read = Callable[[], Sequence[Family]]


def show_party(figures: Figures, folder: PartyFolder) -> None:
    """Of any process of a party."""
    settings = folder.settings()

    def source() -> Iterator[Family]:
        yield catalogue.BUILD.by({(__version__, settings.role, settings.name): 1})
        yield catalogue.FREE.of(shutil.disk_usage(folder.path).free)

    figures.add_source(source)


def show_station(station: Station, folder: PartyFolder, pool: WorkerPool) -> None:
    """Of any party's station."""
    cards = folder.cards()

    def source() -> Iterator[Family]:
        yield catalogue.STATE.by(dict(of_state(station.state)))
        yield catalogue.WAITING.by({(name,): n for name, n in station.waiting().items()})
        yield catalogue.WORKERS_DIED.of(pool.n_died)
        yield catalogue.CERTIFICATE.by({(name,): _expiry(card) for name, card in cards.items()})
        yield catalogue.STORE.of(size_bytes(folder.path / FILE_NAME))

    show_party(station.figures, folder)
    station.figures.add_source(source)


def show_bank(
    station: Station, folder: PartyFolder, store: Store, queries: LiveAnswers, ticks: TickBudget
) -> None:
    """What a bank has spent, and what is left of the day."""
    layers_per_day, live = folder.settings().layers_per_day, station.live

    def spent() -> Sequence[Family]:
        today, ledger = datetime.now(UTC).date(), read_ledger(store)
        layers, now = _layers(store), today.isoformat()
        noted = {"delta": ledger.delta.latest, "ticks": ticks.day}
        noted["layers"] = max(one.day for one in layers.values())
        return (
            catalogue.EPSILON_SPENT.of(_number(ledger.spent)),
            catalogue.EPSILON_LIMIT.of(_number(ledger.limit or Fraction(0))),
            catalogue.DELTA_SPENT.of(float(ledger.delta.of_year(today))),
            catalogue.DELTA_LIMIT.of(float(ledger.delta.limit)),
            catalogue.LAYERS.by(
                {(kind,): one.layers if one.day >= now else 0 for kind, one in layers.items()}
            ),
            catalogue.DAYS_AHEAD.by({(name,): days_ahead(now, day) for name, day in noted.items()}),
        )

    def source() -> Iterator[Family]:
        yield catalogue.LAYERS_LIMIT.of(layers_per_day)
        yield catalogue.TICKS_LEFT.of(ticks.left)
        yield catalogue.TICKS_LIMIT.of(ticks.per_day)
        yield catalogue.LIVE_ANSWERS.by({(name,): n for name, n in queries.outcomes().items()})
        if isinstance(live, BankAnswers):
            yield catalogue.NOTICES.of(len(live.notices()))

    station.figures.add_source(source)
    station.figures.add_source(Kept(station, spent).source)


def show_aggregator(station: Station, folder: PartyFolder, store: Store) -> None:
    """What it has passed on of metered answers."""
    banks = [name for name, card in folder.cards().items() if card.role == BANK]

    def metered() -> Sequence[Family]:
        today = datetime.now(UTC).date().isoformat()
        with store.transaction() as tx:
            records = Records.of_party(tx)
            found = {(bank,): records.find(Metered, bank) or Metered() for bank in banks}
        return (
            catalogue.POSITIVES.by(
                {bank: one.positives if one.day >= today else 0 for bank, one in found.items()}
            ),
            catalogue.STOPPED.by({bank: one.stopped_at for bank, one in found.items()}),
            catalogue.METERED_AHEAD.by(
                {bank: days_ahead(today, one.day) for bank, one in found.items()}
            ),
        )

    station.figures.add_source(Kept(station, metered).source)


class Kept:
    """Figures from a party's store, read by the station's thread."""

    def __init__(self, station: Station, read: Read) -> None:
        self._station, self._read = station, read
        self._asked: Future[Sequence[Family]] | None = None
        self._latest: Sequence[Family] = ()

    def source(self) -> Sequence[Family]:
        """As they are; if the station is busy, as they were."""
        asked = self._asked or self._station.errand(self._read)
        self._asked = asked
        try:
            self._latest = asked.result(_WAIT_S)
        except TimeoutError:
            return self._latest  # asked for already when somebody reads again
        except Exception as error:
            self._station.figures.failed(error)
        self._asked = None
        return self._latest


def _layers(store: Store) -> dict[str, LayersAnswered]:
    with store.transaction() as tx:
        records = Records.of_party(tx)
        kinds, none = ("routed", "broadcast"), LayersAnswered("", 0)
        return {kind: records.find(LayersAnswered, kind) or none for kind in kinds}


def _expiry(card: PartyCard) -> float:
    return read_certificate(card.certificate).not_valid_after_utc.timestamp()


def _number(epsilon: Epsilon) -> float:
    return inf if isinstance(epsilon, str) else float(epsilon)


def size_bytes(database: Path) -> int:
    """Of an SQLite database, with what is not yet in its main file."""
    files = (database, database.with_name(f"{database.name}-wal"))
    return sum(path.stat().st_size for path in files if path.is_file())
