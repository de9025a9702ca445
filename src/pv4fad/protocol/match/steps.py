"""The local steps of match for one block of bins: worker jobs on plain data.

Those of the payment network first, then those of the bank; `__init__` has the figure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.hashing.bin_polynomials import bin_polynomials, powers_of
from pv4fad.hashing.tags import TAG_MODULUS
from pv4fad.he.circuits import EQUALITY_PRIMES, PLANE_PRIMES
from pv4fad.he.keys import (
    Decryptor,
    Encryptor,
    Evaluator,
    PublicKey,
    SecretEncryptor,
    SecretKey,
)
from pv4fad.he.polynomial import evaluate, exponents
from pv4fad.he.ring import Ciphertext, Ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.protocol.match.comparison import (
    N_DIGITS,
    WORD_BITS,
    Remainders,
    codeword_bits,
    digits,
    remainders,
)
from pv4fad.randomness import secret_residues

Residues = NDArray[np.uint64]
Classes = NDArray[np.uint8]

_AT_MATCH = 384  # (z − 1)(z − 9) where all ones agree


# The payment network.


@dataclass(frozen=True)
class PowersJob:
    """Round 1 for one block."""

    secret: SecretKey
    tags: Residues = field(repr=False)  # x of every bin
    degree: int


def encrypt_powers(job: PowersJob) -> bytes:
    """PaymentNetwork, step 1: E1[x^i], back to back."""
    return _encrypted(job.secret, powers_of(job.tags, exponents(job.degree)))


@dataclass(frozen=True)
class OpenJob:
    """What came back of one block."""

    secret: SecretKey
    ciphertexts: tuple[bytes, ...] = field(repr=False)
    n_primes: int = 1  # `Flood.n_sent`


def open_block(job: OpenJob) -> Residues:
    """PaymentNetwork, steps 3, 5 and 7: one row for each ciphertext; uniform."""
    decryptor, ring = Decryptor(job.secret), Ring.of(job.secret.ring)
    loaded = (ring.load(data, job.n_primes) for data in job.ciphertexts)
    return np.stack([decryptor.decrypt(ciphertext) for ciphertext in loaded])


@dataclass(frozen=True)
class ValueDigitsJob:
    """Round 2 for one block."""

    secret: SecretKey
    values: Residues = field(repr=False)  # v


def encrypt_value_digits(job: ValueDigitsJob) -> bytes:
    """PaymentNetwork, step 3: E2[digits of v] and E2[the sum of their squares], back to back."""
    of_values = digits(job.values)
    squares = (of_values * of_values).sum(axis=0)
    return _encrypted(job.secret, [*of_values, squares])


@dataclass(frozen=True)
class WordsJob:
    """Round 3 for one block."""

    secret: SecretKey
    public: PublicKey
    distances: Remainders = field(repr=False)  # (h + g) mod 198
    classes: Classes = field(repr=False)  # (L(x) + ρ) mod K
    n_classes: int


@dataclass(frozen=True)
class EncryptedWords:
    """What step 5 yields, both back to back."""

    bits: bytes = field(repr=False)
    planes: bytes = field(repr=False)


def encrypt_words(job: WordsJob) -> EncryptedWords:
    """PaymentNetwork, step 5: E3[bits of the codeword], and E3[classes, one-hot] at 3 primes."""
    encryptor, evaluator = Encryptor(job.public), Evaluator(job.public)
    planes = []
    for k in range(job.n_classes):
        plane = encryptor.zero(PLANE_PRIMES)
        evaluator.add_slots(plane, job.classes == k)
        planes.append(encryptor.ring.dump(plane))
    bits = _encrypted(job.secret, codeword_bits(job.distances))
    return EncryptedWords(bits, b"".join(planes))


def _encrypted(secret: SecretKey, rows: Iterable[NDArray[Any]]) -> bytes:
    encryptor = SecretEncryptor(secret)
    # In one piece: hundreds of pieces of this size would leave holes in the memory of a party.
    return b"".join(encryptor.ring.dump(encryptor.encrypt(row)) for row in rows)


# The bank.


@dataclass(frozen=True)
class ValuesJob:
    """Round 1 for one block."""

    public: PublicKey
    flood: Flood
    degree: int  # β, of P; no bin has more accounts
    powers: bytes = field(repr=False)
    tags: Residues = field(repr=False)  # (largest load, bins)
    classes: NDArray[np.int16] = field(repr=False)  # (largest load, bins): −1 where no account is
    n_classes: int


@dataclass(frozen=True)
class ValuesBlock:
    """What step 2 yields: `values` goes to the payment network, the bank keeps the masks."""

    values: tuple[bytes, ...] = field(repr=False)  # E1[P(x) + r], E1[L(x) + ρ]
    r: Residues = field(repr=False)
    rho: Classes = field(repr=False)  # ρ mod K


def mask_values(job: ValuesJob) -> ValuesBlock:
    """Bank, step 2: P and L of every bin at x, masked."""
    evaluator, sanitiser = Evaluator(job.public), Sanitiser(job.public, job.flood)
    ring = evaluator.ring
    n_powers, top = len(exponents(job.degree)), ring.parameters.n_data_primes
    powers = ring.load_all(job.powers, n_powers, top)
    polynomials = bin_polynomials(*_padded(job), job.degree)
    masks = secret_residues(ring.plain_modulus, 2 * ring.degree).reshape(2, -1)
    values = []
    for coefficients, mask in zip((polynomials.tags, polynomials.values), masks, strict=True):
        value = evaluate(evaluator, powers, job.degree, coefficients)
        evaluator.add_slots(value, mask)
        values.append(sanitiser.sanitise(value))
    r, rho = masks
    return ValuesBlock(tuple(values), r, (rho % np.uint64(job.n_classes)).astype(np.uint8))


def _padded(job: ValuesJob) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Tags, values and loads of the bins, the fullest bin brought to β with random ones.

    Every coefficient up to x^β is then different from 0 somewhere, and none can be passed over:
    the time does not tell how full the bins are.
    """
    loads = (job.classes >= 0).sum(axis=0)
    fullest = loads.argmax()
    shape = job.degree, len(loads)
    tags, values = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    tags[: len(job.tags)], values[: len(job.tags)] = job.tags, job.classes
    n_more = job.degree - loads[fullest]
    for rows in (tags, values):
        rows[loads[fullest] :, fullest] = secret_residues(TAG_MODULUS, n_more)
    loads[fullest] = job.degree
    return tags, values, loads


@dataclass(frozen=True)
class DistancesJob:
    """Round 2 for one block."""

    public: PublicKey
    flood: Flood
    digits: bytes = field(repr=False)
    r: Residues = field(repr=False)


@dataclass(frozen=True)
class DistancesBlock:
    """What step 4 yields: `distances` goes to the payment network, the bank keeps the mask."""

    distances: bytes = field(repr=False)  # E2[h + g]
    g: Remainders = field(repr=False)  # g mod 198


def mask_distances(job: DistancesJob) -> DistancesBlock:
    """Bank, step 4: h = Σ (digit of v − digit of r)² = Σ v² − 2·Σ v·r + Σ r², masked."""
    evaluator, sanitiser = Evaluator(job.public), Sanitiser(job.public, job.flood)
    ring, t = evaluator.ring, np.uint64(evaluator.ring.plain_modulus)
    *of_values, squares = ring.load_all(job.digits, N_DIGITS + 1, ring.parameters.n_data_primes)
    of_r = digits(job.r)
    factors = (t - np.uint64(2) * of_r) % t
    distances = evaluator.add_products(squares, zip(of_values, factors, strict=True))
    g = secret_residues(ring.plain_modulus, ring.degree)
    evaluator.add_slots(distances, ((of_r * of_r).sum(axis=0) + g) % t)
    return DistancesBlock(sanitiser.sanitise(distances), remainders(g))


@dataclass(frozen=True)
class IndicatorsJob:
    """Round 3 for one block."""

    public: PublicKey
    own_secret: SecretKey
    flood: Flood
    words: EncryptedWords
    g: Remainders = field(repr=False)
    rho: Classes = field(repr=False)
    n_classes: int


@dataclass(frozen=True)
class BlindedBlock:
    """What step 6 yields: it all goes to the payment network but `shares`, which the bank forgets
    once they are encrypted."""

    shares: NDArray[np.uint32] = field(repr=False)  # (classes, bins), s_k
    blinded: tuple[bytes, ...] = field(repr=False)  # E3[I_k + s_k], one per class
    encrypted_shares: tuple[bytes, ...] = field(repr=False)  # E_j[s_k], class by class


def blind_indicators(job: IndicatorsJob) -> BlindedBlock:
    """Bank, step 6: hides which accounts matched behind shares that are fresh in every call."""
    evaluator, sanitiser = Evaluator(job.public), Sanitiser(job.public, job.flood)
    ring, own = evaluator.ring, SecretEncryptor(job.own_secret)
    shares = secret_residues(ring.plain_modulus, job.n_classes * ring.degree)
    shares = shares.reshape(job.n_classes, ring.degree)
    equal = _equal(evaluator, job)
    blinded, encrypted = [], []
    for share, selected in zip(shares, _selected_planes(evaluator, job), strict=True):
        indicator = evaluator.multiply(equal, selected)
        evaluator.add_slots(indicator, share)
        blinded.append(sanitiser.sanitise(indicator))
        for half in share.reshape(-1, own.ring.degree):
            encrypted.append(own.ring.dump(own.encrypt(half)))
    return BlindedBlock(shares.astype(np.uint32), tuple(blinded), tuple(encrypted))


def _equal(evaluator: Evaluator, job: IndicatorsJob) -> Ciphertext:
    """E3[384·I]: a agreeing ones give z = (2a − 3)², and (z − 1)(z − 9) is 0 for a < 4."""
    ring = evaluator.ring
    bits = ring.load_all(job.words.bits, WORD_BITS, ring.parameters.n_data_primes)
    own_bits = np.uint64(2) * codeword_bits(job.g).astype(np.uint64)
    twice = evaluator.add_products(None, zip(bits, own_bits, strict=True))
    twice = evaluator.switch_to(twice, EQUALITY_PRIMES)
    evaluator.add_constant(twice, -3)
    left = evaluator.square(twice)
    evaluator.add_constant(left, -1)
    right = evaluator.total([left])
    evaluator.add_constant(right, -8)
    return evaluator.multiply(left, right)


def _selected_planes(evaluator: Evaluator, job: IndicatorsJob) -> Iterable[Ciphertext]:
    """E3[[L(x) = k]/384] for each class k: where ρ ≡ j, plane k + j of those that came."""
    n, t = job.n_classes, evaluator.ring.plain_modulus
    planes = evaluator.ring.load_all(job.words.planes, n, PLANE_PRIMES)
    scale = np.uint64(pow(_AT_MATCH, -1, t))
    where = {j: job.rho == j for j in range(n)}
    masks = {j: evaluator.prepare(w * scale, PLANE_PRIMES) for j, w in where.items() if w.any()}
    for k in range(n):
        total = None
        for j, mask in masks.items():
            total = evaluator.add_prepared(total, planes[(k + j) % n], mask)
        yield total
