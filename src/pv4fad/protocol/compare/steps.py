"""The local steps of compare: worker jobs on plain data, and plain arithmetic modulo t."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.keys import Encryptor, Evaluator, PublicKey, SecretEncryptor, SecretKey
from pv4fad.he.ring import Ciphertext
from pv4fad.he.sanitise import Flood, Sanitiser

Residues = NDArray[np.uint64]

DIGIT_BASE = 8  # few ciphertexts, and the tree of products still fits the match ring


# Sums are (n_groups, n_sets), leaves (n_groups, n_sets + 1): one for each set, one for the rest,
# whose noisy sum is N_path minus those of the sets.


def blinded_leaves(sums: Residues, r: Residues, modulus: int) -> Residues:
    """Aggregator: V_c + r for the leaf of every set, −Σ_c V_c + r for the rest."""
    v = sums.astype(np.int64)
    leaves = np.concatenate([v, -v.sum(axis=1, keepdims=True)], axis=1)
    return ((leaves + r.reshape(leaves.shape).astype(np.int64)) % modulus).astype(np.uint64)


def masked_leaves(
    blinded: Residues, own: Residues, n_path: NDArray[np.int64], modulus: int
) -> Residues:
    """PaymentNetwork: w = D + r, by adding p to a set's leaf and N_path − Σ_c p to the rest."""
    p = own.astype(np.int64)
    rest = n_path[:, np.newaxis] - p.sum(axis=1, keepdims=True)
    known = np.concatenate([p, rest], axis=1)
    masked: NDArray[np.int64] = (blinded.reshape(known.shape).astype(np.int64) + known) % modulus
    return masked.astype(np.uint64)


def digit_bases(modulus: int) -> tuple[int, ...]:
    """How many values each digit of a residue has, the highest digit first."""
    n_low = 0
    while DIGIT_BASE ** (n_low + 1) < modulus:
        n_low += 1
    return (-(-modulus // DIGIT_BASE**n_low), *([DIGIT_BASE] * n_low))


def digits(values: NDArray[np.uint64], modulus: int) -> list[NDArray[np.uint64]]:
    """The digits of residues, the highest first."""
    n_low = len(digit_bases(modulus)) - 1
    shifts = [DIGIT_BASE**place for place in range(n_low, -1, -1)]
    high = [values // np.uint64(shifts[0])]
    return high + [values // np.uint64(s) % np.uint64(DIGIT_BASE) for s in shifts[1:]]


@dataclass(frozen=True)
class DigitsJob:
    """Step 2 for one digit of one block of leaves."""

    secret: SecretKey
    digit: NDArray[np.uint64] = field(repr=False)
    base: int


def encrypt_digit(job: DigitsJob) -> tuple[bytes, ...]:
    """PaymentNetwork, step 2: the digit one-hot, one ciphertext for each value it can take."""
    encryptor = SecretEncryptor(job.secret)
    one_hot = (encryptor.encrypt(job.digit == np.uint64(v)) for v in range(job.base))
    return tuple(encryptor.ring.dump(value) for value in one_hot)


@dataclass(frozen=True)
class LessJob:
    """Step 3, [w < threshold] for one block of leaves."""

    public: PublicKey
    one_hot: tuple[tuple[bytes, ...], ...] = field(repr=False)  # [digit][value]
    threshold: NDArray[np.uint64] = field(repr=False)


def less_than(job: LessJob) -> bytes:
    """Aggregator, step 3: E_S[w < threshold]; not sanitised, stays at the aggregator."""
    evaluator = Evaluator(job.public)
    ring, zero = evaluator.ring, Encryptor(job.public).zero
    top = ring.parameters.n_data_primes
    comparisons: list[tuple[Ciphertext, Ciphertext]] = []
    for one_hot, digit in zip(job.one_hot, digits(job.threshold, ring.plain_modulus), strict=True):
        values = [ring.load(data, top) for data in one_hot]
        smaller = ((c, np.uint64(v) < digit) for v, c in enumerate(values))
        equal = ((c, np.uint64(v) == digit) for v, c in enumerate(values))
        # A threshold that no value is below would leave nothing to add: zero stands in for it.
        comparisons.append(
            (
                evaluator.add_products(None, smaller) or zero(top),
                evaluator.add_products(None, equal) or zero(top),
            )
        )
    # (lt, eq) of high digits joined with those of low digits: lt + eq·lt', eq·eq'.
    while len(comparisons) > 1:
        joined = []
        for i in range(0, len(comparisons) - 1, 2):
            (lt_high, eq_high), (lt_low, eq_low) = comparisons[i : i + 2]
            lt = evaluator.multiply(eq_high, lt_low)
            evaluator.add(lt, evaluator.switch_to(lt_high, ring.level_of(lt)))
            joined.append((lt, evaluator.multiply(eq_high, eq_low)))
        if len(comparisons) % 2:
            level = ring.level_of(joined[0][0])
            lt, eq = comparisons[-1]
            joined.append((evaluator.switch_to(lt, level), evaluator.switch_to(eq, level)))
        comparisons = joined
    return ring.dump(comparisons[0][0])


@dataclass(frozen=True)
class ShareLabelsJob:
    """Step 3, the end of it, for one block of leaves."""

    public: PublicKey
    flood: Flood
    n_primes: int  # the level of the comparisons
    below_high: bytes = field(repr=False)
    below_low: bytes = field(repr=False)
    constant: NDArray[np.uint64] = field(repr=False)  # [lo > hi] − b, modulo t


def share_labels(job: ShareLabelsJob) -> bytes:
    """Aggregator, step 3: sanitised E_S[label − b]."""
    evaluator = Evaluator(job.public)
    label = evaluator.ring.load(job.below_high, job.n_primes)
    evaluator.sub(label, evaluator.ring.load(job.below_low, job.n_primes))
    label = evaluator.switch_to(label, job.flood.n_primes)
    evaluator.add_slots(label, job.constant)
    return Sanitiser(job.public, job.flood).sanitise(label)


def thresholds(
    r: NDArray[np.uint64], modulus: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """lo and hi: D is in 1..(t−1)/2 just when w = D + r lies in the cyclic range [lo, hi)."""
    t = np.uint64(modulus)
    return (r + np.uint64(1)) % t, (r + np.uint64((modulus + 1) // 2)) % t


def comparison_depth(modulus: int) -> int:
    """Levels of products that joining all digits takes."""
    return (len(digit_bases(modulus)) - 1).bit_length()
