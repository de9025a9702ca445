"""The payment network in match (protocol.md §3): its tables, what it opens, its share of the join.

What it opens of one round it encrypts anew for the next, and then forgets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pv4fad.hashing.keyed import hash_accounts
from pv4fad.hashing.placement import place
from pv4fad.hashing.tags import TAG_MODULUS, tags_of
from pv4fad.he.keys import SecretKey
from pv4fad.he.ring import Ring
from pv4fad.protocol.checks import expect
from pv4fad.protocol.match.comparison import remainders
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    DistanceWords,
    EncryptedTable,
    MaskedDistances,
    MaskedValues,
    ValueDigits,
)
from pv4fad.protocol.match.state import (
    BankShares,
    BinTags,
    MatchesInForce,
    MatchKind,
    OpenedBlock,
    OpenedClasses,
    OpenedDistances,
    OpenedValues,
    PlacedTable,
    PowersSent,
    SharedPowers,
)
from pv4fad.protocol.match.steps import (
    EncryptedWords,
    OpenJob,
    PowersJob,
    ValueDigitsJob,
    WordsJob,
    encrypt_powers,
    encrypt_value_digits,
    encrypt_words,
    open_block,
)
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.protocol.propose.state import BankPublic, NetworkKeys
from pv4fad.protocol.state import KeyEpoch, parameters_of, with_keys_of
from pv4fad.protocol.tables import TableAccounts
from pv4fad.protocol.wire import Address, Message
from pv4fad.randomness import secret_residues
from pv4fad.store.records import Records
from pv4fad.workers import WorkerPool

Made = TypeVar("Made")


def place_accounts(
    parameters: RunParameters, plan: TablePlan, accounts: TableAccounts, run: Records
) -> None:
    """The cuckoo table: which account is in which bin, and x of every bin."""
    hashes = hash_accounts(accounts.ids, parameters.hash_key)
    placement = place(hashes, accounts.trees, plan.layout)
    tags = secret_residues(TAG_MODULUS, plan.layout.n_bins)
    tags[placement.bin_of_account] = tags_of(hashes)
    ids = b"\n".join(accounts.ids)
    run.put(PlacedTable(placement.bin_of_account, accounts.keys, ids), plan.table_id)
    run.put(BinTags(tags), plan.table_id)


class MatchMessages:
    """What the payment network sends in match.

    The ciphertexts of the next message are begun with those of the present one: while the bank
    works on it, they get ready.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._begun: dict[tuple[str, ...], Iterator[object]] = {}

    def make_table(self, address: Address, run: Records) -> EncryptedTable:
        """Step 1.  The banks of a broadcast table all get the same ciphertexts."""
        parameters, here = parameters_of(run), (address.table_id, address.index)
        plan, secret = parameters.table(address.table_id), _secret("tags", run)
        degree = parameters.largest_load(plan)

        def job(block: int) -> PowersJob:
            size = plan.layout.block_size
            tags = run.get(BinTags, plan.table_id).tags[block * size : (block + 1) * size]
            return PowersJob(secret, tags, degree)

        shared = run.find(SharedPowers, *here)
        powers = shared.powers if shared else self._make(encrypt_powers, job, address, run)
        if shared is None and address.index == parameters.n_chunks(plan) - 1:
            run.delete_at(BinTags, plan.table_id)
        sent = run.find(PowersSent, *here)
        n_sent = 1 + (0 if sent is None else sent.n_banks)
        if n_sent < len(plan.banks):
            run.put(PowersSent(n_sent), *here)
            if shared is None:
                run.put(SharedPowers(powers), *here)
        else:
            run.delete_at(PowersSent, *here)
            run.delete_at(SharedPowers, *here)
        return EncryptedTable(address, powers)

    def make_digits(self, address: Address, run: Records) -> ValueDigits:
        """Step 3."""
        secret = _secret("distances", run)
        place_of = address.receiver, address.table_id

        def job(block: int) -> ValueDigitsJob:
            return ValueDigitsJob(secret, run.get(OpenedValues, *place_of, block).values)

        digits = self._make(encrypt_value_digits, job, address, run)
        for block in _blocks(address, run):
            run.delete_at(OpenedValues, *place_of, block)
        return ValueDigits(address, digits)

    def make_words(self, address: Address, run: Records) -> DistanceWords:
        """Step 5."""
        parameters = parameters_of(run)
        keys = with_keys_of(run).get(NetworkKeys, "match").pair(parameters.match_ring)
        place_of = address.receiver, address.table_id

        def job(block: int) -> WordsJob:
            return WordsJob(
                keys.secret,
                keys.public,
                run.get(OpenedDistances, *place_of, block).distances,
                run.get(OpenedClasses, *place_of, block).classes,
                parameters.sizes.n_atoms,
            )

        words: tuple[EncryptedWords, ...] = self._make(encrypt_words, job, address, run)
        for block in _blocks(address, run):
            run.delete_at(OpenedDistances, *place_of, block)
            run.delete_at(OpenedClasses, *place_of, block)
        return DistanceWords(
            address, tuple(one.bits for one in words), tuple(one.planes for one in words)
        )

    def _make(
        self,
        encrypt: Callable[..., Made],
        job: Callable[[int], object],
        address: Address,
        run: Records,
    ) -> tuple[Made, ...]:
        """What is sent of each block of a message, encrypted afresh for every call."""
        parameters = parameters_of(run)
        plan = parameters.table(address.table_id)

        def begin(chunk: int) -> Iterator[Made]:
            blocks = parameters.blocks_of_chunk(plan, chunk)
            return self._pool.begin(encrypt, [job(block) for block in blocks])

        def name(chunk: int) -> tuple[str, ...]:
            where = run.run_id, address.receiver, plan.table_id, str(chunk)
            return encrypt.__name__, *where

        made = self._begun.pop(name(address.index), None) or begin(address.index)
        if address.index + 1 < parameters.n_chunks(plan):
            self._begun[name(address.index + 1)] = begin(address.index + 1)
        return tuple(made)  # type: ignore[arg-type]


def keep_values(message: MaskedValues, run: Records, pool: WorkerPool) -> None:
    """After step 2: v, and the classes under their masks."""
    n_atoms = np.uint64(parameters_of(run).sizes.n_atoms)
    opened = _opened("tags", message, message.ciphertexts, run, pool)
    for where, (values, classes) in opened:
        run.put(OpenedValues(values), *where)
        run.put(OpenedClasses((classes % n_atoms).astype(np.uint8)), *where)


def keep_distances(message: MaskedDistances, run: Records, pool: WorkerPool) -> None:
    """After step 4: what is compared of h + g."""
    for where, (distances,) in _opened("distances", message, message.ciphertexts, run, pool):
        run.put(OpenedDistances(remainders(distances)), *where)


def keep_shares(message: BlindedIndicators, run: Records, pool: WorkerPool) -> None:
    """Step 7: u_k opened, E_j[s_k] as it came, block by block."""
    parameters = parameters_of(run)
    n_atoms, share = parameters.sizes.n_atoms, Ring.of(parameters.share_ring)
    per_block = n_atoms * (parameters.match_ring.degree // share.degree)
    n_blocks = len(_blocks(message.address, run))
    shares = message.encrypted_shares
    expect(len(shares) == per_block * n_blocks, message, "wrong number of ciphertexts")
    for ciphertext in shares:
        share.load(ciphertext, parameters.share_ring.n_data_primes)  # refuses what is of no use
    opened = _opened("match", message, message.indicators, run, pool)
    for i, (where, u) in enumerate(opened):
        run.put(OpenedBlock(u.astype(np.uint32)), *where)
        run.put(BankShares(b"".join(shares[i * per_block : (i + 1) * per_block])), *where)


def _opened(
    ring: str,
    message: Message,
    ciphertexts: tuple[bytes, ...],
    run: Records,
    pool: WorkerPool,
) -> Iterator[tuple[tuple[str, str, int], NDArray[np.uint64]]]:
    """Where each block is kept, and what its ciphertexts open to."""
    here, blocks, parameters = message.address, _blocks(message.address, run), parameters_of(run)
    per_block, circuit = {
        "tags": (2, "values"),
        "distances": (1, "distances"),
        "match": (parameters.sizes.n_atoms, "indicators"),
    }[ring]
    expect(len(ciphertexts) == per_block * len(blocks), message, "wrong number of ciphertexts")
    secret, n_primes = _secret(ring, run), parameters.bounds[circuit].flood.n_sent
    jobs = [
        OpenJob(secret, ciphertexts[i * per_block : (i + 1) * per_block], n_primes)
        for i in range(len(blocks))
    ]
    for block, opened in zip(blocks, pool.map(open_block, jobs), strict=True):
        yield (here.sender, here.table_id, block), opened


def _secret(ring: str, run: Records) -> SecretKey:
    keys = with_keys_of(run).get(NetworkKeys, ring)
    return keys.secret_key(parameters_of(run).network_rings[ring])


def _blocks(address: Address, run: Records) -> range:
    parameters = parameters_of(run)
    return parameters.blocks_of_chunk(parameters.table(address.table_id), address.index)


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
