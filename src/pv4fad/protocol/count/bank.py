"""A bank in count (protocol.md §4, §5): its share q, its noise, and what a release costs."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from pv4fad.privacy.ledger import Expense, spend
from pv4fad.privacy.noise import discrete_laplace, polya_share
from pv4fad.privacy.pairwise import pairwise_mask
from pv4fad.protocol.checks import expect
from pv4fad.protocol.count.messages import MaskedProducts, NoisySums
from pv4fad.protocol.count.state import BankSums
from pv4fad.protocol.count.steps import AddUpJob, add_up, noisy_share
from pv4fad.protocol.parameters import RunParameters, digest_of
from pv4fad.protocol.propose.state import SUMS, MaskSeeds, OwnKeys
from pv4fad.protocol.roles import AGGREGATOR
from pv4fad.protocol.state import parameters_of
from pv4fad.protocol.wire import Address
from pv4fad.store.records import Records
from pv4fad.workers import WorkerPool

UNIT = "one record of this party, added, removed or changed"


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


def add_products(message: MaskedProducts, run: Records, pool: WorkerPool) -> None:
    """Step 2 for some lanes: q grows by the sum of all slots of each product."""
    parameters, here = parameters_of(run), message.address
    lanes = parameters.lanes_of_chunk(parameters.table(here.table_id), here.index)
    per_tree = parameters.sizes.sums_per_tree
    expect(
        len(message.ciphertexts) == len(lanes) * per_tree, message, "wrong number of ciphertexts"
    )
    secret = run.get(OwnKeys).secret_key(parameters.share_ring)
    jobs = (
        AddUpJob(secret, lane.slots, message.ciphertexts[i * per_tree : (i + 1) * per_tree])
        for i, lane in enumerate(lanes)
    )
    t = np.uint64(parameters.plain_modulus)
    q = run.get(BankSums).q.copy().reshape(parameters.sizes.n_trees, per_tree)
    for lane, totals in zip(lanes, pool.map(add_up, jobs), strict=True):
        q[list(lane.trees)] = (q[list(lane.trees)] + totals.T) % t
    run.put(BankSums(q.ravel()))


def release(
    like: Address,
    run: Records,
    *,
    noise: NDArray[np.int64],
    bank: str,
    account_file: str,
) -> NoisySums:
    """ε is spent in the transaction that stores the noisy sums, before they are sent."""
    parameters = parameters_of(run)
    spend(run.tx, expense_of(parameters, account_file))
    n, t = parameters.sizes.n_sums, parameters.plain_modulus
    seeds = run.get(MaskSeeds, SUMS).by_bank()
    # Banks that were told different parameters mask differently, and their sum is noise.
    context = b"noisy sums " + digest_of(parameters)
    mask = pairwise_mask(bank, seeds, context, modulus=t, n=n)
    run.delete_at(MaskSeeds, SUMS)
    residues = noisy_share(noise, run.get(BankSums).q, mask, t)
    return NoisySums(like.onward(AGGREGATOR), residues)
