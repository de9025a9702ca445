"""A bank's inbox: the alerts that the payment network has handed over to it, and to no other.

A notice says: this payment, this account of yours, this level.  It is kept in the bank's own store,
sealed like all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import PlainTextResponse, Response

from pv4fad.protocol.notify.state import ReceivedNotice
from pv4fad.service.access import Tokens
from pv4fad.service.web import Site, new_app

PAGE = 200


def inbox_app(
    folder: Path,
    bank: str,
    notices: Callable[[], Sequence[ReceivedNotice]],
    *,
    problem: Callable[[], str] = lambda: "",
    tls: bool = False,
) -> FastAPI:
    """The page; `notices`: those in the bank's store, the latest first.

    `problem`: why the bank's station cannot work now, for probes; nothing if it can.
    """
    app = new_app()
    site = Site(app, Tokens(folder), f"Inbox of {bank}", tls=tls)

    async def page(request: Request) -> Response:
        site.session(request)
        text = request.query_params.get("text", "")[:200].strip()
        found = [one for one in notices() if _has(one, text)]
        values: dict[str, Any] = {"notices": found[:PAGE], "text": text, "n_found": len(found)}
        return site.page(request, "inbox.html", title="Inbox", bank=bank, **values)

    async def healthz() -> Response:
        return PlainTextResponse("alive\n")

    async def readyz() -> Response:
        found = problem()
        return PlainTextResponse(f"{found or 'ready'}\n", 503 if found else 200)

    app.get("/")(page)
    app.get("/healthz")(healthz)
    app.get("/readyz")(readyz)
    return app


def _has(notice: ReceivedNotice, text: str) -> bool:
    wanted = text.casefold()
    return wanted in notice.reference.casefold() or wanted in notice.account.casefold()
