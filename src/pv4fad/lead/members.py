"""The parties of a run, put together from their stores and from what the banks bring.

A bank's keys and its limit for ε are made once and stay in its store.  That the banks know each
other's signing keys beforehand is easy here, where all of them are on one machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pv4fad.lead.federation import Federation
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.bank import Bank
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.privacy.epsilon import Epsilon
from pv4fad.privacy.ledger import read_ledger, set_limit
from pv4fad.protocol.identity import Identity
from pv4fad.protocol.match.bank_accounts import BankRecords
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.score.bank import DEFAULT_LAYERS_PER_DAY
from pv4fad.store.store import Store
from pv4fad.workers import WorkerPool

_IDENTITY = "identity"


def party_names(banks: Iterable[str]) -> list[str]:
    """Everybody who needs a store."""
    return [PAYMENT_NETWORK, AGGREGATOR, *banks]


def assemble(
    stores: Mapping[str, Store],
    records: Mapping[str, BankRecords],
    pool: WorkerPool,
    *,
    first_limit: Epsilon | None,
    honest_banks: int = 1,
    layers_per_day: int = DEFAULT_LAYERS_PER_DAY,
) -> Federation:
    """All parties, ready to run.

    `first_limit`: the ε allowed by a bank that has no limit yet; None sets none, and such a bank
    spends nothing.  `honest_banks`: how many banks each bank relies on, itself included.
    `layers_per_day`: how many scoring layers each bank answers per table and day.
    """
    identities = {bank: _settled(stores[bank], first_limit) for bank in records}
    signing_keys = {bank: one.public().signing_key for bank, one in identities.items()}
    banks = [
        Bank(
            bank,
            stores[bank],
            pool,
            records=records[bank],
            identity=identities[bank],
            signing_keys=signing_keys,
            honest_banks=honest_banks,
            layers_per_day=layers_per_day,
        )
        for bank in records
    ]
    return Federation(
        PaymentNetwork(stores[PAYMENT_NETWORK], pool),
        banks,
        Aggregator(AGGREGATOR, stores[AGGREGATOR], pool),
    )


def _settled(store: Store, first_limit: Epsilon | None) -> Identity:
    """A bank's keys; its store gets what a new one lacks."""
    with store.transaction() as tx:
        stored = tx.get(_IDENTITY)
        if stored is not None:
            identity = Identity.from_bytes(stored)
        else:
            identity = Identity.generate(store.party)
            tx.put(_IDENTITY, identity.to_bytes())
        if first_limit is not None and read_ledger(tx).limit is None:
            set_limit(tx, first_limit, datetime.now(UTC))
    return identity
