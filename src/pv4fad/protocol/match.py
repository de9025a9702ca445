"""Match: which accounts of the payment network are at this bank, with which atoms (protocol.md §3).

    PaymentNetwork  places its accounts in a cuckoo table, one per bin; a bin's tag is a codeword of
                    m bits, w of them 1; an empty bin is all zero
      1.  sends E_S[bit i of every bin], i < m                                      → Bank
    Bank            enters each of its accounts in its three bins; layer l has one account per bin
      2.  per layer:  a = Σ_i E_S[bit i]·(bit i of the layer's codewords)   agreeing ones, 0..w
                      e = f(a),  f of degree w with f(w) = 1, f(0..w−1) = 0
                      I_k += e·[the layer's account has atom k]             for every atom k
      3.  s_k ← Z_t per bin;  sends sanitised E_S[I_k + s_k], and E_j[s_k]          → PaymentNetwork
    PaymentNetwork
      4.  decrypts u_k = I_k + s_k

The join is shared, I_k = u_k − s_k, and nobody knows it: the bank sees ciphertexts only, u_k is
uniform, and so is s_k.  All sizes follow from the table's layout and the number of atoms.

Every function here is a worker's job: it takes and returns plain data, for one block of bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.circuits import FINAL_PRIMES, POLYNOMIAL_PRIMES, equality_pairs, equality_roots
from pv4fad.he.keys import (
    Decryptor,
    Encryptor,
    Evaluator,
    PublicKey,
    SecretEncryptor,
    SecretKey,
)
from pv4fad.he.ring import Ciphertext, Ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.randomness import secret_residues


@dataclass(frozen=True)
class PlanesJob:
    """Step 1 for one block."""

    secret: SecretKey
    words: NDArray[np.uint64] = field(repr=False)  # the codeword of each bin as bits; 0 if empty
    code_length: int


def encrypt_planes(job: PlanesJob) -> tuple[bytes, ...]:
    """PaymentNetwork, step 1: one ciphertext for each bit of the codewords."""
    encryptor = SecretEncryptor(job.secret)
    return tuple(
        encryptor.ring.dump(encryptor.encrypt(bit_plane(job.words, bit)))
        for bit in range(job.code_length)
    )


@dataclass(frozen=True)
class LayersJob:
    """Step 2 for some layers of one block."""

    public: PublicKey
    planes: tuple[bytes, ...] = field(repr=False)
    words: NDArray[np.uint64] = field(repr=False)  # (layers, bins): codewords, 0 where no account
    atoms: NDArray[np.int16] = field(repr=False)  # (layers, families, bins): atoms, −1 if none
    n_atoms: int
    code_weight: int


def sum_layers(job: LayersJob) -> tuple[bytes | None, ...]:
    """Bank, step 2: I_k over these layers for each atom k; None where no account has the atom.

    Stays at the bank: these ciphertexts are not sanitised.
    """
    evaluator = Evaluator(job.public)
    ring = evaluator.ring
    top = ring.parameters.n_data_primes
    planes = [ring.load(plane, top) for plane in job.planes]
    indicators: list[Ciphertext | None] = [None] * job.n_atoms
    scale = np.uint64(_equality_scale(job.code_weight, ring.plain_modulus))
    for words, atoms in zip(job.words, job.atoms, strict=True):
        equal = _equality(evaluator, planes, words, job.code_weight)
        if equal is None:  # no account in this layer of this block
            continue
        for k in range(job.n_atoms):
            mask = (atoms == k).any(axis=0) * scale
            indicators[k] = evaluator.add_products(indicators[k], [(equal, mask)])
    return tuple(None if i is None else ring.dump(i) for i in indicators)


def _equality(
    evaluator: Evaluator, planes: list[Ciphertext], words: NDArray[np.uint64], weight: int
) -> Ciphertext | None:
    """E[c·f(agreeing ones)] for one layer; the constant c is taken off with the atom masks.

    With x = 2·agreeing − (w−1) the wrong answers are ±1, ±3, …, so f is a product of x² − root; the
    quadratics in x² of two paired roots share x⁴.  Empty bins and layers agree in 0 ones: a root.
    """
    agreeing = evaluator.add_products(
        None, ((plane, bit_plane(words, bit) << np.uint64(1)) for bit, plane in enumerate(planes))
    )
    if agreeing is None:
        return None
    evaluator.add_constant(agreeing, -(weight - 1))
    square = evaluator.square(evaluator.switch_to(agreeing, POLYNOMIAL_PRIMES))
    fourth = evaluator.square(square)
    square = evaluator.switch_to(square, evaluator.ring.level_of(fourth))
    factors = []
    for a, b in equality_pairs(weight):
        factor = evaluator.times_constant(square, -(a + b))
        evaluator.add(factor, fourth)
        evaluator.add_constant(factor, a * b)
        factors.append(factor)
    while len(factors) > 1:
        pairs = zip(factors[::2], factors[1::2], strict=True)
        factors = [evaluator.multiply(left, right) for left, right in pairs]
    return evaluator.switch_to(factors[0], FINAL_PRIMES)


def _equality_scale(weight: int, modulus: int) -> int:
    """1 / ∏ ((w+1)² − root): brings the polynomial's value at w agreeing ones to 1."""
    value = 1
    for root in equality_roots(weight):
        value = value * ((weight + 1) ** 2 - root) % modulus
    return pow(value, -1, modulus)


@dataclass(frozen=True)
class BlindJob:
    """Step 3 for one block."""

    public: PublicKey
    own_secret: SecretKey
    flood: Flood
    partial_sums: tuple[tuple[bytes | None, ...], ...] = field(repr=False)  # [part][atom]


@dataclass(frozen=True)
class BlindedBlock:
    """What step 3 yields: the bank keeps `shares`, the rest goes to the payment network."""

    shares: NDArray[np.uint32] = field(repr=False)  # (atoms, bins), s_k
    blinded: tuple[bytes, ...] = field(repr=False)  # E_S[I_k + s_k], one per atom
    encrypted_shares: tuple[bytes, ...] = field(repr=False)  # E_j[s_k], atom by atom


def blind_indicators(job: BlindJob) -> BlindedBlock:
    """Bank, step 3: hides which accounts matched behind shares that are fresh in every call."""
    evaluator, encryptor = Evaluator(job.public), Encryptor(job.public)
    sanitiser = Sanitiser(job.public, job.flood)
    ring = evaluator.ring
    n_atoms = len(job.partial_sums[0])
    own = SecretEncryptor(job.own_secret)
    shares = secret_residues(ring.plain_modulus, n_atoms * ring.degree)
    shares = shares.reshape(n_atoms, ring.degree)
    blinded, encrypted = [], []
    for k in range(n_atoms):
        # Starting from an encryption of zero, an atom without accounts looks like any other.
        indicator = encryptor.zero(FINAL_PRIMES)
        for part in job.partial_sums:
            partial = part[k]
            if partial is not None:
                evaluator.add(indicator, ring.load(partial, FINAL_PRIMES))
        evaluator.add_slots(indicator, shares[k])
        blinded.append(sanitiser.sanitise(indicator))
        for half in shares[k].reshape(-1, own.ring.degree):
            encrypted.append(own.ring.dump(own.encrypt(half)))
    return BlindedBlock(shares.astype(np.uint32), tuple(blinded), tuple(encrypted))


@dataclass(frozen=True)
class OpenJob:
    """Step 4 for one block."""

    secret: SecretKey
    blinded: tuple[bytes, ...] = field(repr=False)


def open_indicators(job: OpenJob) -> NDArray[np.uint32]:
    """PaymentNetwork, step 4: u_k for each atom, (atoms, bins)."""
    decryptor = Decryptor(job.secret)
    ring = Ring.of(job.secret.ring)
    opened = [decryptor.decrypt(ring.load(one, 1)) for one in job.blinded]
    return np.stack(opened).astype(np.uint32)


def bit_plane(words: NDArray[np.uint64], bit: int) -> NDArray[np.uint64]:
    """Bit `bit` of each codeword."""
    return (words >> np.uint64(bit)) & np.uint64(1)
