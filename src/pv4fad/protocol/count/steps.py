"""The local steps of count: worker jobs on plain data, and plain arithmetic modulo t."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.keys import Decryptor, Encryptor, Evaluator, PublicKey, SecretKey
from pv4fad.he.ring import Ciphertext, Ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.randomness import secret_residues

Residues = NDArray[np.uint64]


@dataclass(frozen=True)
class SparseSum:
    """One sum of one tree: d on its bins, and the atoms of its set."""

    bins: NDArray[np.int64] = field(repr=False)
    weights: NDArray[np.int64] = field(repr=False)
    atoms: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True)
class ProductsJob:
    """Step 1 for some ciphertexts of one lane."""

    public: PublicKey  # the bank's
    flood: Flood
    blocks: tuple[int, ...]  # share blocks that the lane touches
    encrypted_shares: tuple[tuple[bytes, ...], ...] = field(repr=False)  # [block][atom]
    slots: NDArray[np.bool_] = field(repr=False)  # (trees of the lane, N)
    sums: tuple[tuple[SparseSum, ...], ...] = field(repr=False)  # [ciphertext][tree of the lane]


@dataclass(frozen=True)
class MaskedBatch:
    """What step 1 yields: the payment network keeps `mask_totals`, the bank gets the rest."""

    ciphertexts: tuple[bytes, ...] = field(repr=False)
    mask_totals: NDArray[np.uint64] = field(repr=False)  # (ciphertexts, trees): Σ ρ


def masked_products(job: ProductsJob) -> MaskedBatch:
    """PaymentNetwork, step 1: what the bank needs for its share, and nothing that it could read."""
    evaluator, encryptor = Evaluator(job.public), Encryptor(job.public)
    sanitiser = Sanitiser(job.public, job.flood)
    ring = evaluator.ring
    of_set = _SetShares(evaluator, job.encrypted_shares, job.flood.n_primes)
    ciphertexts, totals = [], []
    for packed in job.sums:
        terms = chain.from_iterable(_terms(summand, job.blocks, of_set) for summand in packed)
        total = evaluator.add_products(None, terms)
        if total is None:  # no account counts here; sanitised, it looks like any other sum
            total = encryptor.zero(job.flood.n_primes)
        rho = secret_residues(ring.plain_modulus, ring.degree)
        evaluator.add_slots(total, rho)
        ciphertexts.append(sanitiser.sanitise(total))
        totals.append(slot_totals(job.slots, rho, ring.plain_modulus))
    return MaskedBatch(tuple(ciphertexts), np.stack(totals))


class _SetShares:
    """E_j[s_c] = Σ_{k in c} E_j[s_k], made once for each set and block that is in use."""

    def __init__(
        self, evaluator: Evaluator, shares: tuple[tuple[bytes, ...], ...], n_primes: int
    ) -> None:
        self.ring = evaluator.ring
        self._n_primes = n_primes
        self._evaluator = evaluator
        self._shares = shares
        self._made: dict[tuple[tuple[int, ...], int], Ciphertext] = {}

    def of(self, atoms: tuple[int, ...], block: int) -> Ciphertext:
        if (atoms, block) not in self._made:
            top = self.ring.parameters.n_data_primes
            members = [self.ring.load(self._shares[block][k], top) for k in atoms]
            total = self._evaluator.total(members)
            self._made[atoms, block] = self._evaluator.switch_to(total, self._n_primes)
        return self._made[atoms, block]


def _terms(
    summand: SparseSum, blocks: tuple[int, ...], of_set: _SetShares
) -> Iterator[tuple[Ciphertext, NDArray[np.uint64]]]:
    """E_j[s_c] and d, for the blocks where d is not zero."""
    degree, t = of_set.ring.degree, of_set.ring.plain_modulus
    residues = (summand.weights % t).astype(np.uint64)
    for position, block in enumerate(blocks):
        inside = summand.bins // degree == block
        d = np.zeros(degree, np.uint64)
        d[summand.bins[inside] % degree] = residues[inside]
        if d.any():
            yield of_set.of(summand.atoms, position), d


def slot_totals(
    slots: NDArray[np.bool_], values: NDArray[np.uint64], modulus: int
) -> NDArray[np.uint64]:
    """The sum of the values in the slots of each tree, modulo t."""
    totals: NDArray[np.uint64] = slots.astype(np.uint64) @ values
    return totals % np.uint64(modulus)


def own_share(summand: SparseSum, opened: NDArray[np.uint32], mask_total: int, modulus: int) -> int:
    """PaymentNetwork, step 1: p = <d, u_c> + Σ ρ for one sum in one table, modulo t."""
    atoms = np.array(summand.atoms)[:, np.newaxis]
    u_c = opened[atoms, summand.bins].sum(axis=0, dtype=np.int64) % modulus
    return int((summand.weights * u_c).sum() + mask_total) % modulus


@dataclass(frozen=True)
class AddUpJob:
    """Step 2 for some ciphertexts of one lane."""

    secret: SecretKey
    slots: NDArray[np.bool_] = field(repr=False)
    ciphertexts: tuple[bytes, ...] = field(repr=False)


def add_up(job: AddUpJob) -> NDArray[np.uint64]:
    """Bank, step 2: its share q of each sum, (ciphertexts, trees of the lane)."""
    decryptor, ring = Decryptor(job.secret), Ring.of(job.secret.ring)
    opened = (decryptor.decrypt(ring.load(data, 1)) for data in job.ciphertexts)
    return np.stack([slot_totals(job.slots, values, ring.plain_modulus) for values in opened])


def noisy_share(noise: NDArray[np.int64], own: Residues, mask: Residues, modulus: int) -> Residues:
    """Bank: noise − q + mask.  Uniform with a mask; with one bank only, q alone makes it so."""
    return ((noise - own.astype(np.int64) + mask.astype(np.int64)) % modulus).astype(np.uint64)
