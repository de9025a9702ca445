"""A bank in match (protocol.md §3): its polynomials, distances and indicators, block by block.

The masks of a round are kept until the next one needs them, and no longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pv4fad.protocol.checks import expect
from pv4fad.protocol.match.bank_accounts import BankTable
from pv4fad.protocol.match.comparison import Digits, bits, digits, last_remainders, remainders
from pv4fad.protocol.match.messages import (
    BlindedIndicators,
    EncryptedTable,
    IndicatorPlanes,
    MaskedDifferences,
    MaskedDistances,
    MaskedValues,
    RemainderBits,
    TablesInForce,
    ValueDigits,
)
from pv4fad.protocol.match.state import ClassMask, DifferenceMask, DistanceMask, ValueMask
from pv4fad.protocol.match.steps import (
    DistancesJob,
    EncryptedPlanes,
    IndicatorsJob,
    Residues,
    ValuesJob,
    blind_indicators,
    mask_distances,
    mask_values,
)
from pv4fad.protocol.propose.state import OwnKeys, PublicKeys
from pv4fad.protocol.score.state import OpenedSets
from pv4fad.protocol.state import KeyEpoch, parameters_of, with_keys_of
from pv4fad.protocol.wire import Message
from pv4fad.store.records import Records
from pv4fad.workers import WorkerPool


def answer_table(
    message: EncryptedTable, table: BankTable, run: Records, pool: WorkerPool
) -> MaskedValues:
    """Step 2 for the blocks of one message."""
    parameters, here = parameters_of(run), message.address
    plan, blocks = parameters.table(here.table_id), _blocks(message, run)
    expect(len(message.powers) == len(blocks), message, "wrong number of blocks")
    public = with_keys_of(run).get(PublicKeys, "tags").key(parameters.network_rings["tags"])
    jobs = (
        ValuesJob(
            public,
            parameters.bounds["values"].flood,
            parameters.largest_load(plan),
            powers,
            *table.block(block),
        )
        for powers, block in zip(message.powers, blocks, strict=True)
    )
    ciphertexts: list[bytes] = []
    for block, made in zip(blocks, pool.map(mask_values, jobs), strict=True):
        ciphertexts += made.values
        run.put(ValueMask(made.r), plan.table_id, block)
        run.put(ClassMask(made.rho), plan.table_id, block)
    return MaskedValues(here.answer(), tuple(ciphertexts))


def answer_digits(message: ValueDigits, run: Records, pool: WorkerPool) -> MaskedDistances:
    """Step 4 for the blocks of one message."""
    here, ciphertexts = message.address, []
    own = (digits(run.get(ValueMask, here.table_id, b).r) for b in _blocks(message, run))
    for block, made, g in _distances(message, message.digits, own, run, pool):
        ciphertexts.append(made)
        run.put(DistanceMask(remainders(g)), here.table_id, block)
        run.delete_at(ValueMask, here.table_id, block)
    return MaskedDistances(here.answer(), tuple(ciphertexts))


def answer_bits(message: RemainderBits, run: Records, pool: WorkerPool) -> MaskedDifferences:
    """Step 6 for the blocks of one message."""
    here, ciphertexts = message.address, []
    own = (bits(run.get(DistanceMask, here.table_id, b).remainders) for b in _blocks(message, run))
    for block, made, g in _distances(message, message.bits, own, run, pool):
        ciphertexts.append(made)
        run.put(DifferenceMask(last_remainders(g)), here.table_id, block)
        run.delete_at(DistanceMask, here.table_id, block)
    return MaskedDifferences(here.answer(), tuple(ciphertexts))


def _distances(
    message: Message,
    encrypted: tuple[bytes, ...],
    own: Iterable[Digits],
    run: Records,
    pool: WorkerPool,
) -> Iterator[tuple[int, bytes, Residues]]:
    """Of each block its number, the distances from its own digits, and their mask."""
    parameters, blocks = parameters_of(run), _blocks(message, run)
    expect(len(encrypted) == len(blocks), message, "wrong number of blocks")
    keys = with_keys_of(run).get(PublicKeys, "distances")
    public = keys.key(parameters.network_rings["distances"])
    flood = parameters.bounds["distances"].flood
    jobs = (DistancesJob(public, flood, *one) for one in zip(encrypted, own, strict=True))
    for block, made in zip(blocks, pool.map(mask_distances, jobs), strict=True):
        yield block, made.distances, made.g


def answer_planes(message: IndicatorPlanes, run: Records, pool: WorkerPool) -> BlindedIndicators:
    """Step 8 for the blocks of one message."""
    parameters, here, blocks = parameters_of(run), message.address, _blocks(message, run)
    n_blocks = len(message.remainders), len(message.classes)
    expect(n_blocks == (len(blocks), len(blocks)), message, "wrong number of blocks")
    keys = with_keys_of(run)
    public = keys.get(PublicKeys, "match").key(parameters.match_ring)
    secret = keys.get(OwnKeys).secret_key(parameters.share_ring)
    jobs = (
        IndicatorsJob(
            public,
            secret,
            parameters.bounds["indicators"].flood,
            EncryptedPlanes(of_remainders, of_classes),
            run.get(DifferenceMask, here.table_id, block).remainders,
            run.get(ClassMask, here.table_id, block).rho,
            parameters.sizes.n_atoms,
        )
        for of_remainders, of_classes, block in zip(
            message.remainders, message.classes, blocks, strict=True
        )
    )
    indicators: list[bytes] = []
    shares: list[bytes] = []
    for block, made in zip(blocks, pool.map(blind_indicators, jobs), strict=True):
        indicators += made.blinded
        shares += made.encrypted_shares
        run.delete_at(DifferenceMask, here.table_id, block)
        run.delete_at(ClassMask, here.table_id, block)
    return BlindedIndicators(here.answer(), tuple(indicators), tuple(shares))


def _blocks(message: Message, run: Records) -> range:
    parameters, here = parameters_of(run), message.address
    return parameters.blocks_of_chunk(parameters.table(here.table_id), here.index)


def keep_in_force(message: TablesInForce, training: Records) -> None:
    """Joins and keys that are no longer needed are forgotten."""
    in_force = set(message.epochs)
    expect(message.address.epoch in in_force, message, "a complete match is in force")
    # Keys are made with the match that replaced all others; a delta has the same.
    training.put(KeyEpoch(min(in_force)))
    for old in training.epochs() - in_force:
        training.of_epoch(old).delete_all()
    if 0 not in in_force:
        # Of training itself the model stays; what the join and its keys consist of does not.
        training.delete(OwnKeys, PublicKeys, OpenedSets)
