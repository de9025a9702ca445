"""δ of live queries, in the bank's account before they are answered.

A query cannot wait for the store.  So the thread that owns it enters what all queries of a day can
come to, as many as the bank allows, each 2^-72 from uniform: before the first of the day is
answered, and from then on a day ahead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import ClassVar

from pv4fad.errors import BudgetError
from pv4fad.privacy.delta import charge_forgotten
from pv4fad.privacy.ledger import charge_delta
from pv4fad.protocol.live.plan import DISTANCE_BITS
from pv4fad.store.records import Record, Records
from pv4fad.store.store import Store, Transaction

_log = logging.getLogger("pv4fad.bank")

Errand = Callable[[Callable[[], None]], Future[None]]


@dataclass(frozen=True)
class LiveBooked(Record):
    """The last day whose live queries are in the account, and how many of a day; one."""

    of_all_runs: ClassVar[bool] = True

    until: str
    per_day: int


def book_forgotten(tx: Transaction, since: str, per_day: int, now: datetime) -> None:
    """Of a store that was restored: the days after the last that it knows of, or, if it knows of
    none, from `since` on, may all have been entered, and their queries answered."""
    records, today = Records.of_party(tx), now.date()
    booked = records.find(LiveBooked)
    until = today + timedelta(days=1)
    if booked is None:
        n_days = (until - min(date.fromisoformat(since), today)).days + 1
    else:
        n_days = (until - date.fromisoformat(booked.until)).days
        per_day = max(per_day, booked.per_day)
    if n_days > 0 and per_day > 0:
        charge_forgotten(tx, Fraction(n_days * per_day, 2**DISTANCE_BITS), now)
        records.put(LiveBooked(until.isoformat(), per_day))


class Booking:
    """`covers` is called by the thread that answers queries."""

    def __init__(
        self,
        store: Store,
        errand: Errand,
        per_day: int,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`errand`: have something done by the thread that owns the store."""
        self._store, self._errand, self._now = store, errand, now
        self._per_day = per_day
        with store.transaction() as tx:
            booked = Records.of_party(tx).find(LiveBooked)
        # Days that were entered with fewer queries are entered once more.
        is_enough = booked is not None and booked.per_day >= per_day
        self._until = booked.until if booked is not None and is_enough else ""
        self._tried: tuple[str, str] | None = None

    def covers(self, day: str) -> bool:
        """Whether the queries of a day are in the account; if not, they are entered soon."""
        next_day = (date.fromisoformat(day) + timedelta(days=1)).isoformat()
        wanted = day if self._until < day else next_day
        if self._until < wanted and self._tried != (day, wanted):
            self._tried = day, wanted
            self._errand(lambda: self._book(wanted)).add_done_callback(self._booked)
        return self._until >= day

    def _book(self, day: str) -> None:
        with self._store.transaction() as tx:
            charge_delta(tx, "live", Fraction(self._per_day, 2**DISTANCE_BITS), self._now())
            Records.of_party(tx).put(LiveBooked(day, self._per_day))
        self._until = day

    def _booked(self, done: Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            _log.error("live queries cannot be entered: %s", error)
            if not isinstance(error, BudgetError):  # which no second try makes larger
                self._tried = None
