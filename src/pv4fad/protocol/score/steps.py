"""The local steps of score: worker jobs for one block of the share ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.keys import Decryptor, Encryptor, Evaluator, PublicKey, SecretEncryptor, SecretKey
from pv4fad.he.ring import Ciphertext, Ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.randomness import secret_residues
from pv4fad.workers import SharedBytes

Values = NDArray[np.uint32]


@dataclass(frozen=True)
class SetSharesJob:
    """Step 0 for one block: the distinct sets' shares, and their blinded openings."""

    public: PublicKey
    flood: Flood
    encrypted_shares: tuple[bytes, ...] = field(repr=False)  # E_j[s_k] for each atom k
    sets: tuple[tuple[int, ...], ...] = field(repr=False)


@dataclass(frozen=True)
class SetShares:
    """What step 0 yields: the payment network keeps the masks."""

    blinded: tuple[bytes, ...] = field(repr=False)  # E_j[s_c + n_c], sanitised: for the bank
    masks: Values = field(repr=False)  # n_c, (sets, N)


def set_shares(job: SetSharesJob) -> SetShares:
    """PaymentNetwork, step 0: so that the bank can work with sets without learning which."""
    evaluator, sanitiser = Evaluator(job.public), Sanitiser(job.public, job.flood)
    ring = evaluator.ring
    masks = secret_residues(ring.plain_modulus, len(job.sets) * ring.degree)
    masks = masks.reshape(len(job.sets), ring.degree)
    blinded = []
    totals = _shares_of_sets(evaluator, job.encrypted_shares, job.sets)
    for total, mask in zip(totals, masks, strict=True):
        opened = evaluator.switch_to(total, job.flood.n_primes)
        evaluator.add_slots(opened, mask)
        blinded.append(sanitiser.sanitise(opened))
    return SetShares(tuple(blinded), masks.astype(np.uint32))


@dataclass(frozen=True)
class LabelsJob:
    """Step 0 at the bank: its shares of some leaves."""

    secret: SecretKey
    shares: NDArray[np.uint64] = field(repr=False)


def encrypt_label_shares(job: LabelsJob) -> tuple[bytes, ...]:
    """Bank, step 0: E_j[b] with b in every slot, for each leaf."""
    encryptor = SecretEncryptor(job.secret)
    ring = encryptor.ring
    return tuple(ring.dump(encryptor.encrypt(np.full(ring.degree, b))) for b in job.shares)


@dataclass(frozen=True)
class QueryJob:
    """Step 1 for some layers of one block: Σ_c P_c·I_c + P_0 is wanted of every slot."""

    public: PublicKey
    flood: Flood
    encrypted_shares: tuple[bytes, ...] = field(repr=False)  # E_j[s_k] for each atom k
    sets: tuple[tuple[int, ...], ...] = field(repr=False)  # of bits: each atom by itself
    opened: Values = field(repr=False)  # u_c, (sets, N)
    votes_rest: Values = field(repr=False)  # P_0, (layers, N)
    votes_sets: Values = field(repr=False)  # P_c, (layers, sets, N)


@dataclass(frozen=True)
class SealedQueryJob:
    """Step 1 of votes: what bits do not need."""

    base: QueryJob
    labels: SharedBytes  # E_j[b] of every leaf, back to back: too large to send with every job
    masks: Values = field(repr=False)  # n_c, (sets, N)
    reached: NDArray[np.int32] = field(repr=False)  # (layers, N, trees): groups, −1 for none
    set_index: NDArray[np.int64] = field(repr=False)  # (groups, sets of a group)
    asks_rest: bool  # whether B_0 is asked of this bank


@dataclass(frozen=True)
class Queries:
    """What step 1 yields: the payment network keeps `offsets` and adds R to it."""

    ciphertexts: tuple[tuple[bytes, ...], ...] = field(repr=False)  # [layer][y_c …, Z]
    offsets: Values = field(repr=False)  # P_0 + Σ_c P_c·u_c − ρ, (layers, N)


def bit_queries(job: QueryJob) -> Queries:
    """PaymentNetwork, step 1 of bits: Z = E_j[−Σ_k c_k·s_k + ρ]."""
    evaluator, encryptor = Evaluator(job.public), Encryptor(job.public)
    sanitiser = Sanitiser(job.public, job.flood)
    ring = evaluator.ring
    t = np.uint64(ring.plain_modulus)
    shares = [
        evaluator.switch_to(share, job.flood.n_primes)
        for share in _shares_of_sets(evaluator, job.encrypted_shares, job.sets)
    ]
    rho = _fresh(ring, len(job.votes_rest))
    messages = []
    for layer, sets in enumerate(job.votes_sets):
        z = encryptor.zero(job.flood.n_primes)
        minus = (t - sets) % t
        evaluator.add_products(z, zip(shares, minus, strict=True))
        evaluator.add_slots(z, rho[layer])
        messages.append((sanitiser.sanitise(z),))
    return Queries(tuple(messages), _offsets(job, rho, t))


def sealed_queries(job: SealedQueryJob) -> Queries:
    """PaymentNetwork, step 1 of votes: y_c and Z for every layer."""
    base = job.base
    evaluator, encryptor = Evaluator(base.public), Encryptor(base.public)
    sanitiser = Sanitiser(base.public, base.flood)
    ring = evaluator.ring
    top, t = ring.parameters.n_data_primes, np.uint64(ring.plain_modulus)
    labels = _label_shares(job.labels, base.public, job.set_index.shape[1])
    shares = _shares_of_sets(evaluator, base.encrypted_shares, base.sets)
    n_sets = len(shares)
    factors = (base.opened.astype(np.uint64) + job.masks) % t  # u_c + n_c
    rho = _fresh(ring, len(base.votes_rest))
    messages = []
    for layer, reached in enumerate(job.reached):
        b_rest, b_sets = _bank_votes(evaluator, labels, reached, job.set_index, n_sets)
        z = b_rest if job.asks_rest and b_rest is not None else encryptor.zero(top)
        m = _fresh(ring, n_sets)
        constant = (rho[layer] + (m * job.masks % t).sum(axis=0)) % t
        queries = []
        for c, b_set in enumerate(b_sets):
            y = encryptor.zero(top) if b_set is None else b_set
            evaluator.add_products(z, [(y, factors[c])])
            minus = (t + m[c] - base.votes_sets[layer, c]) % t  # −(P_c − m_c)
            evaluator.add_products(z, [(shares[c], minus)])
            evaluator.add_slots(y, m[c])
            queries.append(sanitiser.sanitise(y))
        evaluator.add_slots(z, constant)
        messages.append((*queries, sanitiser.sanitise(z)))
    return Queries(tuple(messages), _offsets(base, rho, t))


@dataclass(frozen=True)
class _LabelShares:
    """E_j[b[g, rest]] and E_j[b[g, c] − b[g, rest]] of every group."""

    rest: list[Ciphertext]
    over_rest: list[list[Ciphertext]]  # [group][set of the group]


@lru_cache(maxsize=1)
def _label_shares(labels: SharedBytes, public: PublicKey, n_sets: int) -> _LabelShares:
    evaluator = Evaluator(public)
    ring = evaluator.ring
    top = ring.parameters.n_data_primes
    size = ring.ciphertext_bytes(top)
    rest, over_rest = [], []
    for data in labels.pieces(size * (n_sets + 1)):
        leaves = [ring.load(data[i * size : (i + 1) * size], top) for i in range(n_sets + 1)]
        for leaf in leaves[:-1]:
            evaluator.sub(leaf, leaves[-1])
        rest.append(leaves[-1])
        over_rest.append(leaves[:-1])
    return _LabelShares(rest, over_rest)


def _bank_votes(
    evaluator: Evaluator,
    labels: _LabelShares,
    reached: NDArray[np.int32],
    set_index: NDArray[np.int64],
    n_distinct: int,
) -> tuple[Ciphertext | None, list[Ciphertext | None]]:
    """E_j[B_0] and E_j[B_c] of one layer: the leaves of a group share one mask."""
    ring = evaluator.ring
    top = ring.parameters.n_data_primes
    rest: Ciphertext | None = None
    sets: list[Ciphertext | None] = [None] * n_distinct
    slots = np.repeat(np.arange(ring.degree), reached.shape[1])
    groups = reached.ravel()
    order = np.argsort(groups, kind="stable")
    groups, slots = groups[order], slots[order]
    present, starts = np.unique(groups, return_index=True)
    for group, mine in zip(present, np.split(slots, starts[1:]), strict=True):
        if group < 0:
            continue
        mask = np.zeros(ring.degree, np.uint64)
        mask[mine] = 1
        prepared = evaluator.prepare(mask, top)
        rest = evaluator.add_prepared(rest, labels.rest[group], prepared)
        for index, share in enumerate(labels.over_rest[group]):
            c = set_index[group, index]
            sets[c] = evaluator.add_prepared(sets[c], share, prepared)
    return rest, sets


def _shares_of_sets(
    evaluator: Evaluator, encrypted_shares: Sequence[bytes], sets: Sequence[tuple[int, ...]]
) -> list[Ciphertext]:
    """E_j[s_c] = Σ_{k in c} E_j[s_k]."""
    ring = evaluator.ring
    shares = [ring.load(data, ring.parameters.n_data_primes) for data in encrypted_shares]
    return [evaluator.total([shares[k] for k in atoms]) for atoms in sets]


def _fresh(ring: Ring, rows: int) -> NDArray[np.uint64]:
    return secret_residues(ring.plain_modulus, rows * ring.degree).reshape(rows, ring.degree)


def _offsets(job: QueryJob, rho: NDArray[np.uint64], t: np.uint64) -> Values:
    known = job.votes_rest + (job.votes_sets.astype(np.uint64) * job.opened % t).sum(axis=1)
    offsets: NDArray[np.uint64] = (known + t - rho) % t
    return offsets.astype(np.uint32)


@dataclass(frozen=True)
class ReplyJob:
    """Step 2 for some layers of one block."""

    secret: SecretKey
    ciphertexts: tuple[tuple[bytes, ...], ...] = field(repr=False)  # [layer][y_c …, Z]
    opened_sets: Values = field(repr=False)  # v_c, (sets, N); none for bits


def answer_queries(job: ReplyJob) -> Values:
    """Bank, step 2: R = Z − Σ_c y_c·v_c for each layer, (layers, N)."""
    decryptor, ring = Decryptor(job.secret), Ring.of(job.secret.ring)
    t = np.uint64(ring.plain_modulus)
    replies = []
    for layer in job.ciphertexts:
        *y, z = [decryptor.decrypt(ring.load(data, 1)) for data in layer]
        for y_c, v_c in zip(y, job.opened_sets, strict=True):
            z = (z + t - y_c * v_c % t) % t
        replies.append(z.astype(np.uint32))
    return np.stack(replies)


@dataclass(frozen=True)
class OpenSetsJob:
    """Step 0 at the bank for one block."""

    secret: SecretKey
    blinded: Sequence[bytes] = field(repr=False)


def open_sets(job: OpenSetsJob) -> Values:
    """Bank, step 0: v_c = s_c + n_c, (sets, N)."""
    decryptor, ring = Decryptor(job.secret), Ring.of(job.secret.ring)
    opened = [decryptor.decrypt(ring.load(data, 1)) for data in job.blinded]
    return np.stack(opened).astype(np.uint32)
