"""The payment network in the count (protocol.md §4, §5): masked products, its share p, counts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.atoms import AtomSet
from pv4fad.forest.pairs import GroupCounts
from pv4fad.forest.structure import PublicSizes
from pv4fad.he.keys import PublicKey
from pv4fad.parties.network_stages import Trained
from pv4fad.parties.party import RunRecords, expect, expect_residues
from pv4fad.parties.scoring_tables import ShareBlocks, opened_atoms
from pv4fad.protocol.count import ProductsJob, SparseSum, masked_products, own_share
from pv4fad.protocol.messages import NoisyCounts
from pv4fad.protocol.packing import Lane
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.workers import WorkerPool


def products_of_lanes(
    parameters: RunParameters,
    plan: TablePlan,
    chunk: int,
    bank: str,
    *,
    run: RunRecords,
    pool: WorkerPool,
) -> tuple[bytes, ...]:
    """Step 1 of count for some lanes; this party's share p is kept at the same time."""
    table = _CountTable.of(parameters, plan, bank, run)
    public = PublicKey(parameters.share_ring, run.get(f"bank/{bank}/public key"))
    flood = parameters.bounds["linear"].flood
    lanes, per_tree = parameters.lanes_of_chunk(plan, chunk), parameters.sizes.sums_per_tree
    # Each job reads the shares of its lane anew: as few jobs as keep all workers busy.
    batch = -(-per_tree * len(lanes) // (2 * max(1, pool.n_workers)))
    work = [
        (lane, first, table.sums(lane, first, first + batch))
        for lane in lanes
        for first in range(0, per_tree, batch)
    ]
    jobs = (
        ProductsJob(
            public,
            flood,
            lane.blocks,
            tuple(table.shares.of_block(block) for block in lane.blocks),
            lane.slots,
            sums,
        )
        for lane, _, sums in work
    )
    t = parameters.plain_modulus
    p = run.get_arrays("sums")["p"]
    by_tree = p.reshape(parameters.sizes.n_trees, -1)
    ciphertexts: list[bytes] = []
    for (lane, first, sums), masked in zip(work, pool.map(masked_products, jobs), strict=True):
        ciphertexts += masked.ciphertexts
        for i, packed in enumerate(sums):
            for tree, one, mask in zip(lane.trees, packed, masked.mask_totals[i], strict=True):
                mine = own_share(one, table.opened, int(mask), t)
                by_tree[tree, first + i] = (int(by_tree[tree, first + i]) + mine) % t
    run.put_arrays("sums", p=p)
    return tuple(ciphertexts)


def keep_counts(message: NoisyCounts, run: RunRecords) -> None:
    """V + p: the noisy counts, (cells, sets).  The model is complete."""
    parameters = run.parameters()
    t, sizes = parameters.plain_modulus, parameters.sizes
    expect_residues(message, message.residues, sizes.n_sums, t)
    sums = (message.residues + run.get_arrays("sums")["p"].ravel()) % np.uint64(t)
    counts = parameters.signed(sums).reshape(sizes.n_groups, sizes.n_sets)
    # More than all accounts of a cell and the largest noise, or less than none: no honest sum is.
    kept, tail = run.get_arrays("counts")["n_path"][:, np.newaxis], parameters.noise_tail
    expect(
        bool(((counts >= -tail) & (counts <= kept + tail)).all()),
        message,
        "a noisy count that no accounts and no noise add up to: some party does not follow the"
        " protocol, or was told other parameters",
    )
    run.put_arrays("noisy counts", counts=counts)
    run.put_stage(Trained())


@dataclass(frozen=True)
class _CountTable:
    """One bank's table as counting needs it."""

    sizes: PublicSizes
    counts: GroupCounts = field(repr=False)
    sets: list[list[AtomSet]] = field(repr=False)  # of each group
    bin_of_key: NDArray[np.int64] = field(repr=False)  # −1 for keys of other tables
    opened: NDArray[np.uint32] = field(repr=False)  # u, (atoms, bins)
    shares: ShareBlocks = field(repr=False)  # E_j[s]

    @classmethod
    def of(
        cls, parameters: RunParameters, plan: TablePlan, bank: str, run: RunRecords
    ) -> _CountTable:
        counts = GroupCounts(**run.get_arrays("counts"))
        table = run.get_arrays(f"table/{plan.table_id}")
        n_keys = 1 + max(int(counts.key.max(initial=0)), int(table["keys"].max(initial=0)))
        bin_of_key = np.full(n_keys, -1, np.int64)
        bin_of_key[table["keys"]] = table["bins"]
        return cls(
            parameters.sizes,
            counts,
            [[tuple(one) for one in group] for group in run.get_json("sets")],
            bin_of_key,
            opened_atoms(plan, bank, run),
            ShareBlocks(parameters, plan, bank, run),
        )

    def sums(self, lane: Lane, first: int, stop: int) -> tuple[tuple[SparseSum, ...], ...]:
        """Sums first..stop−1 of each tree of a lane: [sum][tree]."""
        per_tree = self.sizes.sums_per_tree
        return tuple(
            tuple(self._sum(tree * per_tree + i) for tree in lane.trees)
            for i in range(first, min(stop, per_tree))
        )

    def _sum(self, number: int) -> SparseSum:
        group, index = divmod(number, self.sizes.n_sets)
        key, weight = self.counts.of_group(group)
        bins = self.bin_of_key[key]
        here = bins >= 0
        return SparseSum(bins[here], weight[here], self.sets[group][index])
