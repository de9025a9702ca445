"""The payment network in propose (protocol.md §8.0): proposals, the banks' keys, the roster."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pv4fad.he.keys import KeyPair, PublicKey
from pv4fad.protocol.checks import expect
from pv4fad.protocol.count.state import OwnSums
from pv4fad.protocol.identity import PublicIdentity
from pv4fad.protocol.match.network import place_accounts
from pv4fad.protocol.match.state import MatchesInForce
from pv4fad.protocol.order import receivers_of
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.inputs import TrainingInput
from pv4fad.protocol.propose.messages import BankKeys, Roster, RunProposal
from pv4fad.protocol.propose.state import BankPublic, CountedAccounts, NetworkKeys, StoredTrees
from pv4fad.protocol.roles import PAYMENT_NETWORK
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
    keys: KeyPair,
    tables: Mapping[str, TableAccounts],
    run: Records,
) -> list[RunProposal]:
    """Step 1: keys and placed accounts are kept, the proposals go out."""
    text, relinearisation = (
        parameters.model_dump_json().encode(),
        keys.public.relinearisation or b"",
    )
    run.put(Proposal(text))
    run.put(NetworkKeys(keys.secret.data, keys.public.data, relinearisation))
    for plan in parameters.tables:
        place_accounts(parameters, plan, tables[plan.table_id], run)
    return [
        RunProposal(
            Address(PAYMENT_NETWORK, receiver, run.run_id, "", run.epoch),
            text,
            keys.public.data,
            relinearisation,
        )
        for receiver in receivers_of(parameters, RunProposal)
    ]


def keep_bank_keys(message: BankKeys, run: Records) -> None:
    """After step 2: the keys of a bank."""
    parameters, bank = parameters_of(run), message.address.sender
    expect(bank in parameters.banks, message, "takes no part in this run")
    PublicKey(parameters.share_ring, message.public_key).require_valid()
    expect(
        PublicIdentity.from_bytes(message.identity).name == bank,
        message,
        "the identity of another bank",
    )
    run.put(BankPublic(message.public_key, message.identity), bank)


def make_roster(address: Address, run: Records) -> Roster:
    """Step 3: the signed keys of all banks."""
    banks = parameters_of(run).banks
    return Roster(address, tuple(run.get(BankPublic, bank).identity for bank in banks))
