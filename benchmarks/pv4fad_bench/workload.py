"""Generated work for benchmarks: a payment network and its banks, and the plain truth.

The payment network's accounts are spread evenly over the banks.  A bank knows half of its own
(fewer if it has fewer), and has otherwise accounts that the payment network has never seen.
Classes are uniform, so that no class is cheap; each is a kind of its own.  What is counted and
asked is that of a model: the default one (`evidence_workload`), or the paper's (`paper_workload`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.hashing.keyed import tree_of
from pv4fad.lead.federation import Federation
from pv4fad.lead.simulate import memory_stores, simulate
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.score.metering import DEFAULT_BUDGET
from pv4fad.protocol.tables import AccountKey, TableAccounts
from pv4fad.schema import KEY_SEPARATOR, Absent, RecordSchema, RowsSchema, Schema, SideSchema
from pv4fad.store.store import MemoryStore
from pv4fad.workers import WorkerPool
from pv4fad_bench.batches import Batch

ABSENT = -1
CLASSES = ("ordinary", "mild", "severe")
"""The first classes of every workload; further ones have numbers."""


@dataclass(frozen=True)
class Workload(ABC):
    """Sizes, and everything generated from them."""

    pns_accounts: int
    bank_accounts: int
    n_banks: int = 1
    seed: int = 1

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if type(value) is int and value < 1:
                raise ParameterError(f"{one.name} must be at least 1")

    # The model.

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """How many classes of records there are."""

    @property
    @abstractmethod
    def absent(self) -> Absent | None:
        """What the default model takes an absent record for; None of the paper's."""

    @property
    @abstractmethod
    def n_trees(self) -> int:
        """How many trees accounts are divided among."""

    @property
    @abstractmethod
    def training_input(self) -> TrainingInput:
        """What the payment network brings to a run."""

    @abstractmethod
    def parameters(self) -> RunParameters:
        """A new run without noise, so that everything can be compared with the truth."""

    @abstractmethod
    def true_counts(self) -> NDArray[np.int64]:
        """(groups or cells, sets): what a trusted third party counts."""

    @abstractmethod
    def batch(self, n: int, per_account: int) -> Batch:
        """New payments to score, at most so many of any account."""

    @abstractmethod
    def n_layers(self, per_account: int) -> int:
        """Layers in which such a batch is asked about."""

    @cached_property
    def schema(self) -> Schema:
        """Rows with two sides, and records of these classes."""
        numbered = (f"class {number}" for number in range(len(CLASSES), self.n_classes))
        return Schema(
            name="generated",
            rows=RowsSchema(id="Payment", time="Time"),
            sides={
                "payer": SideSchema(id="Payer", holder="PayerBank"),
                "payee": SideSchema(id="Payee", holder="PayeeBank"),
            },
            record=RecordSchema(classes=(*CLASSES, *numbered)[: self.n_classes]),
        )

    # The banks.

    @cached_property
    def banks(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(f"bank{number:02}" for number in range(1, self.n_banks + 1))

    @cached_property
    def records(self) -> dict[str, BankRecords]:
        """What each bank holds."""
        return {
            bank: BankRecords(
                _qualified(number, self._numbers(number)),
                bare_ids(self._numbers(number)),
                self._bank_classes[number],
                self.schema,
                "generated for a benchmark",
            )
            for number, bank in enumerate(self.banks)
        }

    @cached_property
    def atoms(self) -> NDArray[np.int64]:
        """(keys,): what the payment network's account `key` finds at its bank, −1 if nothing."""
        atom_of = np.array(self.schema.atom_of_class(self.absent))
        found = np.full(self.pns_accounts, ABSENT, np.int64)
        for number in range(self.n_banks):
            shared = self._shared(number)
            found[shared] = atom_of[self._bank_classes[number, : len(shared)]]
        return found

    @cached_property
    def _bank_classes(self) -> NDArray[np.int16]:
        rng = np.random.default_rng([self.seed, 1])
        shape = (self.n_banks, self.bank_accounts)
        return rng.integers(self.n_classes, size=shape).astype(np.int16)

    def _own(self, number: int) -> NDArray[np.int64]:
        """The payment network's accounts at a bank."""
        return np.arange(number, self.pns_accounts, self.n_banks)

    def _shared(self, number: int) -> NDArray[np.int64]:
        """Those of them that the bank knows."""
        own = self._own(number)
        return own[: min(-(-len(own) // 2), self.bank_accounts)]

    def _numbers(self, number: int) -> NDArray[np.int64]:
        """All accounts of a bank: those of the payment network first."""
        shared = self._shared(number)
        first = self.pns_accounts + number * self.bank_accounts
        return np.concatenate([shared, np.arange(first, first + self.bank_accounts - len(shared))])

    # The payment network.

    @cached_property
    def tables(self) -> dict[str, TableAccounts]:
        """All of the payment network's accounts are routed to their banks."""
        return {
            bank: TableAccounts(
                _qualified(number, self._own(number)),
                tree_of(bare_ids(self._own(number)), self.n_trees),
                self._own(number),
            )
            for number, bank in enumerate(self.banks)
        }

    @cached_property
    def keys(self) -> Sequence[AccountKey]:
        """Its accounts, each at its bank."""
        return [
            (bic(number % self.n_banks), bare.decode())
            for number, bare in enumerate(bare_ids(np.arange(self.pns_accounts)))
        ]

    def paying_accounts(self, n: int, per_account: int) -> NDArray[np.int64]:
        """Whose payments are to be scored: spread over all accounts, at most so many of each."""
        if n > self.pns_accounts * per_account:
            raise ParameterError(
                f"{n} transactions over {self.pns_accounts} accounts are more than {per_account} "
                "of some account"
            )
        rng = np.random.default_rng([self.seed, 5])
        chosen = rng.choice(self.pns_accounts * per_account, size=n, replace=False, shuffle=False)
        return chosen // per_account

    # Both.

    def federation(
        self, pool: WorkerPool, network_store: type[MemoryStore] = MemoryStore
    ) -> Federation:
        """The parties, with stores in memory."""
        stores = memory_stores(self.banks)
        stores[PAYMENT_NETWORK] = network_store(PAYMENT_NETWORK)
        budget = replace(DEFAULT_BUDGET, positives_per_day=10 * self.pns_accounts)
        return simulate(self.records, pool, stores=stores, first_limit="none", budget=budget)


def bic(number: int) -> str:
    """Of a bank."""
    return f"BNCHDE{number:02}"


def bare_ids(numbers: NDArray[np.int64]) -> tuple[bytes, ...]:
    """Of accounts, without their bank."""
    return tuple(b"%012d" % number for number in numbers)


def _qualified(bank: int, numbers: NDArray[np.int64]) -> tuple[bytes, ...]:
    prefix = f"{bic(bank)}{KEY_SEPARATOR}".encode()
    return tuple(b"%b%012d" % (prefix, number) for number in numbers)
