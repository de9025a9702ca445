"""The queries of the payment network to a bank (protocol.md §6): all of its encryption in scoring.

Every bin of every layer is asked about, with the shares of the match and of the labels; a bin
without a transaction asks for nothing, under the same masks.
"""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.votes import vote_parts
from pv4fad.he.keys import PublicKey
from pv4fad.he.pool import WorkerPool
from pv4fad.parties.party import RunRecords
from pv4fad.parties.scoring_tables import (
    ShareBlocks,
    Tables,
    layer_content,
    opened_sets,
    stored_forest,
)
from pv4fad.protocol.parameters import table_epoch
from pv4fad.protocol.score import (
    QueryJob,
    SealedQueryJob,
    SetSharesJob,
    released_queries,
    sealed_queries,
    set_shares,
)
from pv4fad.protocol.scoring_messages import ScoreQuery
from pv4fad.protocol.scoring_plan import ScoringPlan
from pv4fad.protocol.wire import Address


class NetworkQueries:
    """Makes them; keeps what its workers need in files."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._files: Path | None = None

    def set_shares(self, bank: str, table_id: str, training: RunRecords) -> tuple[bytes, ...]:
        """E_j[s_c + n_c] for the bank; n_c is kept."""
        records = training.of_epoch(table_epoch(table_id))
        parameters = records.parameters()
        plan = parameters.table(table_id)
        forest = stored_forest(training)
        public = PublicKey(parameters.share_ring, records.get(f"bank/{bank}/public key"))
        flood = parameters.bounds["linear"].flood
        shares = ShareBlocks(parameters, plan, bank, records)
        jobs = (
            SetSharesJob(public, flood, shares.of_block(block), forest.distinct_sets)
            for block in range(ScoringPlan(parameters).n_share_blocks(plan))
        )
        blinded: list[bytes] = []
        for block, made in enumerate(self._pool.map(set_shares, jobs)):
            blinded += made.blinded
            records.put_arrays(f"set masks/{bank}/{table_id}/{block}", n=made.masks)
        return tuple(blinded)

    def query(
        self, address: Address, training: RunRecords, batch: RunRecords
    ) -> tuple[ScoreQuery, NDArray[np.uint32]]:
        """Some layers of a table, and the own part of their votes, to which the answer adds."""
        bank, table_id = address.receiver, address.table_id
        tables = Tables(training)
        plan, records = tables.plan(table_id), training.of_epoch(table_epoch(table_id))
        parameters, scoring = tables.parameters(plan), tables.scoring(plan)
        batch_plan = batch.get_json("plan")
        layers = scoring.layer_chunks(plan, batch_plan["n_layers"])[address.index]
        forest = stored_forest(training)
        content = layer_content(forest, layers, batch_plan["tables"].index(table_id), batch)
        sealed = parameters.mode == "sealed"
        name, values = ("label share", "p") if sealed else ("labels", "labels")
        leaf_values = training.get_arrays(name)[values].astype(np.int64)
        parts = vote_parts(forest, content.reached, leaf_values, parameters.plain_modulus)
        asks_rest = bank == plan.banks[0]
        shape = (len(layers), plan.layout.n_bins)
        rest = np.zeros(shape, np.uint32)
        sets = np.zeros((len(layers), parts.sets.shape[1], plan.layout.n_bins), np.uint32)
        if asks_rest:
            rest[content.layer, content.bin] = parts.rest
        sets[content.layer, :, content.bin] = parts.sets
        opened = opened_sets(forest, parameters, plan, bank, records)
        public = PublicKey(parameters.share_ring, records.get(f"bank/{bank}/public key"))
        flood = parameters.bounds[scoring.flood_circuit].flood
        shares = ShareBlocks(parameters, plan, bank, records)
        reached = None
        if sealed:
            reached = np.full((*shape, forest.sizes.n_trees), -1, np.int32)
            reached[content.layer, content.bin] = content.reached
        degree = parameters.share_ring.degree

        def job(block: int) -> QueryJob:
            part = slice(block * degree, (block + 1) * degree)
            return QueryJob(
                public,
                flood,
                shares.of_block(block),
                forest.distinct_sets,
                opened[:, part],
                rest[:, part],
                sets[:, :, part],
            )

        n_blocks = scoring.n_share_blocks(plan)
        if reached is None:
            results = self._pool.map(released_queries, map(job, range(n_blocks)))
        else:
            label_file = self._label_file(bank, training, address.run_id)
            jobs = (
                SealedQueryJob(
                    job(block),
                    label_file,
                    records.get_arrays(f"set masks/{bank}/{table_id}/{block}")["n"],
                    reached[:, block * degree : (block + 1) * degree],
                    forest.set_index,
                    asks_rest,
                )
                for block in range(n_blocks)
            )
            results = self._pool.map(sealed_queries, jobs)
        ciphertexts: list[bytes] = []
        offsets = []
        for made in results:
            ciphertexts += [one for layer in made.ciphertexts for one in layer]
            offsets.append(made.offsets)
        query = ScoreQuery(address, len(layers), tuple(ciphertexts))
        return query, np.concatenate(offsets, axis=1)

    def _label_file(self, bank: str, training: RunRecords, run_id: str) -> Path:
        """E_j[b] of every leaf for the workers: ciphertexts, too large to send with every job."""
        if self._files is None:
            self._files = Path(mkdtemp(prefix="pv4fad-"))
            finalize(self, rmtree, self._files, ignore_errors=True)
        epoch = training.find_json("key epoch", 0)
        path = self._files / f"{run_id}-{epoch}-{bank}"
        if not path.exists():
            records = training.of_epoch(epoch)
            n_chunks = len(ScoringPlan(records.parameters()).leaf_chunks())
            with path.open("wb") as file:
                for index in range(n_chunks):
                    file.write(records.get(f"labels/{bank}/{index}"))
        return path
