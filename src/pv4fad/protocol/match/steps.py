"""The local steps of match for one block of bins: worker jobs on plain data.

Those of the payment network first, then those of the bank; `__init__` has the figure.  What is
opened, and every mask, has a value in each slot: a bin's own is the sum over its strips
(`he.strips`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pv4fad.hashing.bin_polynomials import bin_polynomials, powers_of
from pv4fad.hashing.tags import TAG_MODULUS
from pv4fad.he.keys import Decryptor, Evaluator, PublicKey, SecretEncryptor, SecretKey
from pv4fad.he.polynomial import evaluate, exponents, n_powers, power_rows
from pv4fad.he.ring import Ciphertext, Ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.he.strips import Strips
from pv4fad.protocol.match.class_powers import Turns, of_classes, powers, turns
from pv4fad.protocol.match.comparison import N_LAST_REMAINDERS, Digits, LastRemainders, squares
from pv4fad.randomness import secret_residues

Residues = NDArray[np.uint64]


# The payment network.


@dataclass(frozen=True)
class PowersJob:
    """Step 1 for one block."""

    secret: SecretKey
    tags: Residues = field(repr=False)  # x of every bin
    degree: int


def encrypt_powers(job: PowersJob) -> bytes:
    """PaymentNetwork, step 1: E1[x^i], back to back."""
    strips = Strips(len(job.tags), job.secret.ring.degree)
    steps = exponents(job.degree, strips.n)
    of_x = dict(zip(steps, powers_of(job.tags, steps), strict=True))
    return _encrypted(job.secret, power_rows(of_x, job.degree, strips))


@dataclass(frozen=True)
class OpenJob:
    """What came back of one block."""

    secret: SecretKey
    n_bins: int
    ciphertexts: tuple[bytes, ...] = field(repr=False)
    n_primes: int = 1  # `Flood.n_sent`


def open_block(job: OpenJob) -> Residues:
    """PaymentNetwork, steps 3, 5, 7 and 9: one row for each ciphertext, (rows, bins); uniform."""
    decryptor, ring = Decryptor(job.secret), Ring.of(job.secret.ring)
    strips = Strips(job.n_bins, ring.degree)
    loaded = (ring.load(data, job.n_primes) for data in job.ciphertexts)
    opened = (decryptor.decrypt(ciphertext) for ciphertext in loaded)
    return np.stack([strips.total(slots, ring.plain_modulus) for slots in opened])


@dataclass(frozen=True)
class DigitsJob:
    """Step 3 or 5 for one block."""

    secret: SecretKey
    digits: Digits = field(repr=False)  # (digits, bins)


def encrypt_digits(job: DigitsJob) -> bytes:
    """PaymentNetwork, step 3: E2[digits of v]; step 5: E2[bits]; back to back."""
    strips = Strips(job.digits.shape[1], job.secret.ring.degree)
    return _encrypted(job.secret, strips.across(job.digits))


@dataclass(frozen=True)
class PlanesJob:
    """Step 7 for one block."""

    secret: SecretKey
    remainders: LastRemainders = field(repr=False)  # (h′ + g′) mod 11
    classes: Turns = field(repr=False)  # (L(x) + ρ) mod 32
    n_classes: int


@dataclass(frozen=True)
class EncryptedPlanes:
    """What step 7 yields, both back to back."""

    remainders: bytes = field(repr=False)
    classes: bytes = field(repr=False)


def encrypt_planes(job: PlanesJob) -> EncryptedPlanes:
    """PaymentNetwork, step 7: E3[remainders, one-hot], and E3[powers of classes]."""
    strips, t = Strips(len(job.classes), job.secret.ring.degree), job.secret.ring.plain_modulus
    remainders = strips.across(_one_hot(job.remainders, N_LAST_REMAINDERS))
    classes = (strips.alike(powers(job.classes, m, t)) for m in range(1, job.n_classes))
    return EncryptedPlanes(_encrypted(job.secret, remainders), _encrypted(job.secret, classes))


def _encrypted(secret: SecretKey, rows: Iterable[NDArray[Any]]) -> bytes:
    encryptor = SecretEncryptor(secret)
    # In one piece: hundreds of pieces of this size would leave holes in the memory of a party.
    return b"".join(encryptor.ring.dump(encryptor.encrypt(row)) for row in rows)


def _one_hot(values: NDArray[np.uint8], n: int) -> NDArray[np.bool_]:
    """(n, values): which of them each one is."""
    which: NDArray[np.bool_] = values == np.arange(n, dtype=np.uint8)[:, np.newaxis]
    return which


# The bank.


@dataclass(frozen=True)
class ValuesJob:
    """Step 2 for one block."""

    public: PublicKey
    flood: Flood
    degree: int  # β, of P; no bin has more accounts
    powers: bytes = field(repr=False)
    tags: Residues = field(repr=False)  # (largest load, bins)
    classes: NDArray[np.int16] = field(repr=False)  # (largest load, bins): −1 where no account is


@dataclass(frozen=True)
class ValuesBlock:
    """What step 2 yields: `values` goes to the payment network, the bank keeps the masks."""

    values: tuple[bytes, ...] = field(repr=False)  # E1[P(x) + r], E1[L(x) + ρ]
    r: Residues = field(repr=False)
    rho: Turns = field(repr=False)  # ρ mod 32


def mask_values(job: ValuesJob) -> ValuesBlock:
    """Bank, step 2: P and L of every bin at x, masked."""
    evaluator, sanitiser = Evaluator(job.public), Sanitiser(job.public, job.flood)
    ring = evaluator.ring
    strips = Strips(job.tags.shape[1], ring.degree)
    top = ring.parameters.n_data_primes
    of_x = ring.load_all(job.powers, n_powers(job.degree, strips.n), top)
    polynomials = bin_polynomials(*_padded(job), job.degree)
    values, masks = [], []
    for coefficients in (polynomials.tags, polynomials.values):
        value = evaluate(evaluator, of_x, job.degree, strips, coefficients)
        masks.append(_add_mask(evaluator, value, strips))
        values.append(sanitiser.sanitise(value))
    r, rho = masks
    return ValuesBlock(tuple(values), r, turns(rho))


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
    """Step 4 or 6 for one block."""

    public: PublicKey
    flood: Flood
    encrypted: bytes = field(repr=False)  # digits of the payment network
    own: Digits = field(repr=False)  # (digits, bins)


@dataclass(frozen=True)
class DistancesBlock:
    """What step 4 or 6 yields: `distances` goes to the payment network, the bank keeps the mask."""

    distances: bytes = field(repr=False)  # E2[Σ b² − 2·Σ a·b + g]: without Σ a², which it knows
    g: Residues = field(repr=False)


def mask_distances(job: DistancesJob) -> DistancesBlock:
    """Bank, steps 4 and 6: Σ (a − b)² of encrypted and own digits but for Σ a², masked."""
    evaluator, sanitiser = Evaluator(job.public), Sanitiser(job.public, job.flood)
    ring, t = evaluator.ring, np.uint64(evaluator.ring.plain_modulus)
    n_digits, n_bins = job.own.shape
    strips, top = Strips(n_bins, ring.degree), ring.parameters.n_data_primes
    encrypted = ring.load_all(job.encrypted, strips.n_ciphertexts(n_digits), top)
    factors = strips.across((t - np.uint64(2) * job.own) % t)
    distances = evaluator.add_products(None, zip(encrypted, factors, strict=True))
    (own_squares,) = strips.across(squares(job.own)[np.newaxis])
    evaluator.add_slots(distances, own_squares)
    g = _add_mask(evaluator, distances, strips)
    return DistancesBlock(sanitiser.sanitise(distances), g)


@dataclass(frozen=True)
class IndicatorsJob:
    """Step 8 for one block."""

    public: PublicKey
    own_secret: SecretKey
    flood: Flood
    planes: EncryptedPlanes
    remainders: LastRemainders = field(repr=False)  # g′ mod 11
    rho: Turns = field(repr=False)
    n_classes: int


@dataclass(frozen=True)
class BlindedBlock:
    """What step 8 yields: it all goes to the payment network but `shares`, which the bank forgets
    once they are encrypted."""

    shares: NDArray[np.uint32] = field(repr=False)  # (classes, bins), s_k
    blinded: tuple[bytes, ...] = field(repr=False)  # E3[J_m + s′_m], as many
    encrypted_shares: tuple[bytes, ...] = field(repr=False)  # E_j[s_k], class by class


def blind_indicators(job: IndicatorsJob) -> BlindedBlock:
    """Bank, step 8: hides which accounts matched behind shares that are fresh in every call."""
    evaluator, sanitiser = Evaluator(job.public), Sanitiser(job.public, job.flood)
    strips = Strips(len(job.rho), evaluator.ring.degree)
    own = SecretEncryptor(job.own_secret)
    masks, blinded = [], []
    for one in _power_sums(evaluator, job, strips):
        masks.append(_add_mask(evaluator, one, strips))
        blinded.append(sanitiser.sanitise(one))
    shares = of_classes(np.stack(masks), evaluator.ring.plain_modulus)
    parts = (
        share[start : start + own.ring.degree]
        for share in shares
        for start in range(0, strips.n_bins, own.ring.degree)
    )
    encrypted = tuple(own.ring.dump(own.encrypt(part)) for part in parts)
    return BlindedBlock(shares.astype(np.uint32), tuple(blinded), encrypted)


def _equal(evaluator: Evaluator, job: IndicatorsJob, strips: Strips) -> Ciphertext:
    """E3[I], shared out over the strips: of the encrypted remainders the one that is its own."""
    ring = evaluator.ring
    n, top = strips.n_ciphertexts(N_LAST_REMAINDERS), ring.parameters.n_data_primes
    encrypted = ring.load_all(job.planes.remainders, n, top)
    own = strips.across(_one_hot(job.remainders, N_LAST_REMAINDERS))
    return evaluator.add_products(None, zip(encrypted, own, strict=True))


def _power_sums(evaluator: Evaluator, job: IndicatorsJob, strips: Strips) -> Iterable[Ciphertext]:
    """E3[J_m] for each m: I times the power of the class, turned back by ρ."""
    ring, top = evaluator.ring, evaluator.ring.parameters.n_data_primes
    equal = _equal(evaluator, job, strips)
    yield evaluator.switch_to(equal, top - 1)
    encrypted = ring.load_all(job.planes.classes, job.n_classes - 1, top)
    for m, power in enumerate(encrypted, 1):
        back = strips.alike(powers(job.rho, -m, ring.plain_modulus))
        yield evaluator.multiply(equal, evaluator.times_slots(power, back))


def _add_mask(evaluator: Evaluator, into: Ciphertext, strips: Strips) -> Residues:
    """A fresh uniform mask in every slot; what they add up to in each bin."""
    t = evaluator.ring.plain_modulus
    mask = secret_residues(t, strips.n_slots)
    evaluator.add_slots(into, mask)
    return strips.total(mask, t)
