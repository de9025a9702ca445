"""The payment network in match (protocol.md §3): its tables, what it opens, its share of the join.

What it opens of one round it encrypts anew for the next, and forgets it as soon as it can.
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
from pv4fad.he.ring import DISTANCE_RING, Ring
from pv4fad.protocol.checks import expect
from pv4fad.protocol.match.class_powers import of_classes, turns
from pv4fad.protocol.match.comparison import (
    Digits,
    bits,
    digits,
    last_remainders,
    remainders,
    squares,
)
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    EncryptedTable,
    IndicatorPlanes,
    MaskedDifferences,
    MaskedDistances,
    MaskedValues,
    RemainderBits,
    ValueDigits,
)
from pv4fad.protocol.match.state import (
    BankShares,
    BinTags,
    MatchesInForce,
    MatchKind,
    OpenedBlock,
    OpenedClasses,
    OpenedDifferences,
    OpenedDistances,
    OpenedValues,
    PlacedTable,
    PowersSent,
    SharedPowers,
)
from pv4fad.protocol.match.steps import (
    DigitsJob,
    EncryptedPlanes,
    OpenJob,
    PlanesJob,
    PowersJob,
    encrypt_digits,
    encrypt_planes,
    encrypt_powers,
    open_block,
)
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.protocol.propose.state import BankPublic, NetworkSecret, PublicKeys
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

    def forget(self) -> None:
        """What was begun is not wanted any more."""
        self._begun.clear()

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
        secret, place_of = _secret("distances", run), (address.receiver, address.table_id)

        def job(block: int) -> DigitsJob:
            return DigitsJob(secret, digits(run.get(OpenedValues, *place_of, block).values))

        here = address.receiver, "values"
        return ValueDigits(address, self._make(encrypt_digits, job, address, run, *here))

    def make_bits(self, address: Address, run: Records) -> RemainderBits:
        """Step 5."""
        secret, place_of = _secret("distances", run), (address.receiver, address.table_id)

        def job(block: int) -> DigitsJob:
            return DigitsJob(secret, bits(run.get(OpenedDistances, *place_of, block).remainders))

        here = address.receiver, "remainders"
        return RemainderBits(address, self._make(encrypt_digits, job, address, run, *here))

    def make_planes(self, address: Address, run: Records) -> IndicatorPlanes:
        """Step 7."""
        secret, place_of = _secret("match", run), (address.receiver, address.table_id)
        n_atoms = parameters_of(run).sizes.n_atoms

        def job(block: int) -> PlanesJob:
            remainders = run.get(OpenedDifferences, *place_of, block).remainders
            classes = run.get(OpenedClasses, *place_of, block).classes
            return PlanesJob(secret, remainders, classes, n_atoms)

        planes: tuple[EncryptedPlanes, ...] = self._make(
            encrypt_planes, job, address, run, address.receiver
        )
        for block in _blocks(address, run):
            run.delete_at(OpenedDifferences, *place_of, block)
            run.delete_at(OpenedClasses, *place_of, block)
        return IndicatorPlanes(
            address, tuple(one.remainders for one in planes), tuple(one.classes for one in planes)
        )

    def _make(
        self,
        encrypt: Callable[..., Made],
        job: Callable[[int], object],
        address: Address,
        run: Records,
        *what: str,
    ) -> tuple[Made, ...]:
        """What is sent of each block of a message, encrypted afresh for every call.

        `what` tells the jobs of one function apart: without a receiver they are for any bank.
        """
        parameters = parameters_of(run)
        plan = parameters.table(address.table_id)

        def begin(chunk: int) -> Iterator[Made]:
            blocks = parameters.blocks_of_chunk(plan, chunk)
            return self._pool.begin(encrypt, [job(block) for block in blocks])

        def name(chunk: int) -> tuple[str, ...]:
            return encrypt.__name__, *what, run.run_id, plan.table_id, str(chunk)

        made = self._begun.pop(name(address.index), None) or begin(address.index)
        if address.index + 1 < parameters.n_chunks(plan):
            self._begun[name(address.index + 1)] = begin(address.index + 1)
        return tuple(made)  # type: ignore[arg-type]


def keep_values(message: MaskedValues, run: Records, pool: WorkerPool) -> None:
    """After step 2: v, and the classes under their masks."""
    opened = _opened("tags", message, message.ciphertexts, run, pool)
    for where, (values, classes) in opened:
        run.put(OpenedValues(values), *where)
        run.put(OpenedClasses(turns(classes)), *where)


def keep_distances(message: MaskedDistances, run: Records, pool: WorkerPool) -> None:
    """After step 4: what is compared of h + g."""
    for where, (rest,) in _opened("distances", message, message.ciphertexts, run, pool):
        distances = _distances(rest, digits(run.get(OpenedValues, *where).values))
        run.put(OpenedDistances(remainders(distances)), *where)
        run.delete_at(OpenedValues, *where)


def keep_differences(message: MaskedDifferences, run: Records, pool: WorkerPool) -> None:
    """After step 6: what is compared of h′ + g′."""
    for where, (rest,) in _opened("distances", message, message.ciphertexts, run, pool):
        differences = _distances(rest, bits(run.get(OpenedDistances, *where).remainders))
        run.put(OpenedDifferences(last_remainders(differences)), *where)
        run.delete_at(OpenedDistances, *where)


def _distances(rest: NDArray[np.uint64], own: Digits) -> NDArray[np.uint64]:
    """Distances under their masks: the squares of its own digits are for this party to add."""
    return (rest + squares(own)) % np.uint64(DISTANCE_RING.plain_modulus)


def keep_shares(message: BlindedIndicators, run: Records, pool: WorkerPool) -> None:
    """Step 9: u_k opened, E_j[s_k] as it came, block by block."""
    parameters = parameters_of(run)
    share, plan = Ring.of(parameters.share_ring), parameters.table(message.address.table_id)
    per_block = parameters.sizes.n_atoms * parameters.share_blocks_per_block(plan)
    n_blocks = len(_blocks(message.address, run))
    shares = message.encrypted_shares
    expect(len(shares) == per_block * n_blocks, message, "wrong number of ciphertexts")
    for ciphertext in shares:
        share.load(ciphertext, parameters.share_ring.n_data_primes)  # refuses what is of no use
    opened = _opened("match", message, message.indicators, run, pool)
    for i, (where, sums) in enumerate(opened):
        u = of_classes(sums, parameters.plain_modulus)
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
    n_bins = parameters.table(here.table_id).layout.block_size
    jobs = [
        OpenJob(secret, n_bins, ciphertexts[i * per_block : (i + 1) * per_block], n_primes)
        for i in range(len(blocks))
    ]
    for block, opened in zip(blocks, pool.map(open_block, jobs), strict=True):
        yield (here.sender, here.table_id, block), opened


def _secret(ring: str, run: Records) -> SecretKey:
    kept = with_keys_of(run).get(NetworkSecret, ring)
    return kept.key(parameters_of(run).network_rings[ring])


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
        self._per_block = parameters.share_blocks_per_block(plan)
        self._n_atoms = parameters.sizes.n_atoms
        self._place = bank, plan.table_id
        self._records = records

    def of_block(self, share_block: int) -> tuple[bytes, ...]:
        """E_j[s_k] for each atom k."""
        block, part = divmod(share_block, self._per_block)
        data = self._records.get(BankShares, *self._place, block).data
        positions = [k * self._per_block + part for k in range(self._n_atoms)]
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


JOIN = (NetworkSecret, PublicKeys, BankPublic, PlacedTable, OpenedBlock, BankShares)
"""What the join of training and its keys consist of."""
