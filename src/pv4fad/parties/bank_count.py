"""A bank in the count (protocol.md §4): what it opens is masked, and adds up to its share q."""

from __future__ import annotations

import numpy as np

from pv4fad.he.keys import SecretKey
from pv4fad.parties.party import RunRecords, expect
from pv4fad.protocol.count import AddUpJob, add_up
from pv4fad.protocol.messages import MaskedProducts
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.workers import WorkerPool


def add_products(
    message: MaskedProducts,
    parameters: RunParameters,
    plan: TablePlan,
    chunk: int,
    *,
    run: RunRecords,
    pool: WorkerPool,
) -> None:
    """Step 2 of count for some lanes: q grows by the sum of all slots of each product."""
    lanes, per_tree = parameters.lanes_of_chunk(plan, chunk), parameters.sizes.sums_per_tree
    expect(
        len(message.ciphertexts) == len(lanes) * per_tree, message, "wrong number of ciphertexts"
    )
    secret = SecretKey(parameters.share_ring, run.get("own secret key"))
    jobs = (
        AddUpJob(secret, lane.slots, message.ciphertexts[i * per_tree : (i + 1) * per_tree])
        for i, lane in enumerate(lanes)
    )
    t = np.uint64(parameters.plain_modulus)
    q = run.get_arrays("sums")["q"].reshape(parameters.sizes.n_trees, per_tree)
    for lane, totals in zip(lanes, pool.map(add_up, jobs), strict=True):
        q[list(lane.trees)] = (q[list(lane.trees)] + totals.T) % t
    run.put_arrays("sums", q=q.ravel())
