"""Generated work for benchmarks: a payment network, its banks, a forest, and the plain truth.

The payment network's accounts are spread evenly over the banks.  A bank knows half of its own
(fewer if it has fewer), and has otherwise accounts that the payment network has never seen.  Every
account of the payment network sends one payment and receives one; new payments to score are spread
over all of them.  Atoms are uniform, so that no atom is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError
from pv4fad.federation import Federation, run_parameters
from pv4fad.forest.atoms import AtomFamily, AtomSchema
from pv4fad.forest.counts import green_labels, group_counts
from pv4fad.forest.pairs import AccountIndex, CountConfig, KeptPairs, choose_pairs
from pv4fad.forest.structure import Forest, PublicSizes
from pv4fad.forest.tree import BankCondition, BankNode, Leaf, Node, Side, Split
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.hashing.identity import KEY_SEPARATOR
from pv4fad.hashing.keyed import tree_of
from pv4fad.he.pool import WorkerPool
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.bank import Bank
from pv4fad.parties.bank_table import BankRecords
from pv4fad.parties.identity import Identity
from pv4fad.parties.network_stages import TrainingInput
from pv4fad.parties.party import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.parties.scoring_tables import ScoringInput
from pv4fad.parties.store import MemoryStore
from pv4fad.privacy.ledger import set_limit
from pv4fad.protocol.parameters import Mode, RunParameters
from pv4fad.protocol.tables import TableAccounts

ABSENT = -1


@dataclass(frozen=True)
class Workload:
    """Sizes, and everything generated from them."""

    pns_accounts: int
    bank_accounts: int
    n_atoms: int = 11
    n_trees: int = 12
    groups_per_tree: int = 1
    bound: int = 2  # every account has two payments
    n_banks: int = 1
    seed: int = 1

    def __post_init__(self) -> None:
        for name in (
            "pns_accounts",
            "bank_accounts",
            "n_atoms",
            "n_trees",
            "groups_per_tree",
            "n_banks",
        ):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} must be at least 1")

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
                _bare(self._numbers(number)),
                self._bank_atoms[number],
                "generated for a benchmark",
            )
            for number, bank in enumerate(self.banks)
        }

    @cached_property
    def atoms(self) -> NDArray[np.int64]:
        """What the payment network's account `key` finds at its bank: (keys, 1), −1 if nothing."""
        found = np.full((self.pns_accounts, 1), ABSENT, np.int64)
        for number in range(self.n_banks):
            shared = self._shared(number)
            found[shared] = self._bank_atoms[number, : len(shared)]
        return found

    @cached_property
    def _bank_atoms(self) -> NDArray[np.int16]:
        rng = np.random.default_rng([self.seed, 1])
        shape = (self.n_banks, self.bank_accounts, 1)
        return rng.integers(self.n_atoms, size=shape).astype(np.int16)

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
    def forest(self) -> Forest:
        """Each tree asks the bank who pays, then divides one feature into its groups."""
        groups = _intervals(0, self.groups_per_tree, self.groups_per_tree)
        asks = BankNode(BankCondition(Side.ORDERING, ((0,),)), groups)
        trees = (asks,) * self.n_trees
        schema = AtomSchema((AtomFamily("flags", tuple(map(str, range(self.n_atoms)))),))
        sizes = PublicSizes(self.n_trees, self.groups_per_tree, 1, 1, self.n_atoms)
        return Forest(trees, ("amount",), schema, sizes)

    @cached_property
    def pairs(self) -> KeptPairs:
        """The payments that count."""
        keys = np.arange(self.pns_accounts)
        bare_trees = tree_of(_bare(keys), self.n_trees)
        rng = np.random.default_rng([self.seed, 2])
        sides = np.stack([rng.permutation(keys), rng.permutation(keys)], axis=1)
        return choose_pairs(
            self.forest,
            self._codes,
            self._labels,
            AccountIndex(sides, keys, bare_trees),
            config=CountConfig(bound=self.bound),
            rng=rng,
        )

    @cached_property
    def tables(self) -> dict[str, TableAccounts]:
        """All of the payment network's accounts are routed to their banks."""
        return {
            bank: TableAccounts(
                _qualified(number, self._own(number)),
                tree_of(_bare(self._own(number)), self.n_trees),
                self._own(number),
            )
            for number, bank in enumerate(self.banks)
        }

    @cached_property
    def training_input(self) -> TrainingInput:
        """What the payment network brings to a run."""
        return TrainingInput(
            self.forest,
            group_counts(self.forest, self.pairs, self.pns_accounts),
            green_labels(self.forest, self._codes, self._labels),
            self.tables,
        )

    @cached_property
    def _codes(self) -> NDArray[np.int32]:
        rng = np.random.default_rng([self.seed, 3])
        return self.forest.route(rng.random((self.pns_accounts, 1), np.float32))

    @cached_property
    def _labels(self) -> NDArray[np.int8]:
        rng = np.random.default_rng([self.seed, 4])
        return (rng.random(self.pns_accounts) < 0.5).astype(np.int8)

    def payments(self, n: int, per_account: int) -> ScoringInput:
        """New payments to score, at most so many of any account."""
        if n > self.pns_accounts * per_account:
            raise ParameterError(
                f"{n} transactions over {self.pns_accounts} accounts are more than {per_account} "
                "of some account"
            )
        rng = np.random.default_rng([self.seed, 5])
        chosen = rng.choice(self.pns_accounts * per_account, size=n, replace=False, shuffle=False)
        accounts = chosen // per_account
        return ScoringInput(
            self.forest.route(rng.random((n, 1), np.float32)),
            [
                (bic(number % self.n_banks), bare.decode())
                for number, bare in enumerate(_bare(np.arange(self.pns_accounts)))
            ],
            np.stack([accounts, accounts], axis=1),
            layers_at_once=per_account,
        )

    # Both.

    def votes(self, data: ScoringInput) -> NDArray[np.int64]:
        """What a trusted third party's trees say of payments, (transactions, 2)."""
        labels = self.truth.red_labels(self.truth.counts(self.pairs))
        none: NDArray[np.int8] = np.zeros(0, np.int8)  # no tree ends without asking the bank
        return self.truth.votes(data.codes, data.key_of, labels, none).sides

    @property
    def truth(self) -> TrustedThirdParty:
        """All of it in one place."""
        return TrustedThirdParty(self.forest, self.atoms)

    def parameters(self, mode: Mode = "sealed") -> RunParameters:
        """A new run without noise, so that everything can be compared with the truth."""
        return run_parameters(
            self.training_input,
            dict.fromkeys(self.banks, self.bank_accounts),
            bound=self.bound,
            epsilon="none",
            noise="none",
            honest_banks=1,
            mode=mode,
        )

    def federation(
        self, pool: WorkerPool, network_store: type[MemoryStore] = MemoryStore
    ) -> Federation:
        """The parties, with stores in memory."""
        identities = {bank: Identity.generate(bank) for bank in self.banks}
        signing_keys = {bank: one.public().signing_key for bank, one in identities.items()}
        banks = []
        for bank, identity in identities.items():
            store = MemoryStore(bank)
            with store.transaction() as tx:
                set_limit(tx, "none", datetime.now(UTC))
            banks.append(
                Bank(
                    bank,
                    store,
                    pool,
                    records=self.records[bank],
                    identity=identity,
                    signing_keys=signing_keys,
                )
            )
        return Federation(
            PaymentNetwork(network_store(PAYMENT_NETWORK), pool),
            banks,
            Aggregator(AGGREGATOR, MemoryStore(AGGREGATOR), pool),
        )


def _intervals(first: int, stop: int, n: int) -> Node:
    """A balanced tree over the intervals first..stop−1 of n equal ones between 0 and 1."""
    if stop - first == 1:
        return Leaf()
    middle = (first + stop) // 2
    cut = float(np.float32(middle / n))
    return Split(0, cut, _intervals(first, middle, n), _intervals(middle, stop, n))


def bic(number: int) -> str:
    """Of a bank."""
    return f"BNCHDE{number:02}"


def _bare(numbers: NDArray[np.int64]) -> tuple[bytes, ...]:
    return tuple(b"%012d" % number for number in numbers)


def _qualified(bank: int, numbers: NDArray[np.int64]) -> tuple[bytes, ...]:
    prefix = f"{bic(bank)}{KEY_SEPARATOR}".encode()
    return tuple(b"%b%012d" % (prefix, number) for number in numbers)
