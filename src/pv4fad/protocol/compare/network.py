"""The payment network in compare and labels (protocol.md §11): digits of w, then its label share.

It opens w = leaf sum + mask, which is uniform, sends its digits one-hot under its own key, and
keeps the share of the labels that comes back.  In released mode the aggregator's share follows.
"""

from __future__ import annotations

import numpy as np

from pv4fad.he.keys import SecretKey
from pv4fad.protocol.checks import expect, expect_residues
from pv4fad.protocol.compare.messages import BlindedSums, EncryptedDigits, LabelMasks, SharedLabels
from pv4fad.protocol.compare.steps import (
    DigitsJob,
    digit_bases,
    digits,
    encrypt_digit,
    masked_leaves,
)
from pv4fad.protocol.match.steps import OpenJob, open_indicators
from pv4fad.protocol.network_stages import Comparing, Revealing, Trained
from pv4fad.protocol.roles import AGGREGATOR, PAYMENT_NETWORK
from pv4fad.protocol.run_records import RunRecords
from pv4fad.protocol.wire import Address
from pv4fad.workers import WorkerPool


def begin_comparison(message: BlindedSums, run: RunRecords, pool: WorkerPool) -> EncryptedDigits:
    """w of every leaf from the masked sums and the own shares; the first block of digits."""
    parameters = run.parameters()
    sizes, t = parameters.sizes, parameters.plain_modulus
    expect_residues(message, message.residues, sizes.n_leaves, t)
    n_path = run.get_arrays("counts")["n_path"]
    w = masked_leaves(message.residues, run.get_arrays("sums")["p"], n_path, t)
    run.put_arrays("masked leaves", w=w.ravel())
    run.put_stage(Comparing(0))
    return _digits(0, run, pool, message.address)


def keep_label_share(
    message: SharedLabels, done: int, run: RunRecords, pool: WorkerPool
) -> list[EncryptedDigits]:
    """The share of one block of labels; the digits of the next block, if there is one."""
    parameters, block = run.parameters(), message.address.index
    expect(block == done, message, f"block {done} is next")
    secret = SecretKey(parameters.match_ring, run.get("secret key"))
    (opened,) = pool.map(open_indicators, [OpenJob(secret, (message.ciphertext,))])
    run.put_arrays(f"label share/{block}", p=opened[0].astype(np.uint64))
    if block + 1 < parameters.n_leaf_blocks:
        run.put_stage(Comparing(done + 1))
        return [_digits(block + 1, run, pool, message.address)]
    shares = [run.get_arrays(f"label share/{i}")["p"] for i in range(parameters.n_leaf_blocks)]
    run.put_arrays("label share", p=np.concatenate(shares)[: parameters.sizes.n_leaves])
    run.delete("masked leaves")
    run.delete_all("label share/")
    run.put_stage(Trained() if parameters.mode == "sealed" else Revealing())
    return []


def reveal_labels(message: LabelMasks, run: RunRecords) -> None:
    """Released mode: the noisy labels, from both shares."""
    parameters = run.parameters()
    t = parameters.plain_modulus
    expect_residues(message, message.residues, parameters.sizes.n_leaves, t)
    labels = (run.get_arrays("label share")["p"] + message.residues) % np.uint64(t)
    expect(bool((labels <= 1).all()), message, "shares that do not add up to labels")
    run.put_arrays("labels", labels=labels.astype(np.int8))
    run.put_stage(Trained())


def _digits(block: int, run: RunRecords, pool: WorkerPool, like: Address) -> EncryptedDigits:
    parameters = run.parameters()
    t, degree = parameters.plain_modulus, parameters.match_ring.degree
    secret = SecretKey(parameters.match_ring, run.get("secret key"))
    w = run.get_arrays("masked leaves")["w"][block * degree : (block + 1) * degree]
    jobs = [
        DigitsJob(secret, digit, base)
        for digit, base in zip(digits(w, t), digit_bases(t), strict=True)
    ]
    one_hot = tuple(one for digit in pool.map(encrypt_digit, jobs) for one in digit)
    address = Address(PAYMENT_NETWORK, AGGREGATOR, like.run_id, "", like.epoch, block)
    return EncryptedDigits(address, one_hot)
