"""The aggregator in compare (protocol.md §11.3, §11.4): it compares what it cannot open."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pv4fad.protocol.checks import expect
from pv4fad.protocol.compare.messages import BlindedSums, EncryptedDigits, LabelMasks, SharedLabels
from pv4fad.protocol.compare.state import Blinding, MaskBlock
from pv4fad.protocol.compare.steps import (
    LessJob,
    ShareLabelsJob,
    blinded_leaves,
    comparison_depth,
    digit_bases,
    less_than,
    share_labels,
    thresholds,
)
from pv4fad.protocol.count.state import SumsSoFar
from pv4fad.protocol.order import receivers_of
from pv4fad.protocol.propose.state import PublicKeys
from pv4fad.protocol.roles import PAYMENT_NETWORK
from pv4fad.protocol.state import parameters_of
from pv4fad.protocol.wire import Address
from pv4fad.randomness import secret_residues
from pv4fad.store.records import Records
from pv4fad.workers import WorkerPool


def blind_sums(v: NDArray[np.uint64], like: Address, run: Records) -> BlindedSums:
    """Step 1: V + r of every leaf."""
    parameters = parameters_of(run)
    sizes, t = parameters.sizes, parameters.plain_modulus
    r = secret_residues(t, sizes.n_leaves)
    run.put(Blinding(r))
    leaves = blinded_leaves(v.reshape(sizes.n_groups, sizes.n_sets), r, t)
    return BlindedSums(like.onward(PAYMENT_NETWORK), leaves.ravel())


def compare_block(
    message: EncryptedDigits, done: int, run: Records, pool: WorkerPool
) -> SharedLabels:
    """Step 3: [w < hi] − [w < lo] + [lo > hi] for one block of leaves, shared with fresh b."""
    parameters, block = parameters_of(run), message.address.index
    expect(block == done, message, f"block {done} is next")
    t, ring = parameters.plain_modulus, parameters.compare_ring
    public = run.get(PublicKeys, "compare").key(ring)
    bases = digit_bases(t)
    expect(len(message.one_hot) == sum(bases), message, "wrong number of ciphertexts")
    one_hot, rest = [], message.one_hot
    for base in bases:
        one_hot.append(rest[:base])
        rest = rest[base:]
    # Slots beyond the last leaf hold nothing; they are blinded and shared like the others.
    r = secret_residues(t, ring.degree)
    of_block = run.get(Blinding).r[block * ring.degree : (block + 1) * ring.degree]
    r[: len(of_block)] = of_block
    low, high = thresholds(r, t)
    jobs = [LessJob(public, tuple(one_hot), threshold) for threshold in (high, low)]
    below_high, below_low = pool.map(less_than, jobs)
    b = secret_residues(t, ring.degree)
    constant = ((low > high) + np.uint64(t) - b) % np.uint64(t)
    level = ring.n_data_primes - comparison_depth(t)
    flood = parameters.bounds["compare"].flood
    job = ShareLabelsJob(public, flood, level, below_high, below_low, constant)
    (shared,) = pool.map(share_labels, [job])
    run.put(MaskBlock(b[: len(of_block)]), block)
    return SharedLabels(message.address.answer(), shared)


def send_masks(like: Address, run: Records) -> list[LabelMasks]:
    """The end of step 3: b of every leaf, to the banks or to the payment network."""
    parameters = parameters_of(run)
    masks = [run.get(MaskBlock, block).b for block in range(parameters.n_leaf_blocks)]
    # Nothing needs these again; with the payment network's records they would tell the sums,
    # and the masks the labels.
    run.delete(SumsSoFar, Blinding, MaskBlock)
    receivers = receivers_of(parameters, LabelMasks)
    return [LabelMasks(like.onward(receiver), np.concatenate(masks)) for receiver in receivers]
