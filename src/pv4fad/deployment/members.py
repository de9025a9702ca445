"""The parties as stations run them: each has its own data and keys, and the cards of the others.

The payment network, which leads, is in `jobs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from pv4fad.deployment.card import PartyCard
from pv4fad.deployment.exchange import Job
from pv4fad.deployment.station import Post
from pv4fad.errors import OrderError, ParameterError
from pv4fad.forest.atoms import AtomSchema
from pv4fad.lead.bank_files import bank_records, load_bank
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.bank import Bank
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.messages import RunProposal
from pv4fad.protocol.roles import AGGREGATOR, BANK
from pv4fad.protocol.state import parameters_of
from pv4fad.protocol.wire import Message
from pv4fad.store.records import Records
from pv4fad.store.store import Store, Transaction
from pv4fad.workers import WorkerPool

_NO_RECORDS = BankRecords((), (), np.zeros((0, 0), np.int16), "")


class AggregatorMember:
    """The aggregator, which has no data."""

    name = AGGREGATOR

    def __init__(self, store: Store, pool: WorkerPool) -> None:
        self._party = Aggregator(AGGREGATOR, store, pool)

    def begin_session(self) -> None:
        """It has no data to read."""

    def handle(self, data: bytes) -> list[bytes]:
        return self._party.handle(data)

    def unanswered(self) -> list[bytes]:
        return self._party.unanswered()

    def do(self, job: Job, post: Post, *, again: bool, order: str) -> None:
        raise _only_the_network_leads(job, self.name)


class BankMember:
    """A bank, which reads its account file at the beginning of every session."""

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
        self._path = accounts
        self._party = _BankWithAccounts(
            identity.name,
            store,
            pool,
            records=_NO_RECORDS,
            identity=identity,
            signing_keys={
                name: card.public.signing_key for name, card in cards.items() if card.role == BANK
            },
            honest_banks=honest_banks,
            layers_per_day=layers_per_day,
        )

    def begin_session(self) -> None:
        self._party.bring(load_bank(self._path))

    def handle(self, data: bytes) -> list[bytes]:
        return self._party.handle(data)

    def unanswered(self) -> list[bytes]:
        return self._party.unanswered()

    def do(self, job: Job, post: Post, *, again: bool, order: str) -> None:
        raise _only_the_network_leads(job, self.name)


class _BankWithAccounts(Bank):
    """Describes its accounts by the atoms of the run to which a message belongs.

    Atoms are public: they come with the proposal of a run.
    """

    _accounts: pl.DataFrame | None = None
    _schema: AtomSchema | None = None

    def bring(self, accounts: pl.DataFrame) -> None:
        """Use the accounts as they are now."""
        self._accounts, self._schema = accounts, None

    def _answer(self, message: Message, tx: Transaction) -> Iterable[Message]:
        if self._accounts is None:
            raise OrderError(f"{self.name}: a message before the session began")
        schema = (
            RunParameters.from_json(message.parameters)
            if isinstance(message, RunProposal)
            else parameters_of(Records(tx, message.address.run_id))
        ).atoms
        if schema != self._schema:
            self.replace_records(bank_records(self._accounts, schema))
            self._schema = schema
        return super()._answer(message, tx)


def _only_the_network_leads(job: Job, name: str) -> ParameterError:
    return ParameterError(f"{name} was asked to lead the job {job!r}: only the payment network can")
