"""The alerts that people look at: those of the journal, with what was done about them.

In memory are the latest `MOST_ALERTS` alerts, the latest `MOST_PAYMENTS` payments for the history
of an alert's accounts, and every hand-over that waits, however old its alert is.  All of it can be
made again from the journal.

    new ──▶ confirmed | dismissed      by a person, with a note; the last word counts
    └────▶ handed over to a bank       by a person, once per bank and account;
                                       waiting → delivered | refused by the bank
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, Literal, Self

from pv4fad.errors import DataError, OrderError, StoreError
from pv4fad.protocol.notify.messages import require_fits
from pv4fad.randomness import secret_bytes
from pv4fad.schema import Schema
from pv4fad.service.decisions import Decision
from pv4fad.service.journal import Entry, Journal

MOST_ALERTS = 20_000
MOST_PAYMENTS = 50_000
MOST_NOTE = 2_000  # characters
_NOTICE_BYTES = 6
_BECAME = ("delivered", "refused")
"""What becomes of a hand-over that waits."""

Verdict = Literal["confirmed", "dismissed"]
State = Literal["new", "confirmed", "dismissed"]
STATES: tuple[State, ...] = ("new", "confirmed", "dismissed")
LEVELS = (1, 2, 3)


@dataclass(frozen=True)
class Said:
    """A verdict: who gave it, when, and why."""

    verdict: Verdict
    note: str
    who: str
    time: str


@dataclass(frozen=True)
class HandedOver:
    """An alert that was disclosed to a bank, on purpose (`Notify`)."""

    notice: int
    """Its number, drawn at random; the same for every attempt to send it."""
    run_id: str
    bank: str
    account: str
    who: str
    time: str
    delivered: str | None = None
    """When the bank had it."""
    refused: str | None = None
    """When the bank refused it."""

    @classmethod
    def of_action(cls, action: Mapping[str, Any]) -> Self:
        names = ("notice", "run_id", "bank", "account", "who", "time")
        return cls(**{name: action[name] for name in names})


@dataclass(frozen=True)
class Alert:
    """An alert of the journal."""

    number: int
    decision: Decision
    payment: Mapping[str, Any] = field(repr=False)
    said: tuple[Said, ...] = ()
    handed_over: tuple[HandedOver, ...] = ()

    @property
    def time(self) -> datetime:
        """When it was decided."""
        return datetime.fromisoformat(self.decision.time)

    @cached_property
    def text(self) -> str:
        """What a search looks through; made once, because it looks through all alerts."""
        values = (*self.payment.values(), *self.decision.reasons)
        return "\n".join(str(value) for value in values if value is not None).casefold()

    @property
    def state(self) -> State:
        return self.said[-1].verdict if self.said else "new"


@dataclass(frozen=True)
class Wanted:
    """Which alerts to list."""

    level: int | None = None
    state: State | None = None
    within: timedelta | None = None
    text: str = ""

    def fits(self, alert: Alert, now: datetime) -> bool:
        return (
            self.level in (None, alert.decision.level)
            and self.state in (None, alert.state)
            and (self.within is None or now - alert.time <= self.within)
            and (not self.text or self._has_text(alert))
        )

    def _has_text(self, alert: Alert) -> bool:
        return self.text.casefold() in alert.text


class AlertBook:
    """One per service.  Whoever changes it writes to the journal first."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._accounts = [side.id for side in schema.sides.values()]
        self._alerts: OrderedDict[int, Alert] = OrderedDict()
        self.n_new = 0
        """Alerts that nobody has confirmed or dismissed."""
        self._payments: deque[Entry] = deque(maxlen=MOST_PAYMENTS)
        self._waiting: dict[int, tuple[Alert, HandedOver]] = {}
        """By notice."""

    @classmethod
    def of_journal(cls, schema: Schema, journal: Journal) -> Self:
        book = cls(schema)
        for number, answer, payment in journal.alerts(MOST_ALERTS):
            book._put(Alert(number, Decision.from_json(answer), payment))
        older: dict[int, Mapping[str, Any]] = {}
        for action in journal.actions():
            if book.apply(action) is None and action["what"] == "hand over":
                older[action["notice"]] = action
            elif action["what"] in _BECAME:
                older.pop(action["notice"], None)
        for one in older.values():
            book._wait(_kept(journal, one["alert"]), HandedOver.of_action(one))
        book._payments.extend(journal.latest(MOST_PAYMENTS))
        return book

    def add(self, entries: Iterable[Entry], numbers: Iterable[int]) -> list[Alert]:
        """Decisions that the journal has; the new alerts."""
        new, free = [], iter(numbers)
        for entry in entries:
            self._payments.append(entry)
            if entry.alert:
                alert = Alert(next(free), Decision.from_json(entry.answer), entry.payment)
                self._put(alert)
                new.append(alert)
        while len(self._alerts) > MOST_ALERTS:
            _, oldest = self._alerts.popitem(last=False)
            self.n_new -= oldest.state == "new"
        return new

    def __len__(self) -> int:
        return len(self._alerts)

    def get(self, number: int) -> Alert | None:
        return self._alerts.get(number)

    def listed(self, wanted: Wanted, before: int | None = None) -> Iterator[Alert]:
        """The latest first; `before`: only those with a smaller number."""
        now = datetime.now(UTC)
        for number in reversed(self._alerts):
            if (before is None or number < before) and wanted.fits(self._alerts[number], now):
                yield self._alerts[number]

    def history(self, alert: Alert, side: str, most: int = 20) -> list[tuple[Entry, Decision]]:
        """The latest payments of an account of an alert, other than this one, latest first."""
        account = alert.payment[self._schema.sides[side].id]
        # Most texts do not have it anywhere, and are not taken apart.
        part = json.dumps(account, ensure_ascii=False)
        found = (one for one in reversed(self._payments) if part in one.text)
        others = (
            one
            for one in found
            if one.payment_id != alert.decision.id
            and account in (one.payment[name] for name in self._accounts)
        )
        return [(one, Decision.from_json(one.answer)) for one in islice(others, most)]

    def waiting(self) -> list[tuple[Alert, HandedOver]]:
        """What was handed over and has not reached its bank."""
        return list(self._waiting.values())

    # Actions: made here, written to the journal by the caller, then applied.

    def verdict(self, number: int, verdict: str, note: str, who: str) -> dict[str, Any]:
        """A person's word about an alert."""
        self._require(number)
        if verdict not in ("confirmed", "dismissed"):
            raise DataError("verdict: choose confirmed or dismissed")
        return _action("verdict", number, who) | {"verdict": verdict, "note": _note(note)}

    def hand_over(
        self, number: int, bank: str, account: str, who: str, run_id: str
    ) -> dict[str, Any]:
        """A person discloses an alert to a bank; `run_id`: of the model that raised it."""
        alert = self._require(number)
        if any((one.bank, one.account) == (bank, account) for one in alert.handed_over):
            raise OrderError(f"this alert has been handed over to {bank} before")
        require_fits(alert.decision.id, account, alert.decision.level)
        notice = int.from_bytes(secret_bytes(_NOTICE_BYTES), "big")
        action = {"notice": notice, "run_id": run_id, "bank": bank, "account": account}
        return _action("hand over", number, who) | action

    def delivered(self, number: int, notice: int) -> dict[str, Any]:
        """The bank has acknowledged a notice."""
        return _action("delivered", number, "service") | {"notice": notice}

    def refused(self, number: int, notice: int) -> dict[str, Any]:
        """The bank does not take a notice, and never will."""
        return _action("refused", number, "service") | {"notice": notice}

    def apply(self, action: Mapping[str, Any]) -> Alert | None:
        """What the journal has; the alert as it is now, or None if it is too old to be listed."""
        if action["what"] in _BECAME:
            self._waiting.pop(action["notice"], None)
        alert = self._alerts.get(action["alert"])
        if alert is None:
            return None
        who, time = action["who"], action["time"]
        match action["what"]:
            case "verdict":
                said = Said(action["verdict"], action["note"], who, time)
                alert = replace(alert, said=(*alert.said, said))
            case "hand over":
                given = HandedOver.of_action(action)
                alert = replace(alert, handed_over=(*alert.handed_over, given))
                self._wait(alert, given)
            case "delivered" | "refused" as became:
                change: dict[str, Any] = {became: time}
                handed_over = tuple(
                    replace(one, **change) if one.notice == action["notice"] else one
                    for one in alert.handed_over
                )
                alert = replace(alert, handed_over=handed_over)
        self._put(alert)
        return alert

    def _wait(self, alert: Alert, given: HandedOver) -> None:
        self._waiting[given.notice] = alert, given

    def _put(self, alert: Alert) -> None:
        before = self._alerts.get(alert.number)
        self.n_new += (alert.state == "new") - (before is not None and before.state == "new")
        self._alerts[alert.number] = alert

    def _require(self, number: int) -> Alert:
        alert = self._alerts.get(number)
        if alert is None:
            raise DataError(f"there is no alert {number} among the latest {MOST_ALERTS:,}")
        return alert


def desk_labels(journal: Journal) -> dict[str, int]:
    """Payment id → 1 for an alert that was confirmed, 0 for one that was dismissed."""
    said = {
        action["alert"]: action["verdict"]
        for action in journal.actions()
        if action["what"] == "verdict"
    }
    return {
        json.loads(answer)["id"]: int(said[number] == "confirmed")
        for number, answer, _ in journal.alerts()
        if number in said
    }


def _kept(journal: Journal, number: int) -> Alert:
    """One that need not be among the latest."""
    found = journal.alert(number)
    if found is None:
        raise StoreError(f"{journal.path} has no alert {number}, but what was done about it")
    answer, payment = found
    return Alert(number, Decision.from_json(answer), payment)


def _action(what: str, number: int, who: str) -> dict[str, Any]:
    time = datetime.now(UTC).isoformat(timespec="seconds")
    return {"what": what, "alert": number, "who": who, "time": time}


def _note(text: str) -> str:
    text = " ".join(text.split())
    if len(text) > MOST_NOTE:
        raise DataError(f"note: {len(text):,} characters; at most {MOST_NOTE:,}")
    return text
