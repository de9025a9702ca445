"""The parties as stations run them, each with its own data, in its own folder.

Everybody's keys and limits are in its store; what it knows of the others is in their cards.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from pv4fad.errors import OrderError, ParameterError
from pv4fad.flower.card import PartyCard
from pv4fad.flower.exchange import Job
from pv4fad.flower.station import Post
from pv4fad.forest.atoms import AtomSchema
from pv4fad.lead.bank_files import bank_records, load_bank
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.bank import Bank
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.messages import RunProposal
from pv4fad.protocol.roles import AGGREGATOR, BANK
from pv4fad.protocol.state import parameters_of
from pv4fad.protocol.wire import Message, decode
from pv4fad.store.records import Records
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool


class AggregatorMember:
    """The aggregator: it has no data."""

    name = AGGREGATOR

    def __init__(self, store: Store, pool: WorkerPool) -> None:
        self._party = Aggregator(AGGREGATOR, store, pool)

    def begin_session(self) -> None:
        """There is nothing to read."""

    def handle(self, data: bytes) -> list[bytes]:
        return self._party.handle(data)

    def unanswered(self) -> list[bytes]:
        return self._party.unanswered()

    def do(self, job: Job, post: Post, *, again: bool, order: str) -> None:
        raise _only_the_network_leads(job, self.name)


class BankMember:
    """A bank with its account file, which is read at the beginning of every session."""

    def __init__(
        self,
        store: Store,
        pool: WorkerPool,
        identity: Identity,
        accounts: Path,
        cards: Mapping[str, PartyCard],
        *,
        honest_banks: int,
        layers_per_day: int,
    ) -> None:
        self.name = identity.name
        self._store = store
        self._pool = pool
        self._identity = identity
        self._path = accounts
        self._signing_keys = {
            name: card.public.signing_key for name, card in cards.items() if card.role == BANK
        }
        self._honest_banks = honest_banks
        self._layers_per_day = layers_per_day
        self._accounts: pl.DataFrame | None = None
        self._party: tuple[AtomSchema, Bank] | None = None

    def begin_session(self) -> None:
        self._accounts = load_bank(self._path)
        self._party = None

    def handle(self, data: bytes) -> list[bytes]:
        return self._bank(self._schema(decode(data))).handle(data)

    def unanswered(self) -> list[bytes]:
        return self._store.unacknowledged()

    def do(self, job: Job, post: Post, *, again: bool, order: str) -> None:
        raise _only_the_network_leads(job, self.name)

    def _bank(self, schema: AtomSchema) -> Bank:
        """The bank with its records as the atoms of a run describe them."""
        if self._party is None or self._party[0] != schema:
            if self._accounts is None:
                raise OrderError(f"{self.name}: a message before the session began")
            bank = Bank(
                self.name,
                self._store,
                self._pool,
                records=bank_records(self._accounts, schema),
                identity=self._identity,
                signing_keys=self._signing_keys,
                honest_banks=self._honest_banks,
                layers_per_day=self._layers_per_day,
            )
            self._party = (schema, bank)
        return self._party[1]

    def _schema(self, message: Message) -> AtomSchema:
        """Atoms are public: they come with the proposal of a run."""
        if isinstance(message, RunProposal):
            return RunParameters.from_json(message.parameters).atoms
        with self._store.transaction() as tx:
            return parameters_of(Records(tx, message.address.run_id)).atoms


def _only_the_network_leads(job: Job, name: str) -> ParameterError:
    return ParameterError(f"{name} was asked to lead the job {job!r}: the payment network does")
