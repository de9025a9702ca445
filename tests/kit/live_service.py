"""The payment network's service on a real socket, with the local engine and generated payments.

The model is the real one, with counts from the trusted third party in place of a training: no
cryptography between parties is needed for what these tests are about.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import polars as pl
from fastapi import FastAPI
from tests.kit.known_writer import KEY
from tests.kit.local_engine import LocalEngine
from tests.kit.small_federation import records_of, telling_tables

from pv4fad.cli.federation_demo import free_ports
from pv4fad.evidence.classes import n_kinds_of
from pv4fad.evidence.trusted import trusted_counts
from pv4fad.lead.data import bank_directory
from pv4fad.lead.evidence_model import PreparedEvidence
from pv4fad.lead.judging import Judging
from pv4fad.lead.prepare import prepare_payment_network, prepare_run
from pv4fad.lead.rows import LeadData, fingerprint
from pv4fad.lead.settings import TrainingSettings
from pv4fad.listening import Listen
from pv4fad.payments.generate import GeneratedTables
from pv4fad.payments.schema import SCHEMA
from pv4fad.service.access import Tokens
from pv4fad.service.intake import texts_of
from pv4fad.service.journal import Journal
from pv4fad.service.known_payments import KnownPayments
from pv4fad.service.network import network_app
from pv4fad.service.parts import Parts
from pv4fad.service.server import Server
from pv4fad.service.watch import Expected, Watch
from pv4fad.verify.comparison import joined_atoms

ALERT_SHARE = 0.05
BANKS = ("bank01", "bank02")
SETTINGS = TrainingSettings(epsilon="none", seed=5, alert_share=ALERT_SHARE)


@dataclass(frozen=True)
class LiveWorld:
    tables: GeneratedTables = field(repr=False)
    engine: LocalEngine = field(repr=False)
    directory: dict[str, str]

    @property
    def history(self) -> pl.DataFrame:
        return self.tables.train.transactions

    @property
    def payments(self) -> list[dict[str, Any]]:
        """Those of the test period, in order of time, as JSON has them."""
        rows = self.tables.test.transactions.drop("Label", strict=False).sort("Timestamp")
        return plain(rows)


def plain(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON has them."""
    return [dict(zip(rows.columns, json.loads(text), strict=True)) for text in texts_of(rows)]


@cache
def live_world() -> LiveWorld:
    tables = telling_tables()
    records = records_of(tables.accounts, *BANKS)
    data = LeadData(SCHEMA, tables.train.transactions, bank_directory(records))
    sizes = {bank: frame.height for bank, frame in records.items()}
    new = prepare_run(data, sizes, SETTINGS)
    prepared = prepare_payment_network(data, SETTINGS, new.private.seed)
    assert isinstance(prepared, PreparedEvidence)
    absent = new.parameters.absent
    assert absent is not None
    atoms = joined_atoms(SCHEMA, prepared.keys, records, absent)
    counts = trusted_counts(prepared.counted, atoms, prepared.training.sets[0])
    model = prepared.own.evidence(new.parameters, counts)
    n_kinds = n_kinds_of(new.parameters.sizes.n_atoms, absent)
    judging = Judging(prepared.own, model, absent, n_kinds, data.directory, ALERT_SHARE)
    return LiveWorld(tables, LocalEngine(judging), dict(data.directory))


def known_payments(folder: Path, journal: Journal) -> KnownPayments:
    """Of the world's training rows."""
    history = live_world().history
    return KnownPayments(
        SCHEMA,
        journal,
        folder,
        KEY,
        training=lambda: history,
        fingerprint=fingerprint(history),
    )


def parts_of(folder: Path, journal: Journal, **others: Any) -> Parts:
    world = live_world()
    own = world.engine.judging.own
    given: dict[str, Any] = {
        "rows": known_payments(folder, journal),
        "engine": world.engine,
        "watch": Watch(Expected.of(own.histograms, own.knowledge)),
        "directory": world.directory,
        "run_id": "run-1",
    }
    return Parts(schema=SCHEMA, folder=folder, journal=journal, **given | others)


def free_port() -> int:
    (port,) = free_ports(1)
    return port


@dataclass
class Service:
    """A service that runs in a thread, and a client for it."""

    listen: Listen
    folder: Path
    client: httpx.Client
    tokens: dict[str, str]
    opened: ExitStack = field(repr=False)

    def stranger(self, **settings: Any) -> httpx.Client:
        """Another client, closed with the service."""
        client = httpx.Client(base_url=self.listen.address, timeout=30, **settings)
        return self.opened.enter_context(client)

    def post(self, path: str, content: Any, **headers: str) -> httpx.Response:
        """JSON, unless the content is text, with the token for payments."""
        with self.stream(path, content, **headers) as answer:
            answer.read()
        return answer

    def stream(
        self, path: str, content: Any, **headers: str
    ) -> AbstractContextManager[httpx.Response]:
        """The same, read as it comes."""
        body = content if isinstance(content, str | bytes) else json.dumps(content)
        own = {"authorization": f"Bearer {self.tokens['payments']}"}
        own["content-type"] = "application/json"
        return self.client.stream("POST", path, content=body, headers=own | headers)

    def log_in(self) -> httpx.Client:
        """A browser, as far as the service can tell."""
        person = self.stranger()
        page = person.get("/login").text
        form = {"csrf": hidden(page), "token": self.tokens["desk"]}
        assert person.post("/login", data=form).status_code == 303
        return person


def session_cookie(person: httpx.Client) -> tuple[str, str]:
    """Name and value, of somebody who has logged in."""
    (found,) = person.cookies.items()
    return found


def hidden(page: str) -> str:
    """The CSRF token in a page."""
    return page.split('name="csrf" value="')[1].split('"', maxsplit=1)[0]


@contextmanager
def serving(app: FastAPI, listen: Listen) -> Iterator[None]:
    """The app on its socket, until the block ends."""
    server = Server(app, listen)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@contextmanager
def live_service(
    folder: Path, *, most_payments: int = 20_000, listen: Listen | None = None, **others: Any
) -> Iterator[Service]:
    """A new service on `folder`, which keeps its journal and tokens."""
    listen = listen or Listen(port=free_port())
    tokens = {
        use: Tokens(folder).create(f"{use} person", use) for use in ("payments", "metrics", "desk")
    }
    with Journal.open(folder, KEY) as journal:
        parts = parts_of(folder, journal, **others)
        app = network_app(parts, tls=listen.tls, most_payments=most_payments)
        with (
            closing(parts.rows),
            serving(app, listen),
            httpx.Client(base_url=listen.address, timeout=60, verify=False) as client,  # noqa: S501
            ExitStack() as opened,
        ):
            yield Service(listen, folder, client, tokens, opened)
