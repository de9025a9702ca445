"""`pv4fad example`: six payments, two banks, and sums that one can check by hand.

Real parties, keys and messages, all in memory.  The noise is off, so that the answer is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.cli.console import err, out
from pv4fad.federation import Federation, run_parameters
from pv4fad.forest.atoms import FLAGS, AtomSchema
from pv4fad.forest.counts import group_counts
from pv4fad.forest.pairs import KeptPairs
from pv4fad.forest.structure import Forest, PublicSizes
from pv4fad.forest.tree import BankCondition, BankNode, Leaf, Side
from pv4fad.forest.trusted import TrustedThirdParty
from pv4fad.hashing.identity import canonical_account, qualified_key
from pv4fad.he.pool import WorkerPool
from pv4fad.parties.aggregator import Aggregator
from pv4fad.parties.bank import Bank
from pv4fad.parties.bank_table import BankRecords
from pv4fad.parties.identity import Identity
from pv4fad.parties.network_stages import TrainingInput
from pv4fad.parties.party import AGGREGATOR, PAYMENT_NETWORK, Party, RunRecords
from pv4fad.parties.payment_network import PaymentNetwork
from pv4fad.parties.store import MemoryStore
from pv4fad.privacy.ledger import set_limit
from pv4fad.protocol.tables import assign_tables

PAYMENTS = {"Ada": 0, "Ben": 0, "Cem": 1, "Dia": 1, "Eve": 1, "Fay": 1}
"""To whom, and the label: 1 is anomalous."""
ACCOUNTS = {"bank01": {"Ada": "00", "Ben": "00", "Cem": "07"}, "bank02": {"Dia": "00", "Eve": "04"}}
"""The flags of each bank's accounts; Fay's is not there."""
BICS = {"bank01": "AAAADEFF", "bank02": "BBBBFRPP"}

STORY = """\
The payment network knows        The banks know (flag 00: nothing against the account)
  to Ada   normal      -1          bank01   Ada 00, Ben 00, Cem 07
  to Ben   normal      -1          bank02   Dia 00, Eve 04
  to Cem   anomalous   +1          nobody   Fay
  to Dia   anomalous   +1
  to Eve   anomalous   +1
  to Fay   anomalous   +1

sum over payments to   by hand                     third party   private   label
  accounts with 00     Ada -1 Ben -1 Dia +1 = -1 {third[0]:>+13}{private[0]:>+10}{label[0]:>8}
  all others           Cem +1 Eve +1 Fay +1 = +3 {third[1]:>+13}{private[1]:>+10}{label[1]:>8}

Nobody saw {private[0]}: the payment network held {own}, the banks {others};
{sum} = {private[0]} modulo {modulus}.
{n_messages} messages, {megabytes:.0f} MB; 5000 accounts take no more: a table has 16384 bins.
"""

_BANK_OF = {name: bank for bank, flags in ACCOUNTS.items() for name in flags} | {"Fay": "bank02"}


@dataclass(frozen=True)
class Sums:
    """For flag 00 and for the rest: the sum and the label that follows from it."""

    counts: Sequence[int]
    labels: Sequence[int]


@dataclass(frozen=True)
class PrivateResult:
    """What the federation computed, and the shares in which it was held on the way."""

    sums: Sums
    shares: dict[str, int]  # party → its share of the sum for flag 00
    modulus: int
    message_bytes: Sequence[int]


def one_node_forest() -> Forest:
    """One tree that asks one question: does the beneficiary's account have flag 00?"""
    schema = AtomSchema()
    condition = BankCondition(Side.BENEFICIARY, (schema.atom_set(FLAGS.name, ("00",)),))
    sizes = PublicSizes(
        n_trees=1, groups_per_tree=1, n_sets=1, n_distinct_sets=1, n_atoms=schema.n_atoms
    )
    return Forest((BankNode(condition, Leaf()),), (), schema, sizes)


def signed_pairs() -> KeptPairs:
    """Every payment counts +1 if it is anomalous and −1 if not."""
    n = len(PAYMENTS)
    return KeptPairs(
        transaction=np.arange(n),
        side=np.full(n, Side.BENEFICIARY, np.int8),
        group=np.zeros(n, np.int64),
        key=np.arange(n),
        weight=np.array([1 if label else -1 for label in PAYMENTS.values()]),
    )


def by_a_trusted_third_party() -> Sums:
    """With all data in one place."""
    flag_of = {name: flag for flags in ACCOUNTS.values() for name, flag in flags.items()}
    atoms = [FLAGS.atoms.index(flag_of[name]) if name in flag_of else -1 for name in PAYMENTS]
    third_party = TrustedThirdParty(one_node_forest(), np.array(atoms)[:, np.newaxis])
    counts = third_party.counts(signed_pairs())
    return Sums(counts[0].tolist(), third_party.red_labels(counts)[0].tolist())


def by_the_federation() -> PrivateResult:
    """With every party keeping its data to itself."""
    forest, pairs = one_node_forest(), signed_pairs()
    keys = [(BICS[_BANK_OF[name]], canonical_account(name)) for name in PAYMENTS]
    tables = assign_tables(keys, {bic: bank for bank, bic in BICS.items()}, 1, broadcast=False)
    counts = group_counts(forest, pairs, len(keys))
    data = TrainingInput(forest, counts, np.zeros(0, np.int8), tables)
    parameters = run_parameters(
        data,
        {bank: len(flags) for bank, flags in ACCOUNTS.items()},
        bound=1,
        epsilon="none",
        noise="none",
        honest_banks=1,
        mode="released",
    )
    sizes: list[int] = []
    pool = WorkerPool(0)  # one block per bank: done before worker processes would have started
    network = PaymentNetwork(MemoryStore(PAYMENT_NETWORK), pool)
    aggregator = Aggregator(AGGREGATOR, MemoryStore(AGGREGATOR), pool)
    federation = Federation(network, _banks(pool), aggregator)
    federation.train(parameters, data, lambda _, n_bytes: sizes.append(n_bytes))
    t = parameters.plain_modulus
    own = int(_arrays(network, parameters.run_id, "sums")["p"][0, 0])
    shares = {
        bank.name: int(_arrays(bank, parameters.run_id, "sums")["q"][0])
        for bank in federation.banks
    }
    first = (own - sum(shares.values()) + t // 2) % t - t // 2
    labels = _arrays(network, parameters.run_id, "labels")["labels"]
    return PrivateResult(
        Sums([first, int(counts.n_path[0]) - first], labels.tolist()),
        {PAYMENT_NETWORK: own, **shares},
        t,
        sizes,
    )


def _banks(pool: WorkerPool) -> list[Bank]:
    identities = {bank: Identity.generate(bank) for bank in ACCOUNTS}
    signing_keys = {bank: one.public().signing_key for bank, one in identities.items()}
    banks = []
    for bank, flags in ACCOUNTS.items():
        store = MemoryStore(bank)
        with store.transaction() as tx:
            set_limit(tx, "none", datetime.now(UTC))
        records = BankRecords(
            tuple(qualified_key(BICS[bank], name) for name in flags),
            tuple(canonical_account(name).encode() for name in flags),
            np.array([[FLAGS.atoms.index(flag)] for flag in flags.values()], np.int16),
            "example",
        )
        identity = identities[bank]
        banks.append(
            Bank(bank, store, pool, records=records, identity=identity, signing_keys=signing_keys)
        )
    return banks


def _arrays(party: Party, run_id: str, name: str) -> dict[str, NDArray[Any]]:
    with party.store.transaction() as tx:
        return RunRecords(tx, run_id).get_arrays(name)


def example() -> None:
    """Six payments, two banks, one question: a private count that you can check by hand."""
    plain = by_a_trusted_third_party()
    with err.status("six payments, two banks, real keys: a few seconds ..."):
        private = by_the_federation()
    out.print(report(plain, private), markup=False, soft_wrap=True, end="")


def report(plain: Sums, private: PrivateResult) -> str:
    """The example as text."""
    own, *others = private.shares.values()
    return STORY.format(
        third=plain.counts,
        private=private.sums.counts,
        label=private.sums.labels,
        own=own,
        others=" and ".join(map(str, others)),
        sum=" - ".join(map(str, (own, *others))),
        modulus=private.modulus,
        n_messages=len(private.message_bytes),
        megabytes=sum(private.message_bytes) / 1e6,
    )
