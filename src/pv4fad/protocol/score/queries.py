"""The queries of the payment network to a bank (protocol.md §6): all of its encryption in scoring.

Every bin of a table is asked about; a bin without a question asks for nothing, under the same
masks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.atoms import AtomSet
from pv4fad.forest.votes import vote_parts
from pv4fad.protocol.compare.state import LabelShare
from pv4fad.protocol.match.network import ShareBlocks, opened_atoms
from pv4fad.protocol.parameters import TablePlan, table_epoch
from pv4fad.protocol.propose.state import BankPublic
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad.protocol.score.messages import BlindedSetShares, OwnPart, ScoreQuery
from pv4fad.protocol.score.metering import SEED_BYTES, permutation
from pv4fad.protocol.score.plan import ScoringPlan
from pv4fad.protocol.score.state import (
    BatchPlan,
    EncryptedLabelShares,
    Permutation,
    Questions,
    SetMasks,
    Totals,
)
from pv4fad.protocol.score.steps import (
    Queries,
    QueryJob,
    SealedQueryJob,
    SetSharesJob,
    bit_queries,
    sealed_queries,
    set_shares,
)
from pv4fad.protocol.score.tables import (
    Tables,
    layer_content,
    opened_sets,
    stored_forest,
)
from pv4fad.protocol.state import parameters_of, with_keys_in_use, with_keys_of
from pv4fad.protocol.wire import Address
from pv4fad.randomness import secret_bytes
from pv4fad.store.records import Records
from pv4fad.workers import SharedBytes, WorkerPool

Values = NDArray[np.uint32]


class NetworkQueries:
    """Makes them."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._labels: tuple[tuple[str, int, str], SharedBytes] | None = None

    def make_set_shares(self, address: Address, batch: Records) -> BlindedSetShares:
        """E_j[s_c + n_c] for the bank; n_c is kept."""
        bank, table_id, training = address.receiver, address.table_id, batch.of_epoch(0)
        records = training.of_epoch(table_epoch(table_id))
        parameters = parameters_of(records)
        plan = parameters.table(table_id)
        forest = stored_forest(training)
        public = with_keys_of(records).get(BankPublic, bank).key(parameters.share_ring)
        flood = parameters.bounds["linear"].flood
        shares = ShareBlocks(parameters, plan, bank, records)
        jobs = (
            SetSharesJob(public, flood, shares.of_block(block), forest.distinct_sets)
            for block in range(ScoringPlan(parameters).n_share_blocks(plan))
        )
        blinded: list[bytes] = []
        for block, made in enumerate(self._pool.map(set_shares, jobs)):
            blinded += made.blinded
            records.put(SetMasks(made.masks), bank, table_id, block)
        return BlindedSetShares(address, tuple(blinded))

    def make_query(self, address: Address, batch: Records) -> list[ScoreQuery | OwnPart]:
        """Some layers of a table; the own part of their results is kept, the answer adds to it.

        Metered, the own part goes to the aggregator, and the sum comes back.
        """
        training = batch.of_epoch(0)
        parameters = parameters_of(training)
        ask = self._votes if parameters.mode == "sealed" else self._bits
        made = ask(address, training, batch)
        ciphertexts = tuple(data for block in made for layer in block.ciphertexts for data in layer)
        own_part = np.concatenate([block.offsets for block in made], axis=1)
        if not parameters.metered:
            add_to_totals(batch, address, own_part, parameters.plain_modulus)
            return [ScoreQuery(address, len(own_part), ciphertexts, b"")]
        seed, table_id, index = secret_bytes(SEED_BYTES), address.table_id, address.index
        batch.put(Permutation(seed), table_id, index)
        permuted = own_part.ravel()[permutation(seed, own_part.size)]
        to_aggregator = replace(address, receiver=AGGREGATOR)
        return [
            ScoreQuery(address, len(own_part), ciphertexts, seed),
            OwnPart(to_aggregator, permuted),
        ]

    def _bits(self, address: Address, training: Records, batch: Records) -> list[Queries]:
        """Is the record of the account in a bin in the set that is asked about?"""
        bank, table_id = address.receiver, address.table_id
        tables, batch_plan = Tables(training), batch.get(BatchPlan)
        plan, records = tables.plan(table_id), training.of_epoch(table_epoch(table_id))
        parameters, n_slots = tables.parameters(plan), tables.scoring(plan).n_slots(plan)
        n_atoms, t = parameters.sizes.n_atoms, parameters.plain_modulus
        asked = batch.get(Questions)
        here = asked.table == batch_plan.tables.index(table_id)
        sets = batch_plan.sets
        of_sets = [asked_set.coefficients(n_atoms) for asked_set in sets]
        factors = np.array(of_sets).reshape(-1, n_atoms) % t
        coefficients = np.zeros((1, n_atoms, n_slots), np.uint32)
        coefficients[0, :, asked.bin[here]] = factors[asked.set[here]]
        constant = np.zeros((1, n_slots), np.uint32)
        if bank == plan.banks[0]:
            of_absent = np.array([asked_set.absent for asked_set in sets], np.uint32)
            constant[0, asked.bin[here]] = of_absent[asked.set[here]]
        job = _query_job(
            tables,
            plan,
            bank,
            records,
            sets=tuple((atom,) for atom in range(n_atoms)),
            opened=opened_atoms(plan, bank, records),
            rest=constant,
            of_sets=coefficients,
        )
        blocks = range(tables.scoring(plan).n_share_blocks(plan))
        return list(self._pool.map(bit_queries, map(job, blocks)))

    def _votes(self, address: Address, training: Records, batch: Records) -> list[Queries]:
        """The votes of the groups that a transaction side reaches, labels sealed."""
        bank, table_id = address.receiver, address.table_id
        tables = Tables(training)
        plan, records = tables.plan(table_id), training.of_epoch(table_epoch(table_id))
        parameters, scoring = tables.parameters(plan), tables.scoring(plan)
        batch_plan = batch.get(BatchPlan)
        layers = scoring.layer_chunks(plan, batch_plan.n_layers)[address.index]
        forest = stored_forest(training)
        content = layer_content(forest, layers, batch_plan.tables.index(table_id), batch)
        own = training.get(LabelShare).p.astype(np.int64)
        parts = vote_parts(forest, content.reached, own, parameters.plain_modulus)
        asks_rest = bank == plan.banks[0]
        shape = (len(layers), scoring.n_slots(plan))
        rest = np.zeros(shape, np.uint32)
        sets = np.zeros((len(layers), parts.sets.shape[1], shape[1]), np.uint32)
        if asks_rest:
            rest[content.layer, content.bin] = parts.rest
        sets[content.layer, :, content.bin] = parts.sets
        reached = np.full((*shape, forest.sizes.n_trees), -1, np.int32)
        reached[content.layer, content.bin] = content.reached
        job = _query_job(
            tables,
            plan,
            bank,
            records,
            sets=forest.distinct_sets,
            opened=opened_sets(forest, parameters, plan, bank, records),
            rest=rest,
            of_sets=sets,
        )
        labels = self._shared_labels(bank, training, address.run_id)
        degree = parameters.share_ring.degree
        jobs = (
            SealedQueryJob(
                job(block),
                labels,
                records.get(SetMasks, bank, table_id, block).n,
                reached[:, block * degree : (block + 1) * degree],
                forest.set_index,
                asks_rest,
            )
            for block in range(scoring.n_share_blocks(plan))
        )
        return list(self._pool.map(sealed_queries, jobs))

    def _shared_labels(self, bank: str, training: Records, run_id: str) -> SharedBytes:
        """E_j[b] of every leaf for the workers; of one bank at a time, for they are large."""
        records = with_keys_in_use(training)
        name = run_id, records.epoch, bank
        if self._labels is None or self._labels[0] != name:
            self._labels = None
            n_chunks = len(ScoringPlan(parameters_of(records)).leaf_chunks())
            stored = (records.get(EncryptedLabelShares, bank, i).data for i in range(n_chunks))
            self._labels = name, self._pool.share(stored)
        return self._labels[1]


def _query_job(
    tables: Tables,
    plan: TablePlan,
    bank: str,
    records: Records,
    *,
    sets: tuple[AtomSet, ...],
    opened: Values,
    rest: Values,
    of_sets: Values,
) -> Callable[[int], QueryJob]:
    """The job of each block of the share ring, from values for whole tables."""
    parameters = tables.parameters(plan)
    opened = np.pad(opened, ((0, 0), (0, rest.shape[1] - opened.shape[1])))
    public = with_keys_of(records).get(BankPublic, bank).key(parameters.share_ring)
    flood = parameters.bounds[tables.scoring(plan).flood_circuit].flood
    shares = ShareBlocks(parameters, plan, bank, records)
    degree = parameters.share_ring.degree

    def job(block: int) -> QueryJob:
        part = slice(block * degree, (block + 1) * degree)
        return QueryJob(
            public,
            flood,
            shares.of_block(block),
            sets,
            opened[:, part],
            rest[:, part],
            of_sets[:, :, part],
        )

    return job


def add_to_totals(
    batch: Records, here: Address, values: NDArray[np.unsignedinteger], modulus: int
) -> None:
    """The own part or an answer, to the totals of its layers."""
    before = batch.find(Totals, here.table_id, here.index)
    total = values.astype(np.uint64) + (0 if before is None else before.totals)
    totals = (total % np.uint64(modulus)).astype(np.uint32)
    batch.put(Totals(totals), here.table_id, here.index)
