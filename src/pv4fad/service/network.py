"""The payment network's service: endpoints for programs, the desk for people."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from fastapi import FastAPI
from prometheus_client.metrics_core import Metric as Family

from pv4fad.deployment.party_figures import size_bytes
from pv4fad.errors import Pv4fadError, WorkerError
from pv4fad.metrics.catalogue import JOURNAL, NOTICES_WAITING
from pv4fad.service.access import Tokens
from pv4fad.service.api import Api
from pv4fad.service.desk import Desk, Listeners
from pv4fad.service.notices import Outbox
from pv4fad.service.parts import Parts
from pv4fad.service.pipeline import MOST_PAYMENTS, Pipeline
from pv4fad.service.web import Site, new_app

_log = logging.getLogger("pv4fad.service")


def network_app(parts: Parts, *, tls: bool = False, most_payments: int = MOST_PAYMENTS) -> FastAPI:
    """Ready to be served; it works from the start of the server to its end."""
    listeners = Listeners()
    pipeline = Pipeline(parts, most_payments=most_payments, told=listeners.tell)
    outbox = None if parts.carrier is None else Outbox(pipeline, parts.carrier)
    parts.watch.look_at(lambda: pipeline.n_under_way, lambda: pipeline.book.n_new, parts.banks)
    for source in parts.sources:
        parts.watch.figures.add_source(source)
    parts.watch.figures.add_source(partial(_kept, parts, pipeline))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as running:
            try:
                for part in parts.running:
                    await running.enter_async_context(part)
            except Pv4fadError:
                raise
            except Exception as error:  # the server would log its words
                _log.error("the service could not start", exc_info=error)
                raise WorkerError("an unexpected error, see the line before") from None
            tasks = [("the pipeline of payments", pipeline.run())]
            if outbox is not None:
                tasks.append(("the delivery of notices", outbox.run()))
            for what, work in tasks:
                await running.enter_async_context(parts.background.running(what, work))
            yield

    app = new_app(lifespan)
    app.state.listeners, app.state.background = listeners, parts.background
    site = Site(app, Tokens(parts.folder), "Alert desk", tls=tls)
    Api(site, pipeline)
    Desk(site, parts, pipeline, listeners, (lambda: None) if outbox is None else outbox.wake)
    return app


def _kept(parts: Parts, pipeline: Pipeline) -> Iterator[Family]:
    yield JOURNAL.of(size_bytes(parts.journal.path))
    waiting = Counter(given.bank for _, given in pipeline.book.waiting())
    banks = sorted({*parts.directory.values(), *waiting})
    yield NOTICES_WAITING.by({(bank,): waiting[bank] for bank in banks})
