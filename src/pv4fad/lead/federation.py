"""A federation: carries the messages of its parties until there are no more.

The order of the protocol is `protocol.order`.  Each party acts on its own when a message arrives
(`parties`); a federation only carries the messages: `Federation` with all parties in one process,
`pv4fad.deployment` over a network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.audit.notary import Notary, known_keys
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.bank import Bank
from pv4fad.parties.in_process import InProcessTransport, Observer
from pv4fad.parties.party import Party
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.protocol.identity import identity_in
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput
from pv4fad.protocol.score.inputs import Round, ScoringInput
from pv4fad.protocol.tables import TableAccounts


@dataclass(frozen=True)
class LedFederation(ABC):
    """A federation as its payment network leads it, wherever the others are."""

    payment_network: PaymentNetwork
    banks: Sequence[Bank]
    """Those in this process."""

    @property
    @abstractmethod
    def bank_accounts(self) -> Mapping[str, int]:
        """How many accounts each bank of the federation declares."""

    @abstractmethod
    def deliver(self, messages: Iterable[bytes], observer: Observer | None = None) -> None:
        """Carry messages of the payment network, and all that is sent in answer."""

    @abstractmethod
    def resume(self, observer: Observer | None = None) -> None:
        """Carry on after a crash: everybody sends again what may not have arrived."""

    def train(
        self, parameters: RunParameters, data: TrainingInput, observer: Observer | None = None
    ) -> None:
        """Propose a run and carry it through."""
        self.deliver(self.payment_network.propose(parameters, data), observer)

    def match(
        self,
        parameters: RunParameters,
        tables: Mapping[str, TableAccounts],
        *,
        replace: bool,
        observer: Observer | None = None,
    ) -> None:
        """A further match for a trained model: more tables, or in place of all (`replace`)."""
        self.deliver(self.payment_network.match(parameters, tables, replace=replace), observer)

    def ask(
        self, run_id: str, questions: Round, observer: Observer | None = None
    ) -> NDArray[np.int8]:
        """The answer to each question of a round."""
        batch, queries = self.payment_network.score(run_id, questions)
        self.deliver(queries, observer)
        bits = self.payment_network.bits(run_id, batch)
        self.payment_network.close(run_id, batch)
        return bits

    def score(
        self, run_id: str, data: ScoringInput, observer: Observer | None = None
    ) -> NDArray[np.int64]:
        """The vote total of each side of each transaction, (transactions, sides)."""
        batch, queries = self.payment_network.score(run_id, data)
        self.deliver(queries, observer)
        votes = self.payment_network.votes(run_id, batch)
        self.payment_network.close(run_id, batch)
        return votes


@dataclass(frozen=True)
class Federation(LedFederation):
    """All parties of a run in one process."""

    aggregator: Aggregator

    @property
    def bank_accounts(self) -> Mapping[str, int]:
        return {bank.name: bank.n_accounts for bank in self.banks}

    def deliver(self, messages: Iterable[bytes], observer: Observer | None = None) -> None:
        parties = self._parties()
        lead = parties[self.payment_network.name]
        InProcessTransport(parties, self.payment_network.pool, observer).deliver(
            lead.party.name, lead.stamped(messages)
        )

    def resume(self, observer: Observer | None = None) -> None:
        parties = self._parties()
        transport = InProcessTransport(parties, self.payment_network.pool, observer)
        for name, one in parties.items():
            transport.deliver(name, one.stamped(one.party.unanswered()))

    def _parties(self) -> dict[str, _Stamping]:
        parties: list[Party] = [self.payment_network, *self.banks, self.aggregator]
        identities = [identity_in(party.store) for party in parties]
        keys = known_keys(identity.public() for identity in identities)
        return {
            party.name: _Stamping(party, Notary(party.store, identity, keys))
            for party, identity in zip(parties, identities, strict=True)
        }


@dataclass(frozen=True)
class _Stamping:
    """A party whose messages are in signed chains (`pv4fad.audit`)."""

    party: Party
    notary: Notary = field(repr=False)

    def stamped(self, messages: Iterable[bytes]) -> list[bytes]:
        return [self.notary.stamped(message) for message in messages]

    def handle(self, data: bytes) -> list[bytes]:
        return self.stamped(self.party.handle(self.notary.opened(data)))
