"""The whole protocol on one screen: who speaks when.  S payment network, B bank, A aggregator.

    propose   S → all  parameters and keys          B → S  its keys
    match     S → B    the encrypted table          B → S  shares of the join
    count     S → B    masked products              B → A  noisy, masked sums
              A → S    the sum over all banks: noisy counts
    ask       S → B    one question per account     B → S  one bit each, in a fixed number of rounds

The paper's model has, after the noisy sums,

    compare   A → S    blinded sums                 S → A  their digits, encrypted
    labels    A → S    one share of the labels      A → B  the other (sealed), or to S (released)

Each party acts on its own when a message arrives (`parties`); a federation only carries the
messages: `Federation` with all parties in one process, `pv4fad.deployment` over a network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.evidence.classes import Absent, CountedSets
from pv4fad.forest.atoms import class_schema
from pv4fad.hashing.keyed import new_hash_key
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.bank import Bank
from pv4fad.parties.in_process import InProcessTransport, Observer
from pv4fad.parties.network_stages import TrainingInput
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.parties.scoring_tables import Round, ScoringInput
from pv4fad.privacy.epsilon import Epsilon, epsilon_text
from pv4fad.protocol.parameters import Mode, NoiseMode, RunParameters, count_sizes
from pv4fad.protocol.tables import TableAccounts, padded, plan_tables
from pv4fad.randomness import secret_bytes


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

    def rematch(
        self,
        parameters: RunParameters,
        tables: Mapping[str, TableAccounts],
        *,
        replace: bool,
        observer: Observer | None = None,
    ) -> None:
        """A further match for a trained model: more tables, or all of them anew (`replace`)."""
        self.deliver(self.payment_network.rematch(parameters, tables, replace=replace), observer)

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
        """The vote total of each side of each transaction, (transactions, 2)."""
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
        self._transport(observer).deliver(self.payment_network.name, messages)

    def resume(self, observer: Observer | None = None) -> None:
        transport = self._transport(observer)
        for party in (self.payment_network, *self.banks, self.aggregator):
            transport.deliver(party.name, party.unanswered())

    def _transport(self, observer: Observer | None) -> InProcessTransport:
        parties = (self.payment_network, *self.banks, self.aggregator)
        return InProcessTransport({party.name: party for party in parties}, observer)


def match_parameters(
    model: RunParameters,
    tables: Mapping[str, TableAccounts],
    bank_accounts: Mapping[str, int],
    epoch: int,
) -> tuple[RunParameters, dict[str, TableAccounts]]:
    """The parameters of a further match for a model, and its tables under their new names."""
    named = {f"{table_id}@{epoch}": accounts for table_id, accounts in tables.items()}
    plans = plan_tables(tables, list(model.banks), model.sizes.n_trees)
    parameters = RunParameters(
        **model.model_dump(exclude={"tables", "banks", "hash_key", "purpose", "model_modulus"}),
        banks={bank: padded(n) for bank, n in bank_accounts.items()},
        tables=tuple(
            plan.model_copy(update={"table_id": f"{plan.table_id}@{epoch}"}) for plan in plans
        ),
        hash_key=new_hash_key(),
        purpose="matching",
        model_modulus=model.plain_modulus,
    )
    return parameters, named


def run_parameters(
    data: TrainingInput,
    bank_accounts: Mapping[str, int],
    *,
    bound: int,
    epsilon: Epsilon,
    noise: NoiseMode,
    honest_banks: int,
    mode: Mode,
    counted: CountedSets | None = None,
    absent: Absent | None = None,
) -> RunParameters:
    """The parameters of a new run.  The hash key is drawn here: the accounts are fixed by now."""
    if data.trees is not None:
        atoms, sizes = data.trees.forest.schema, data.trees.forest.sizes
    elif counted is not None and absent is not None:
        atoms, sizes = class_schema(absent), count_sizes(counted, absent)
    else:
        raise ParameterError("a run needs trees, or classes to count")
    return RunParameters(
        run_id=secret_bytes(8).hex(),
        banks={bank: padded(n) for bank, n in bank_accounts.items()},
        tables=plan_tables(data.tables, list(bank_accounts), sizes.n_trees),
        atoms=atoms,
        sizes=sizes,
        bound=bound,
        epsilon=epsilon_text(epsilon),
        noise=noise,
        honest_banks=honest_banks,
        mode=mode,
        counted=counted,
        absent=absent,
        hash_key=new_hash_key(),
    )
