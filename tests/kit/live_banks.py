"""A payment network with a trained model and two banks that can be asked live, all in memory.

The match is real, and so is every query and reply.  `live_federation` is trained once per process;
banks answer in this process, as told by a test.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from tests.kit.small_federation import records_of, telling_tables

from pv4fad.errors import ProtocolError
from pv4fad.evidence.judgement import UNKNOWN
from pv4fad.evidence.trusted import trusted_bits
from pv4fad.lead.data import all_records, bank_directory
from pv4fad.lead.federation import Federation
from pv4fad.lead.judging import JudgedPayments, Judging
from pv4fad.lead.new_accounts import match_new_accounts
from pv4fad.lead.prepare import prepare_run
from pv4fad.lead.rows import LeadData, NewRows, new_rows
from pv4fad.lead.settings import TrainingSettings
from pv4fad.lead.simulate import memory_stores, simulate
from pv4fad.lead.train import new_document, train
from pv4fad.payments.generate import GeneratedTables
from pv4fad.payments.schema import SCHEMA
from pv4fad.protocol.live.bank import LiveAnswers
from pv4fad.protocol.parameters import RunParameters
from pv4fad.run.meter import Meter
from pv4fad.service.asking.engine import LiveEngine, Timing
from pv4fad.service.asking.model import LiveModel
from pv4fad.service.asking.stored import StoredModel
from pv4fad.service.decisions import Decided
from pv4fad.service.journal import Journal
from pv4fad.store.store import MemoryStore, Store
from pv4fad.verify.comparison import joined_atoms
from pv4fad.workers import WorkerPool

BANKS = ("bank01", "bank02")
SHARE = 0.05
SETTINGS = TrainingSettings(epsilon="none", seed=5, alert_share=SHARE)
JOURNAL_KEY = bytes(range(32))
TICK_S, TIMEOUT_S = 0.05, 1.0


@dataclass(frozen=True)
class LiveFederation:
    tables: GeneratedTables = field(repr=False)
    records: dict[str, pl.DataFrame] = field(repr=False)
    federation: Federation = field(repr=False)
    parameters: RunParameters = field(repr=False)
    judging: Judging = field(repr=False)
    payments: NewRows = field(repr=False)
    """Of the test period: some of their accounts are new."""

    @property
    def run_id(self) -> str:
        return self.parameters.run_id

    @property
    def store(self) -> Store:
        return self.federation.payment_network.store

    def some(self, rows: slice | np.ndarray) -> NewRows:
        """Some of the payments, as they come."""
        test = self.tables.test.transactions.sort("Timestamp")
        numbers = np.arange(test.height)[rows]
        return new_rows(SCHEMA, test[numbers], self.tables.train.transactions)

    def telling(self) -> LiveFederation:
        """With a model to which every answer matters: nearly all payments ask."""
        model = self.judging.model
        strong = replace(
            model,
            log_odds=np.full_like(model.log_odds, 9.0),
            share=np.full_like(model.share, 0.001),
        )
        return replace(self, judging=replace(self.judging, model=strong))

    def copied(self) -> LiveFederation:
        """The same, with stores of its own."""
        network = self.federation.payment_network
        parties = (network, self.federation.aggregator, *self.federation.banks)
        stores = {one.name: MemoryStore(one.name, one.store.snapshot()) for one in parties}
        records = all_records(SCHEMA, self.records)
        federation = simulate(records, network.pool, stores=stores, first_limit=None)
        return replace(self, federation=federation)

    def match_new_accounts(self) -> None:
        """The job `match`."""
        directory = self.judging.directory
        match_new_accounts(self.federation, self.parameters, directory, Meter())

    def stored(self, journal: Journal, judging: Judging | None = None) -> StoredModel:
        folder = Path(tempfile.gettempdir())
        return StoredModel(self.store, self.run_id, judging or self.judging, journal, folder)

    def model(self, journal: Journal, judging: Judging | None = None) -> LiveModel:
        return self.stored(journal, judging).read()

    def truth(self, payments: NewRows) -> np.ndarray:
        """(accounts, kinds), by a plain look-up."""
        return true_bits(self.judging, payments, self.records)

    def matched(self, payments: NewRows) -> np.ndarray:
        """Of each account, whether a bank can be asked about it."""
        unknown = self.federation.payment_network.unknown_accounts(self.run_id, payments.keys)
        found = np.ones(len(payments.keys), np.bool_)
        found[unknown] = False
        return found & np.array([bank is not None for bank, _ in payments.keys])

    def trusted(self, payments: NewRows, without: tuple[str, ...] = ()) -> pl.DataFrame:
        """Predictions of somebody who sees all records of matched accounts, but for some banks."""
        seen = self.matched(payments)
        seen &= [self.judging.directory.get(name) not in without for name, _ in payments.keys]
        return trusted_table(self.judging, payments, self.records, seen)

    def answers(self, number: int, spend: Callable[[], bool] = lambda: True) -> LiveAnswers:
        bank = self.federation.banks[number]
        answers = LiveAnswers(bank.name, spend)
        answers.use(bank.live_keys())
        return answers


def true_bits(judging: Judging, payments: NewRows, records: dict[str, pl.DataFrame]) -> np.ndarray:
    """(accounts, kinds), by a plain look-up."""
    atoms = joined_atoms(SCHEMA, payments.key_table(), records, judging.absent)
    bits = [trusted_bits(atoms, one.atoms, absent=one.absent) for one in judging.sets]
    return np.stack(bits, axis=1).astype(np.int8)


def trusted_table(
    judging: Judging, payments: NewRows, records: dict[str, pl.DataFrame], seen: np.ndarray
) -> pl.DataFrame:
    """Predictions of somebody who sees the records of these accounts."""
    known = true_bits(judging, payments, records)
    known[~seen] = UNKNOWN
    judged = JudgedPayments(judging, payments)
    return judged.table(judged.judgement.decisions(known))


def mixed(records: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Every fifth account is not there, and half of the others have flags of all kinds."""
    rng = np.random.default_rng(8)
    classes, made = np.array(SCHEMA.record.classes), {}
    for bank, frame in records.items():
        kept = frame.filter(pl.Series(rng.random(frame.height) < 0.8))
        flags = rng.integers(len(classes), size=kept.height) * (rng.random(kept.height) < 0.5)
        names = pl.Series("Class", classes[flags].tolist(), frame["Class"].dtype)
        made[bank] = kept.with_columns(names)
    return made


@cache
def live_federation() -> LiveFederation:
    tables = telling_tables()
    records = mixed(records_of(tables.accounts, *BANKS))
    data = LeadData(SCHEMA, tables.train.transactions, bank_directory(records))
    sizes = {bank: frame.height for bank, frame in records.items()}
    new = prepare_run(data, sizes, SETTINGS)
    meter = Meter()
    federation = simulate(
        all_records(SCHEMA, records),
        WorkerPool(0),
        stores=memory_stores(records),
        first_limit="none",
    )
    train(federation, new, new_document(new, meter), meter)
    store = federation.payment_network.store
    judging = Judging.stored(store, new.parameters, data.directory, SHARE)
    test = tables.test.transactions.sort("Timestamp")
    payments = new_rows(SCHEMA, test, tables.train.transactions)
    return LiveFederation(tables, records, federation, new.parameters, judging, payments)


class StepClock:
    """Time passes when a test says so."""

    def __init__(self) -> None:
        self._now = 0.0
        self._changed = asyncio.Condition()

    def now(self) -> float:
        return self._now

    async def until(self, time: float) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._now >= time - 1e-9)

    async def advance(self, seconds: float) -> None:
        async with self._changed:
            self._now += seconds
            self._changed.notify_all()
        for _ in range(20):  # whatever waits for this moment takes its turns
            await asyncio.sleep(0)


class Banks:
    """The other end of the lines: what each bank does with a query is up to the test."""

    def __init__(self, world: LiveFederation) -> None:
        self.does: dict[str, Callable[[bytes], bytes]] = {
            bank: world.answers(number).answer for number, bank in enumerate(BANKS)
        }
        self.away: set[str] = set()
        """Banks that cannot be reached."""
        self.silent: set[str] = set()
        """Banks that take queries and say nothing."""
        self.sent: list[tuple[float, str, bytes, bytes | None]] = []
        """When, to whom, query, reply."""
        self.slow_s: dict[str, float] = {}
        """Banks that take so long."""
        self.n_silent: Counter[str] = Counter()
        """Queries that such a bank has."""
        self.clock = StepClock()

    async def ask(self, bank: str, data: bytes, timeout_s: float) -> bytes:
        number = len(self.sent)
        self.sent.append((self.clock.now(), bank, data, None))
        if bank in self.away:
            raise ProtocolError(f"{bank} is not connected")
        wait_s = timeout_s if bank in self.silent else self.slow_s.get(bank, 0.0)
        if wait_s:
            self.n_silent[bank] += 1
            try:
                await self.clock.until(self.clock.now() + min(wait_s, timeout_s))
            finally:
                self.n_silent[bank] -= 1
            if wait_s >= timeout_s:
                raise ProtocolError(f"{bank} has not answered")
        reply = self.does[bank](data)
        self.sent[number] = (*self.sent[number][:3], reply)
        return reply


@asynccontextmanager
async def asking(
    world: LiveFederation, journal: Journal, banks: Banks, *, passes: bool = True, **timing: float
):
    """An engine that asks these banks.

    Time passes by half ticks, each when all is done that the one before has begun, so that nothing
    depends on the speed of the machine; unless `passes` is False: then a test advances it.
    """

    async def note(content):
        await asyncio.wrap_future(journal.ask(content))

    usual = {"tick_s": TICK_S, "timeout_s": TIMEOUT_S, "covered_s": 2 * TICK_S}
    times = Timing(**usual | timing)
    model = await asyncio.to_thread(world.model, journal)
    engine = LiveEngine(model, times, ask=banks.ask, note=note, clock=banks.clock)
    async with engine:
        await banks.clock.advance(0.0)  # the first tick is now
        passing = asyncio.create_task(_pass_time(engine, banks)) if passes else None
        try:
            yield engine
        finally:
            if passing is not None:
                passing.cancel()
                await asyncio.gather(passing, return_exceptions=True)


async def _pass_time(engine: LiveEngine, banks: Banks) -> None:
    while True:
        await settled(engine, banks)
        await asyncio.sleep(TICK_S / 2)  # never faster than it is
        await banks.clock.advance(TICK_S / 2)


async def one_tick(engine: LiveEngine, banks: Banks) -> None:
    """To the next half, and to the next whole tick."""
    for _ in range(2):
        await banks.clock.advance(TICK_S / 2)
        await settled(engine, banks)


async def settled(engine: LiveEngine, banks: Banks) -> None:
    """When workers have made all that they were asked for, and replies have been read."""
    while any(
        line._making or line._covering or len(line._under_way) > banks.n_silent[line.bank]
        for line in engine._asking._lines
    ):
        await asyncio.sleep(0.005)


async def all_decided(engine: LiveEngine, payments: NewRows) -> tuple[pl.DataFrame, list[str]]:
    """Predictions and how they came about, in order."""
    parts: list[Decided] = [part async for part in engine.decide(payments)]
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows)
    assert np.array_equal(rows[order], np.arange(len(payments)))
    how = [one for part in parts for one in part.how]
    return pl.concat([part.table for part in parts])[order], [how[one] for one in order]
