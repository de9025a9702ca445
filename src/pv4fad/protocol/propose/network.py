"""The payment network in propose (protocol.md §8.0): proposals, the banks' keys, the roster."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pv4fad.protocol.checks import expect
from pv4fad.protocol.count.state import OwnSums
from pv4fad.protocol.identity import PublicIdentity
from pv4fad.protocol.match.network import place_accounts
from pv4fad.protocol.match.state import MatchesInForce
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput
from pv4fad.protocol.propose.messages import BankKeys, Roster, RunProposal
from pv4fad.protocol.propose.ring_keys import SHARES, key_name
from pv4fad.protocol.propose.state import BankPublic, CountedAccounts, PublicKeys, StoredTrees
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad.protocol.state import KeysOf, Proposal, parameters_of
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


def keep_proposal(
    parameters: RunParameters, tables: Mapping[str, TableAccounts], run: Records
) -> None:
    """Before step 1: what is proposed, and all accounts in their bins."""
    run.put(Proposal(parameters.model_dump_json().encode()))
    for plan in parameters.tables:
        place_accounts(parameters, plan, tables[plan.table_id], run)


def make_proposal(address: Address, run: Records) -> RunProposal:
    """Step 1; with the public keys, if they are new."""
    parameters, keys = parameters_of(run), []
    rings, told = parameters.network_rings, run.get(Proposal).json
    if address.receiver == AGGREGATOR:
        rings = parameters.aggregator_rings
        told = parameters.for_aggregator().model_dump_json().encode()
    if not run.has(KeysOf):
        keys = [run.get(PublicKeys, name) for name in rings]
    return RunProposal(
        address,
        told,
        tuple(key.public for key in keys),
        tuple(key.relinearisation for key in keys),
    )


def keep_bank_keys(message: BankKeys, run: Records) -> None:
    """After step 2: the keys of a bank, if they are new."""
    parameters, bank = parameters_of(run), message.address.sender
    if parameters.purpose == "training":
        shown = PublicIdentity.from_bytes(message.identity, parameters.run_id)
        expect(shown.name == bank, message, "the identity of another party")
    else:
        expect(not message.identity, message, "an identity where none was asked for")
    if run.has(KeysOf):
        expect(not message.public_key, message, "a key where none was asked for")
        return
    public = BankPublic(key_name(parameters, bank, SHARES), message.public_key, message.identity)
    public.key(parameters.share_ring).require_valid()
    run.put(public, bank)


def make_roster(address: Address, run: Records) -> Roster:
    """Step 3: the signed keys of all banks."""
    banks = parameters_of(run).banks
    return Roster(address, tuple(run.get(BankPublic, bank).identity for bank in banks))
