"""A federation of one machine: all parties in this process, each with a store of its own.

    federation = simulate(records, pool, first_limit=Fraction(1))            stores in memory
    with Site(root_key).open(folder, records) as federation: ...           stores in a run folder

A bank's keys and its limit for ε are made once and stay in its store.  That the banks know each
other's signing keys beforehand is easy here, where all of them are on one machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from pv4fad.lead.federation import Federation
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.bank import Bank
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.privacy.ledger import read_ledger, set_limit
from pv4fad.protocol.identity import identity_in
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.propose.policy import Policy
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.score.bank import DEFAULT_LAYERS_PER_DAY
from pv4fad.protocol.score.metering import DEFAULT_BUDGET, Budget
from pv4fad.run.folder import RunFolder
from pv4fad.store.sealing import RootKey
from pv4fad.store.store import MemoryStore, Store
from pv4fad.workers import WorkerPool, Workers

RELIES_ON_ALL = Policy(honest_share=1)
"""Of a bank that has said nothing: who runs all parties decides for all of them."""
_MOST_BANKS_AT_ONCE = 16


def simulate(
    records: Mapping[str, BankRecords],
    pool: WorkerPool,
    *,
    stores: Mapping[str, Store] | None = None,
    first_limit: Epsilon | None,
    policies: Mapping[str, Policy] | None = None,
    layers_per_day: int = DEFAULT_LAYERS_PER_DAY,
    budget: Budget = DEFAULT_BUDGET,
) -> Federation:
    """All parties, ready to run.

    `records`: of each bank.  `stores`: of each party by name; by default new ones in memory.
    `first_limit`: the ε allowed by a bank that has no limit yet; None sets none, and such a bank
    spends nothing.  `policies`: of banks that have one; others rely on all of them.
    `layers_per_day`: how many scoring layers each bank answers per table and day.
    `budget`: of positive answers of each bank, in metered runs.
    """
    if stores is None:
        stores = memory_stores(records)
    identities = {bank: identity_in(stores[bank]) for bank in records}
    signing_keys = {bank: keys.public().signing_key for bank, keys in identities.items()}
    if first_limit is not None:
        for bank in records:
            _set_first_limit(stores[bank], first_limit)
    banks = [
        Bank(
            bank,
            stores[bank],
            pool,
            records=records[bank],
            identity=identities[bank],
            signing_keys=signing_keys,
            policy=(policies or {}).get(bank, RELIES_ON_ALL),
            layers_per_day=layers_per_day,
            budget=budget,
        )
        for bank in records
    ]
    # A small table is one job at a time: two banks more than workers leave none of them idle.
    at_once = min(pool.n_workers + 2, _MOST_BANKS_AT_ONCE) if pool.n_workers else 1
    return Federation(
        PaymentNetwork(stores[PAYMENT_NETWORK], pool, at_once),
        banks,
        Aggregator(AGGREGATOR, stores[AGGREGATOR], pool),
    )


@dataclass(frozen=True)
class Site:
    """Where a federation of one machine runs: one root key for all its stores."""

    root_key: RootKey
    first_limit: Epsilon | None = None
    """The ε that a bank without a limit allows; None: nothing."""
    workers: Workers = None
    layers_per_day: int = DEFAULT_LAYERS_PER_DAY
    """How many scoring layers each bank answers per table and day."""
    budget: Budget = DEFAULT_BUDGET
    """Of positive answers of each bank, in metered runs."""

    @contextmanager
    def open(
        self,
        folder: RunFolder,
        records: Mapping[str, BankRecords],
        *,
        create: bool = False,
    ) -> Iterator[Federation]:
        """The parties of the run in `folder`; `create` makes the stores that do not exist."""
        with (
            folder.stores(party_names(records), self.root_key, create=create) as stores,
            WorkerPool(self.workers) as pool,
        ):
            yield simulate(
                records,
                pool,
                stores=stores,
                first_limit=self.first_limit,
                layers_per_day=self.layers_per_day,
                budget=self.budget,
            )


def party_names(banks: Iterable[str]) -> list[str]:
    """All parties of a federation with these banks."""
    return [PAYMENT_NETWORK, AGGREGATOR, *banks]


def memory_stores(banks: Iterable[str]) -> dict[str, MemoryStore]:
    """A new store in memory for every party."""
    return {party: MemoryStore(party) for party in party_names(banks)}


def _set_first_limit(store: Store, limit: Epsilon) -> None:
    with store.transaction() as tx:
        if read_ledger(tx).limit is None:
            set_limit(tx, limit, datetime.now(UTC))
