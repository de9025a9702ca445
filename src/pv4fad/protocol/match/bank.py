"""A bank in match (protocol.md §3.3): its accounts against encrypted blocks, blinded indicators.

Every block goes to as many workers as it can keep busy.  What its last layers share with those of
the other block comes after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.circuits import LAYERS_PER_POLYNOMIAL
from pv4fad.he.keys import PublicKey, SecretKey
from pv4fad.protocol.checks import expect
from pv4fad.protocol.match.bank_accounts import BankTable
from pv4fad.protocol.match.messages import BlindedIndicators, EncryptedTable, TablesInForce
from pv4fad.protocol.match.steps import (
    BlindedBlock,
    BlindJob,
    IndicatorSums,
    LayersJob,
    SharedLayer,
    SharedLayersJob,
    blind_indicators,
    n_shared_layers,
    sum_layers,
    sum_shared_layers,
)
from pv4fad.protocol.parameters import RunParameters
from pv4fad.protocol.propose.state import OwnKeys, PublicKeys
from pv4fad.protocol.score.state import OpenedSets
from pv4fad.protocol.state import KeyEpoch, parameters_of
from pv4fad.store.records import Records
from pv4fad.workers import WorkerPool

BLOCKS_AT_ONCE = LAYERS_PER_POLYNOMIAL  # one layer of each


def answer_blocks(
    message: EncryptedTable, table: BankTable, run: Records, pool: WorkerPool
) -> BlindedIndicators:
    """Steps 2 and 3 for the blocks of one message."""
    parameters, here = parameters_of(run), message.address
    blocks = parameters.blocks_of_chunk(parameters.table(here.table_id), here.index)
    expect(len(message.planes) == len(blocks), message, "wrong number of blocks")
    matched = match_blocks(
        [
            MatchBlock(planes, *table.layers(block))
            for planes, block in zip(message.planes, blocks, strict=True)
        ],
        parameters,
        public=run.get(PublicKeys).key(parameters.match_ring),
        secret=run.get(OwnKeys).secret_key(parameters.share_ring),
        pool=pool,
    )
    indicators: list[bytes] = []
    shares: list[bytes] = []
    for block in matched:
        indicators += block.blinded
        shares += block.encrypted_shares
    return BlindedIndicators(here.answer(), tuple(indicators), tuple(shares))


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


@dataclass(frozen=True)
class MatchBlock:
    """The planes of one block, and the bank's accounts in its bins."""

    planes: bytes = field(repr=False)
    words: NDArray[np.uint64] = field(repr=False)  # (layers, bins)
    atoms: NDArray[np.int16] = field(repr=False)  # (layers, bins)


def match_blocks(
    blocks: Sequence[MatchBlock],
    parameters: RunParameters,
    *,
    public: PublicKey,
    secret: SecretKey,
    pool: WorkerPool,
) -> Iterator[BlindedBlock]:
    """Steps 2 and 3: the blinded indicators of each block, and the shares that blind them."""
    sums = [
        parts
        for first in range(0, len(blocks), BLOCKS_AT_ONCE)
        for parts in sum_blocks(
            pool,
            public,
            blocks[first : first + BLOCKS_AT_ONCE],
            code_length=parameters.code.length,
            n_atoms=parameters.sizes.n_atoms,
        )
    ]
    flood = parameters.bounds["match"].flood
    return pool.map(
        blind_indicators, (BlindJob(public, secret, flood, tuple(parts)) for parts in sums)
    )


def sum_blocks(
    pool: WorkerPool,
    public: PublicKey,
    blocks: Sequence[MatchBlock],
    *,
    code_length: int,
    n_atoms: int,
) -> list[list[IndicatorSums]]:
    """I_k of each of one or two blocks, in parts."""
    n_workers = max(1, pool.n_workers)
    n_shared = n_shared_layers(*(block.words for block in blocks)) if len(blocks) > 1 else 0
    parts = max(1, n_workers // len(blocks))
    jobs = (
        LayersJob(
            public,
            code_length,
            block.planes,
            block.words[some],
            block.atoms[some],
            n_atoms=n_atoms,
            n_shared=n_last,
        )
        for block in blocks
        for some, n_last in _in_parts(len(block.words), n_shared, parts)
    )
    summed = list(pool.map(sum_layers, jobs))
    of_block = [summed[i * parts : (i + 1) * parts] for i in range(len(blocks))]
    sums = [[part.sums for part in block] for block in of_block]
    if n_shared:
        first, second = (
            [
                SharedLayer(*layer)
                for layer in zip(
                    chain.from_iterable(part.agreeing for part in done),
                    block.atoms[-n_shared:],
                    strict=True,
                )
            ]
            for done, block in zip(of_block, blocks, strict=True)
        )
        pairs = list(zip(first, reversed(second), strict=True))
        shared_jobs = (
            SharedLayersJob(public, tuple(pairs[part::n_workers]), n_atoms)
            for part in range(min(n_workers, n_shared))
        )
        for both in pool.map(sum_shared_layers, shared_jobs):
            for of_one_block, shared in zip(sums, both, strict=True):
                of_one_block.append(shared)
    return sums


def _in_parts(n_layers: int, n_shared: int, parts: int) -> Iterator[tuple[NDArray[np.int64], int]]:
    """The layers of each part, and how many of its last ones are shared."""
    for some in np.array_split(np.arange(n_layers), parts):
        yield some, int((some >= n_layers - n_shared).sum())
