"""The payment network in compare (protocol.md §11): digits of w, then its share of the labels.

It opens w = leaf sum + mask, which is uniform, sends its digits one-hot under its own key, and
keeps the share of the labels that comes back.  In released mode the aggregator's share follows.
"""

from __future__ import annotations

import numpy as np

from pv4fad.protocol.checks import expect, expect_residues
from pv4fad.protocol.compare.messages import BlindedSums, EncryptedDigits, LabelMasks, SharedLabels
from pv4fad.protocol.compare.state import Labels, LabelShare, LabelShareBlock, MaskedLeaves
from pv4fad.protocol.compare.steps import (
    DigitsJob,
    digit_bases,
    digits,
    encrypt_digit,
    masked_leaves,
)
from pv4fad.protocol.count.state import OwnSums
from pv4fad.protocol.match.steps import OpenJob, open_block
from pv4fad.protocol.propose.state import CountedAccounts, NetworkSecret
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.state import parameters_of
from pv4fad.protocol.wire import Address
from pv4fad.store.records import Records
from pv4fad.workers import WorkerPool


def keep_masked_leaves(message: BlindedSums, run: Records) -> None:
    """Step 2: w of every leaf from the blinded sums and the own shares."""
    parameters = parameters_of(run)
    sizes, t = parameters.sizes, parameters.plain_modulus
    expect_residues(message, message.residues, sizes.n_leaves, t)
    n_path = run.get(CountedAccounts).n_path
    w = masked_leaves(message.residues, run.get(OwnSums).p, n_path, t)
    run.put(MaskedLeaves(w.ravel()))


def make_digits(block: int, run: Records, pool: WorkerPool) -> EncryptedDigits:
    """Step 2: the digits of one block of leaves."""
    parameters = parameters_of(run)
    t, degree = parameters.plain_modulus, parameters.compare_ring.degree
    secret = run.get(NetworkSecret, "compare").key(parameters.compare_ring)
    w = run.get(MaskedLeaves).w[block * degree : (block + 1) * degree]
    jobs = [
        DigitsJob(secret, digit, base)
        for digit, base in zip(digits(w, t), digit_bases(t), strict=True)
    ]
    one_hot = tuple(value for digit in pool.map(encrypt_digit, jobs) for value in digit)
    address = Address(PAYMENT_NETWORK, AGGREGATOR, run.run_id, "", run.epoch, block)
    return EncryptedDigits(address, one_hot)


def keep_label_block(message: SharedLabels, done: int, run: Records, pool: WorkerPool) -> None:
    """Step 4: the share of one block of labels."""
    parameters, block = parameters_of(run), message.address.index
    expect(block == done, message, f"block {done} is next")
    secret = run.get(NetworkSecret, "compare").key(parameters.compare_ring)
    job = OpenJob(secret, parameters.compare_ring.degree, (message.ciphertext,))
    (opened,) = pool.map(open_block, [job])
    run.put(LabelShareBlock(opened[0]), block)


def keep_label_share(run: Records) -> None:
    """All blocks are in: the share of every label; what it was made from is forgotten."""
    parameters = parameters_of(run)
    blocks = [run.get(LabelShareBlock, block).p for block in range(parameters.n_leaf_blocks)]
    run.put(LabelShare(np.concatenate(blocks)[: parameters.sizes.n_leaves]))
    run.delete(MaskedLeaves, LabelShareBlock)


def reveal_labels(message: LabelMasks, run: Records) -> None:
    """Released mode: the noisy labels, from both shares."""
    parameters = parameters_of(run)
    t = parameters.plain_modulus
    expect_residues(message, message.residues, parameters.sizes.n_leaves, t)
    labels = (run.get(LabelShare).p + message.residues) % np.uint64(t)
    expect(bool((labels <= 1).all()), message, "shares that do not add up to labels")
    run.put(Labels(labels.astype(np.int8)))
