"""The payment network in count (protocol.md §4, §5): masked products, its share p, the counts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.forest.atoms import AtomSet
from pv4fad.forest.pairs import GroupCounts
from pv4fad.forest.structure import PublicSizes
from pv4fad.protocol.checks import expect, expect_residues
from pv4fad.protocol.count.messages import MaskedProducts, NoisyCounts
from pv4fad.protocol.count.packing import Lane
from pv4fad.protocol.count.state import OwnSums, ReleasedCounts
from pv4fad.protocol.count.steps import ProductsJob, SparseSum, masked_products, own_share
from pv4fad.protocol.match.network import ShareBlocks, opened_atoms
from pv4fad.protocol.match.state import PlacedTable
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.protocol.propose.state import BankPublic, CountedAccounts
from pv4fad.protocol.state import parameters_of
from pv4fad.protocol.wire import Address
from pv4fad.store.records import Records
from pv4fad.workers import WorkerPool


def make_products(address: Address, run: Records, pool: WorkerPool) -> MaskedProducts:
    """Step 1 for some lanes; this party's share p is kept at the same time."""
    parameters, bank = parameters_of(run), address.receiver
    plan = parameters.table(address.table_id)
    table = _CountTable.of(parameters, plan, bank, run)
    public = run.get(BankPublic, bank).key(parameters.share_ring)
    flood = parameters.bounds["linear"].flood
    lanes, per_tree = parameters.lanes_of_chunk(plan, address.index), parameters.sizes.sums_per_tree
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
    p = run.get(OwnSums).p.copy()
    by_tree = p.reshape(parameters.sizes.n_trees, -1)
    ciphertexts: list[bytes] = []
    for (lane, first, sums), masked in zip(work, pool.map(masked_products, jobs), strict=True):
        ciphertexts += masked.ciphertexts
        for i, packed in enumerate(sums):
            for tree, summand, mask in zip(lane.trees, packed, masked.mask_totals[i], strict=True):
                share = own_share(summand, table.opened, int(mask), t)
                by_tree[tree, first + i] = (int(by_tree[tree, first + i]) + share) % t
    run.put(OwnSums(p))
    return MaskedProducts(address, tuple(ciphertexts))


def keep_counts(message: NoisyCounts, run: Records) -> None:
    """V + p: the noisy counts, (cells, sets).  The model is complete."""
    parameters = parameters_of(run)
    t, sizes = parameters.plain_modulus, parameters.sizes
    expect_residues(message, message.residues, sizes.n_sums, t)
    sums = (message.residues + run.get(OwnSums).p.ravel()) % np.uint64(t)
    counts = parameters.signed(sums).reshape(sizes.n_groups, sizes.n_sets)
    # More than all accounts of a cell and the largest noise, or less than none: no honest sum is.
    kept, tail = run.get(CountedAccounts).n_path[:, np.newaxis], parameters.noise_tail
    expect(
        bool(((counts >= -tail) & (counts <= kept + tail)).all()),
        message,
        "a noisy count that no records and no noise add up to: some party does not follow the"
        " protocol, or was told other parameters",
    )
    run.put(ReleasedCounts(counts))


@dataclass(frozen=True)
class _CountTable:
    """One bank's table as counting needs it."""

    sizes: PublicSizes
    counts: GroupCounts = field(repr=False)
    sets: tuple[tuple[AtomSet, ...], ...] = field(repr=False)  # of each group
    bin_of_key: NDArray[np.int64] = field(repr=False)  # −1 for keys of other tables
    opened: NDArray[np.uint32] = field(repr=False)  # u, (atoms, bins)
    shares: ShareBlocks = field(repr=False)  # E_j[s]

    @classmethod
    def of(cls, parameters: RunParameters, plan: TablePlan, bank: str, run: Records) -> _CountTable:
        counted, table = run.get(CountedAccounts), run.get(PlacedTable, plan.table_id)
        n_keys = 1 + max(int(counted.key.max(initial=0)), int(table.keys.max(initial=0)))
        bin_of_key = np.full(n_keys, -1, np.int64)
        bin_of_key[table.keys] = table.bins
        return cls(
            parameters.sizes,
            counted.counts(),
            counted.sets,
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
