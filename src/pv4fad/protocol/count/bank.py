"""A bank in the count (protocol.md §4, §5): its share q, its noise, and what a release costs."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.keys import SecretKey
from pv4fad.privacy.ledger import Expense
from pv4fad.privacy.noise import discrete_laplace, polya_share
from pv4fad.protocol.checks import expect
from pv4fad.protocol.count.messages import MaskedProducts
from pv4fad.protocol.count.steps import AddUpJob, add_up
from pv4fad.protocol.parameters import RunParameters, TablePlan
from pv4fad.protocol.run_records import RunRecords
from pv4fad.workers import WorkerPool

UNIT = "one account record at one bank, added, removed or changed"


def draw_noise(parameters: RunParameters) -> NDArray[np.int64]:
    """One draw per sum, exact, from the operating system's CSPRNG."""
    epsilon, n = parameters.exact_epsilon, parameters.sizes.n_sums
    if isinstance(epsilon, str):
        return np.zeros(n, np.int64)
    if parameters.noise == "per-bank":
        return discrete_laplace(epsilon, parameters.sensitivity, n)
    return polya_share(epsilon, parameters.sensitivity, parameters.honest_banks, n)


def expense_of(parameters: RunParameters, account_file: str) -> Expense:
    """What the release of a run is entered in the ledger as."""
    return Expense(
        run_id=parameters.run_id,
        epsilon=parameters.exact_epsilon,
        sensitivity=parameters.sensitivity,
        unit=UNIT,
        noise=parameters.noise,
        account_file=account_file,
        time=datetime.now(UTC),
        honest_banks=parameters.honest_banks if parameters.noise == "distributed" else 1,
    )


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
