"""The parties as stations run them: each has its own data and keys, and the cards of the others.

The payment network, which leads, is in `jobs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pv4fad.deployment.card import PartyCard
from pv4fad.deployment.exchange import Job
from pv4fad.deployment.station import Post
from pv4fad.errors import ParameterError
from pv4fad.lead.data import bank_records, load_holder
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.bank import Bank
from pv4fad.protocol.count.messages import MaskedProducts
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.live.bank import LiveAnswers
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.match.messages import TablesInForce
from pv4fad.protocol.propose.policy import Policy
from pv4fad.protocol.roles import AGGREGATOR, BANK
from pv4fad.protocol.score.metering import Budget
from pv4fad.protocol.wire import read_header
from pv4fad.schema import Schema
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool

_CHANGE_KEYS = {MaskedProducts.kind, TablesInForce.kind}
"""After these a training may be complete, or the keys of another match in use."""


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
        schema: Schema,
        policy: Policy,
        layers_per_day: int,
        budget: Budget,
        live: LiveAnswers | None = None,
    ) -> None:
        """`live`: answers live queries; it is told the keys in use."""
        self.name = identity.name
        self._path, self._schema, self._live = accounts, schema, live
        none_yet = BankRecords((), (), np.zeros(0, np.int16), schema, "")
        self._party = Bank(
            identity.name,
            store,
            pool,
            records=none_yet,
            identity=identity,
            signing_keys={
                name: card.public.signing_key for name, card in cards.items() if card.role == BANK
            },
            policy=policy,
            layers_per_day=layers_per_day,
            budget=budget,
        )
        self._use_keys()

    def begin_session(self) -> None:
        records = load_holder(self._schema, self._path, self.name)
        self._party.replace_records(bank_records(self._schema, records))

    def handle(self, data: bytes) -> list[bytes]:
        replies = self._party.handle(data)
        if read_header(data).kind in _CHANGE_KEYS:
            self._use_keys()
        return replies

    def unanswered(self) -> list[bytes]:
        return self._party.unanswered()

    def do(self, job: Job, post: Post, *, again: bool, order: str) -> None:
        raise _only_the_network_leads(job, self.name)

    def _use_keys(self) -> None:
        if self._live is not None:
            self._live.use(self._party.live_keys())


def _only_the_network_leads(job: Job, name: str) -> ParameterError:
    return ParameterError(f"{name} was asked to lead the job {job!r}: only the lead can")
