"""The alert desk: pages for the people who look at alerts.

GET  /                          the alerts, latest first; new ones come by themselves
GET  /events                    the new ones (server-sent events)
GET  /alerts/N                  one alert with the history of its accounts
POST /alerts/N/verdict          confirmed or dismissed, with a note
GET  /alerts/N/hand-over/SIDE   what the bank would see; asks for confirmation
POST /alerts/N/hand-over/SIDE   does it, and records it
GET  /watch                     how the service is doing
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from itertools import islice, takewhile
from typing import Any, Literal
from urllib.parse import urlencode

from fastapi import HTTPException, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from pv4fad.service.alerts import LEVELS, STATES, Alert, AlertBook, Wanted
from pv4fad.service.parts import Parts
from pv4fad.service.pipeline import Pipeline
from pv4fad.service.watch_figures import watch_page
from pv4fad.service.web import ENVIRONMENT, Site

PAGE = 50
MOST_LISTENERS = 50
_BEAT_S = 15.0
_MOST_MISSED = 200
_RELOAD = "event: reload\ndata: {}\n\n"
WITHIN = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7)}


News = Alert | Literal["dropped", "end"]
_Queue = asyncio.Queue[News]


class Listeners:
    """The open pages that are told of new alerts; one that is too slow for them has to reload."""

    def __init__(self) -> None:
        self._queues: set[_Queue] = set()

    def tell(self, alert: Alert) -> None:
        for queue in self._queues:
            if queue.qsize() < _MOST_MISSED:
                queue.put_nowait(alert)
            elif queue.qsize() == _MOST_MISSED:
                queue.put_nowait("dropped")

    def end(self) -> None:
        """The service ends: open streams must not keep it."""
        for queue in self._queues:
            queue.put_nowait("end")

    def add(self) -> _Queue:
        if len(self._queues) >= MOST_LISTENERS:
            raise HTTPException(503, "too many pages are open", headers={"retry-after": "60"})
        queue = _Queue()
        self._queues.add(queue)
        return queue

    def remove(self, queue: _Queue) -> None:
        self._queues.discard(queue)


class Desk:
    """Adds its pages to the service."""

    def __init__(
        self,
        site: Site,
        parts: Parts,
        pipeline: Pipeline,
        listeners: Listeners,
        handed_over: Callable[[], object],
    ) -> None:
        """`handed_over` is called when there is a notice to deliver."""
        self._site, self._pipeline, self._listeners = site, pipeline, listeners
        self._schema, self._directory, self._run_id = parts.schema, parts.directory, parts.run_id
        self._handed_over = handed_over
        self._handing_over = asyncio.Lock()
        app = site.app
        app.get("/")(self._list)
        app.get("/events")(self._events)
        app.get("/alerts/{number}")(self._show)
        app.post("/alerts/{number}/verdict")(self._verdict)
        app.get("/alerts/{number}/hand-over/{side}")(self._ask_hand_over)
        app.post("/alerts/{number}/hand-over/{side}")(self._hand_over)
        app.get("/watch")(self._watch)

    @property
    def _book(self) -> AlertBook:
        return self._pipeline.book

    async def _list(self, request: Request) -> Response:
        self._site.session(request)
        query = request.query_params
        wanted = _wanted(query)
        cursor = _number(query.get("before", ""))
        found = list(islice(self._book.listed(wanted, cursor), PAGE + 1))
        filters = {name: query.get(name, "") for name in ("level", "state", "within", "text")}
        last = {"before": found[PAGE - 1].number} if len(found) > PAGE else {}
        older = urlencode(filters | last) if last else ""
        return self._site.page(
            request,
            "alerts.html",
            title="Alerts",
            alerts=[self._summary(alert) for alert in found[:PAGE]],
            filters=filters,
            levels=LEVELS,
            states=STATES,
            within=list(WITHIN),
            older=older,
            live=cursor is None,
            n_new=self._book.n_new,
            n_decided=self._pipeline.n_decided,
        )

    async def _events(self, request: Request) -> Response:
        self._site.session(request, is_used=False)  # browsers connect again by themselves
        return StreamingResponse(
            self._stream(request, self._listeners.add()), media_type="text/event-stream"
        )

    async def _stream(self, request: Request, queue: _Queue) -> AsyncIterator[str]:
        """Until the session ends, which it may do while there is no news."""
        try:
            async for event in self._news(request, queue):
                if self._site.find_session(request, is_used=False) is None:
                    return
                yield event
        finally:
            self._listeners.remove(queue)

    async def _news(self, request: Request, queue: _Queue) -> AsyncIterator[str]:
        """What the page has missed, then what is new; `reload` if that is too much."""
        yield ": the alerts as they come\n\n"
        wanted, first = _wanted(request.query_params), _first(request)
        missed = [] if first is None else self._since(first, wanted)
        if len(missed) > _MOST_MISSED:
            yield _RELOAD
            return
        for alert in missed:
            yield self._event(alert)
        while True:
            try:
                news = await asyncio.wait_for(queue.get(), _BEAT_S)
            except TimeoutError:
                yield ": nothing new\n\n"
                continue
            if not isinstance(news, Alert):
                if news == "dropped":
                    yield _RELOAD
                return
            if wanted.fits(news, news.time) and not (missed and news.number <= missed[-1].number):
                yield self._event(news)

    def _since(self, first: int, wanted: Wanted) -> list[Alert]:
        """From this number on, in order; the latest only, if they are too many."""
        found = takewhile(lambda alert: alert.number >= first, self._book.listed(wanted))
        return [*islice(found, _MOST_MISSED + 1)][::-1]

    def _event(self, alert: Alert) -> str:
        row = ENVIRONMENT.get_template("alert_row.html").render(alert=self._summary(alert))
        data = json.dumps({"html": row, "n_new": self._book.n_new})
        return f"id: {alert.number}\nevent: alert\ndata: {data}\n\n"

    async def _show(self, request: Request, number: int) -> Response:
        self._site.session(request)
        alert = self._require(number)
        return self._site.page(
            request,
            "alert.html",
            title=f"Alert {number}",
            alert=self._summary(alert),
            payment=[
                (name, _time(value) if name == self._schema.rows.time else _value(value))
                for name, value in alert.payment.items()
            ],
            sides=[self._side(alert, name) for name in self._schema.sides],
        )

    async def _verdict(self, request: Request, number: int) -> Response:
        session, form = await self._site.form(request)
        action = self._book.verdict(
            number, form.get("verdict", ""), form.get("note", ""), session.who
        )
        await self._pipeline.act(action)
        return RedirectResponse(f"/alerts/{number}", 303)

    async def _ask_hand_over(self, request: Request, number: int, side: str) -> Response:
        self._site.session(request)
        alert = self._require(number)
        found = self._side_of(alert, side)
        return self._site.page(
            request,
            "hand_over.html",
            title=f"Hand over alert {number}",
            alert=self._summary(alert),
            side=found,
        )

    async def _hand_over(self, request: Request, number: int, side: str) -> Response:
        session, form = await self._site.form(request)
        found = self._side_of(self._require(number), side)
        if form.get("confirm") != "yes":
            raise HTTPException(422, "tick the box: handing over cannot be taken back")
        bank, account = found["bank"], found["account"]
        async with self._handing_over:  # or a second click could come before the first is applied
            action = self._book.hand_over(number, bank, account, session.who, self._run_id)
            await self._pipeline.act(action)
        self._handed_over()
        return RedirectResponse(f"/alerts/{number}", 303)

    async def _watch(self, request: Request) -> Response:
        self._site.session(request)
        return self._site.page(
            request, "watch.html", title="Watch", **watch_page(self._pipeline.watch)
        )

    def _require(self, number: int) -> Alert:
        alert = self._book.get(number)
        if alert is None:
            raise HTTPException(404, f"there is no alert {number} here")
        return alert

    def _side_of(self, alert: Alert, name: str) -> dict[str, Any]:
        """A side whose account is at a bank of the run."""
        if name not in self._schema.sides:
            raise HTTPException(404, "there is no such side")
        side = self._side(alert, name)
        if side["bank"] is None:
            raise HTTPException(422, "this account is at no bank that takes part in this model")
        return side

    def _side(self, alert: Alert, name: str) -> dict[str, Any]:
        side = self._schema.sides[name]
        holder = None if side.holder is None else alert.payment[side.holder]
        account, bank = alert.payment[side.id], self._directory.get(str(holder))
        given = [one for one in alert.handed_over if (one.bank, one.account) == (bank, account)]
        return {
            "name": name,
            "account": account,
            "holder": holder,
            "bank": bank,
            "handed_over": given[0] if given else None,
            "history": [
                {"decision": decision, **self._parts(entry.payment)}
                for entry, decision in self._book.history(alert, name)
            ],
        }

    def _summary(self, alert: Alert) -> dict[str, Any]:
        return {
            "number": alert.number,
            "decision": alert.decision,
            "state": alert.state,
            "said": alert.said,
            "handed_over": alert.handed_over,
            **self._parts(alert.payment),
        }

    def _parts(self, payment: Mapping[str, Any]) -> dict[str, Any]:
        """What a list shows of a payment, of whatever schema."""
        rows = self._schema.rows
        amount = payment.get("SettlementAmount")
        return {
            "id": payment[rows.id],
            "time": _time(payment[rows.time]),
            "amount": None if amount is None else f"{amount:,.2f}",
            "currency": payment.get("SettlementCurrency") or "",
            "parties": [
                {
                    "account": payment[side.id],
                    "holder": payment.get(side.holder or ""),
                    "name": payment.get(f"{name.capitalize()}Name"),
                }
                for name, side in self._schema.sides.items()
            ],
        }


def _wanted(query: Mapping[str, str]) -> Wanted:
    level, state = query.get("level", ""), query.get("state", "")
    return Wanted(
        level=int(level) if level in map(str, LEVELS) else None,
        state=state if state in STATES else None,
        within=WITHIN.get(query.get("within", "")),
        text=query.get("text", "")[:200].strip(),
    )


def _first(request: Request) -> int | None:
    """The number of the first alert that a page does not have, if it says so.

    A browser that connects again says which one came last, a new page which one it begins with.
    """
    last = _number(request.headers.get("last-event-id", ""))
    return _number(request.query_params.get("first", "")) if last is None else last + 1


def _number(text: str) -> int | None:
    return int(text) if len(text) < 20 and text.isascii() and text.isdigit() else None


def _time(value: Any) -> str:
    return str(value).replace("T", " ")


def _value(value: Any) -> str:
    if value is None:
        return "—"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
