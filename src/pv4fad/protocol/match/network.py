"""The payment network in match (protocol.md §3): its tables, planes and shares of the join."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pv4fad.hashing.keyed import hash_accounts
from pv4fad.hashing.placement import place
from pv4fad.he.ring import Ring
from pv4fad.protocol.checks import expect
from pv4fad.protocol.match.messages import BlindedIndicators, EncryptedTable
from pv4fad.protocol.match.state import (
    BankShares,
    MatchesInForce,
    MatchKind,
    OpenedBlock,
    PlacedTable,
)
from pv4fad.protocol.match.steps import OpenJob, PlanesJob, encrypt_planes, open_indicators
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.protocol.propose.state import BankPublic, NetworkKeys
from pv4fad.protocol.state import KeyEpoch, parameters_of
from pv4fad.protocol.tables import TableAccounts
from pv4fad.protocol.wire import Address
from pv4fad.store.records import Records
from pv4fad.workers import WorkerPool


def place_accounts(
    parameters: RunParameters, plan: TablePlan, accounts: TableAccounts, run: Records
) -> None:
    """The cuckoo table: which account is in which bin, and the bins' codewords."""
    hashes = hash_accounts(accounts.ids, parameters.hash_key)
    placement = place(hashes, accounts.trees, plan.layout)
    words = np.zeros(plan.layout.n_bins, np.uint64)
    words[placement.bin_of_account] = parameters.code.encode(hashes.tags)
    ids = b"\n".join(accounts.ids)
    run.put(PlacedTable(words, placement.bin_of_account, accounts.keys, ids), plan.table_id)


class EncryptedPlanes:
    """The bit-planes of tables, message by message.

    Those of the next message are begun with those of the present one: while the bank works on it,
    they get ready.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._begun: dict[tuple[str, str, int], Iterator[bytes]] = {}

    def make(self, address: Address, run: Records) -> EncryptedTable:
        """Step 1: the planes of each of one message's blocks, encrypted afresh for every call."""
        parameters, chunk = parameters_of(run), address.index
        plan = parameters.table(address.table_id)

        def begin(chunk: int) -> Iterator[bytes]:
            secret = run.get(NetworkKeys).secret_key(parameters.match_ring)
            words = run.get(PlacedTable, plan.table_id).words.reshape(plan.layout.n_blocks, -1)
            jobs = [
                PlanesJob(secret, words[block], parameters.code.length)
                for block in parameters.blocks_of_chunk(plan, chunk)
            ]
            return self._pool.begin(encrypt_planes, jobs)

        def name(chunk: int) -> tuple[str, str, int]:
            return parameters.run_id, plan.table_id, chunk

        planes = self._begun.pop(name(chunk), None) or begin(chunk)
        if chunk + 1 < parameters.n_chunks(plan):
            self._begun[name(chunk + 1)] = begin(chunk + 1)
        return EncryptedTable(address, tuple(planes))


def keep_shares(message: BlindedIndicators, run: Records, pool: WorkerPool) -> None:
    """Step 4: u_k opened, E_j[s_k] as it came, block by block."""
    parameters, here = parameters_of(run), message.address
    plan = parameters.table(here.table_id)
    blocks = parameters.blocks_of_chunk(plan, here.index)
    n_atoms, share = parameters.sizes.n_atoms, Ring.of(parameters.share_ring)
    halves = parameters.match_ring.degree // share.degree
    expect(
        len(message.indicators) == n_atoms * len(blocks)
        and len(message.encrypted_shares) == n_atoms * len(blocks) * halves,
        message,
        "wrong number of ciphertexts",
    )
    for ciphertext in message.encrypted_shares:
        share.load(ciphertext, parameters.share_ring.n_data_primes)  # refuses what is of no use
    secret = run.get(NetworkKeys).secret_key(parameters.match_ring)
    jobs = [
        OpenJob(secret, message.indicators[i * n_atoms : (i + 1) * n_atoms])
        for i in range(len(blocks))
    ]
    for i, (block, u) in enumerate(zip(blocks, pool.map(open_indicators, jobs), strict=True)):
        place_of_block = here.sender, plan.table_id, block
        run.put(OpenedBlock(u), *place_of_block)
        shares = message.encrypted_shares[i * n_atoms * halves : (i + 1) * n_atoms * halves]
        run.put(BankShares(b"".join(shares)), *place_of_block)


class ShareBlocks:
    """E_j[s_k] of a table, by block of the share ring."""

    def __init__(
        self, parameters: RunParameters, plan: TablePlan, bank: str, records: Records
    ) -> None:
        share = Ring.of(parameters.share_ring)
        self._size = share.ciphertext_bytes(parameters.share_ring.n_data_primes)
        self._halves = parameters.match_ring.degree // share.degree
        self._n_atoms = parameters.sizes.n_atoms
        self._place = bank, plan.table_id
        self._records = records

    def of_block(self, share_block: int) -> tuple[bytes, ...]:
        """E_j[s_k] for each atom k."""
        block, half = divmod(share_block, self._halves)
        data = self._records.get(BankShares, *self._place, block).data
        positions = [k * self._halves + half for k in range(self._n_atoms)]
        return tuple(data[i * self._size : (i + 1) * self._size] for i in positions)


def opened_atoms(plan: TablePlan, bank: str, records: Records) -> NDArray[np.uint32]:
    """u_k of a table, (atoms, bins)."""
    blocks = range(plan.layout.n_blocks)
    return np.concatenate(
        [records.get(OpenedBlock, bank, plan.table_id, block).u for block in blocks], axis=1
    )


def put_in_force(run: Records) -> tuple[int, ...]:
    """A match after training is complete: the matches to score with from now on.

    One that replaces all others stands alone; any other follows the one that did.
    """
    training, replaces = run.of_epoch(0), run.get(MatchKind).replaces
    if replaces:
        training.put(KeyEpoch(run.epoch))
    with_all_accounts = training.get(MatchesInForce).epochs[0]
    in_force = (run.epoch,) if replaces else (with_all_accounts, run.epoch)
    training.put(MatchesInForce(in_force))
    return in_force


JOIN = (NetworkKeys, BankPublic, PlacedTable, OpenedBlock, BankShares)
"""What the join of training and its keys consist of."""
