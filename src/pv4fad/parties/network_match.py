"""The payment network's side of the match (protocol.md §3): its tables, planes and shares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pv4fad.hashing.keyed import hash_accounts
from pv4fad.hashing.placement import place
from pv4fad.he.keys import SecretKey
from pv4fad.he.ring import Ring
from pv4fad.parties.party import RunRecords, expect
from pv4fad.protocol.match import OpenJob, PlanesJob, encrypt_planes, open_indicators
from pv4fad.protocol.messages import BlindedIndicators
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.protocol.tables import TableAccounts
from pv4fad.workers import WorkerPool


def place_accounts(
    parameters: RunParameters, plan: TablePlan, accounts: TableAccounts, run: RunRecords
) -> None:
    """The cuckoo table: which account is in which bin, and the bins' codewords."""
    hashes = hash_accounts(accounts.ids, parameters.hash_key)
    placement = place(hashes, accounts.trees, plan.layout)
    words = np.zeros(plan.layout.n_bins, np.uint64)
    words[placement.bin_of_account] = parameters.code.encode(hashes.tags)
    # Ids are canonical: there is no white space in them.
    run.put(f"ids/{plan.table_id}", b"\n".join(accounts.ids))
    run.put_arrays(
        f"table/{plan.table_id}",
        words=words,
        bins=placement.bin_of_account,
        keys=accounts.keys,
    )


class EncryptedPlanes:
    """The bit-planes of tables, message by message.

    Those of the next message are begun with those of the present one: while the bank works on it,
    they get ready.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._begun: dict[tuple[str, str, int], Iterator[bytes]] = {}

    def of_chunk(
        self, parameters: RunParameters, plan: TablePlan, chunk: int, run: RunRecords
    ) -> tuple[bytes, ...]:
        """The planes of each of one message's blocks, encrypted afresh for every call."""

        def begin(chunk: int) -> Iterator[bytes]:
            secret = SecretKey(parameters.match_ring, run.get("secret key"))
            words = run.get_arrays(f"table/{plan.table_id}")["words"]
            words = words.reshape(plan.layout.n_blocks, -1)
            jobs = [
                PlanesJob(secret, words[block], parameters.code.length)
                for block in parameters.blocks_of_chunk(plan, chunk)
            ]
            return self._pool.begin(encrypt_planes, jobs)

        def name(chunk: int) -> tuple[str, str, int]:
            return parameters.run_id, plan.table_id, chunk

        mine = self._begun.pop(name(chunk), None) or begin(chunk)
        if chunk + 1 < parameters.n_chunks(plan):
            self._begun[name(chunk + 1)] = begin(chunk + 1)
        return tuple(mine)


def keep_shares(
    message: BlindedIndicators,
    parameters: RunParameters,
    plan: TablePlan,
    chunk: int,
    *,
    run: RunRecords,
    pool: WorkerPool,
) -> None:
    """u_k opened, E_j[s_k] as it came, block by block."""
    blocks = parameters.blocks_of_chunk(plan, chunk)
    n_atoms, share = parameters.sizes.n_atoms, Ring.of(parameters.share_ring)
    halves = parameters.match_ring.degree // share.degree
    expect(
        len(message.indicators) == n_atoms * len(blocks)
        and len(message.encrypted_shares) == n_atoms * len(blocks) * halves,
        message,
        "wrong number of ciphertexts",
    )
    for one in message.encrypted_shares:
        share.load(one, parameters.share_ring.n_data_primes)  # refuses what could not be used
    secret = SecretKey(parameters.match_ring, run.get("secret key"))
    jobs = [
        OpenJob(secret, message.indicators[i * n_atoms : (i + 1) * n_atoms])
        for i in range(len(blocks))
    ]
    for i, (block, u) in enumerate(zip(blocks, pool.map(open_indicators, jobs), strict=True)):
        where = f"{message.address.sender}/{plan.table_id}/{block}"
        run.put_arrays(f"opened/{where}", u=u)
        mine = message.encrypted_shares[i * n_atoms * halves : (i + 1) * n_atoms * halves]
        run.put(f"shares/{where}", b"".join(mine))
