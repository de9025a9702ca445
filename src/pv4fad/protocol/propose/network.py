"""The payment network in propose (protocol.md §8.0): proposals, the banks' keys, the roster."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pv4fad.protocol.checks import expect
from pv4fad.protocol.count.state import OwnSums
from pv4fad.protocol.identity import PublicIdentity
from pv4fad.protocol.match.network import place_accounts
from pv4fad.protocol.match.state import MatchesInForce
from pv4fad.protocol.order import receivers_of
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput
from pv4fad.protocol.propose.messages import BankKeys, Roster, RunProposal
from pv4fad.protocol.propose.ring_keys import SHARES, RingKeys, keep_keys, key_name
from pv4fad.protocol.propose.state import BankPublic, CountedAccounts, StoredTrees
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.state import Proposal, parameters_of
from pv4fad.protocol.tables import TableAccounts
from pv4fad.protocol.wire import Address
from pv4fad.store.records import Records


def keep_input(data: TrainingInput, parameters: RunParameters, run: Records) -> None:
    """All that training needs beside keys and tables."""
    counts = data.counts
    run.put(CountedAccounts(counts.start, counts.key, counts.weight, counts.n_path, sets=data.sets))
    if data.trees is not None:
        run.put(StoredTrees.of(data.trees))
    shape = (parameters.sizes.n_groups, parameters.sizes.n_sets)
    run.put(OwnSums(np.zeros(shape, np.uint64)))
    run.put(MatchesInForce((0,)))


def propose(
    parameters: RunParameters,
    keys: RingKeys,
    tables: Mapping[str, TableAccounts],
    run: Records,
) -> list[RunProposal]:
    """Step 1: keys and placed accounts are kept, the proposals go out."""
    text = parameters.model_dump_json().encode()
    run.put(Proposal(text))
    keep_keys(keys, run)
    for plan in parameters.tables:
        place_accounts(parameters, plan, tables[plan.table_id], run)
    proposals = []
    for receiver in receivers_of(parameters, RunProposal):
        rings, told = parameters.network_rings, text
        if receiver == AGGREGATOR:
            rings = parameters.aggregator_rings
            told = parameters.for_aggregator().model_dump_json().encode()
        public = [keys[name].public for name in rings]
        proposals.append(
            RunProposal(
                Address(PAYMENT_NETWORK, receiver, run.run_id, "", run.epoch),
                told,
                tuple(key.data for key in public),
                tuple(key.relinearisation or b"" for key in public),
            )
        )
    return proposals


def keep_bank_keys(message: BankKeys, run: Records) -> None:
    """After step 2: the keys of a bank."""
    parameters, bank = parameters_of(run), message.address.sender
    expect(bank in parameters.banks, message, "takes no part in this run")
    public = BankPublic(key_name(parameters, bank, SHARES), message.public_key, message.identity)
    public.key(parameters.share_ring).require_valid()
    expect(
        PublicIdentity.from_bytes(message.identity).name == bank,
        message,
        "the identity of another party",
    )
    run.put(public, bank)


def make_roster(address: Address, run: Records) -> Roster:
    """Step 3: the signed keys of all banks."""
    banks = parameters_of(run).banks
    return Roster(address, tuple(run.get(BankPublic, bank).identity for bank in banks))
