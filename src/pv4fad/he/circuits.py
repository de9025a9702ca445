"""The static bounds of each circuit the protocol runs, step by step.

match    Σ planes·masks → equality polynomial → Σ layers·atoms          match ring, 6 → 2 primes
compare  Σ digits·masks → tree of products                              match ring, 6 → 2 primes
linear   Σ blocks·integers: counts, released scoring, opened shares     share ring, 2 primes
sealed   (Σ leaves·masks)·slots + Σ sets·slots: sealed scoring          share ring, 3 primes
"""

from __future__ import annotations

from math import ceil, log2, sqrt

from pv4fad.errors import ParameterError
from pv4fad.he.noise import ERROR_VARIANCE, TAU, UNIFORM_VARIANCE, CircuitBound, NoiseModel
from pv4fad.he.ring import Ring

POLYNOMIAL_PRIMES = 6  # where the equality polynomial starts
FINAL_PRIMES = 2  # where match, compare and linear circuits are sanitised


def equality_roots(weight: int) -> list[int]:
    """Squares of 2·matches − (w−1) at the wrong answers 0..w−1: 1, 9, 25, …, each from two."""
    return [(2 * i + 1) ** 2 for i in range(weight // 2)]


def equality_pairs(weight: int) -> list[tuple[int, int]]:
    """The roots, paired large with small so that the factors' coefficients stay small."""
    roots = equality_roots(weight)
    return [(roots[i], roots[-1 - i]) for i in range(weight // 4)]


def match_bound(ring: Ring, length: int, weight: int, n_layers: int) -> CircuitBound:
    """Equality of constant-weight codewords (weight 8 or 16), summed over a bin's layers."""
    if weight not in (8, 16):
        raise ParameterError(f"code weight {weight}: the equality polynomial is for 8 or 16")
    model = NoiseModel(ring)
    top = ring.parameters.n_data_primes
    steps: dict[str, float] = {"planes": model.fresh}
    selected = sqrt(length) * model.fresh * model.plain
    steps["agreeing ones"] = selected
    if top > POLYNOMIAL_PRIMES:
        selected = model.switched(selected, top)
        top = POLYNOMIAL_PRIMES
    square = model.product(selected, selected, top)
    steps["square"] = square
    fourth = model.product(square, square, top - 1)
    steps["fourth power"] = fourth
    dropped = model.switched(square, top - 1)
    largest = max(a + b for a, b in equality_pairs(weight))
    phase = fourth + largest * dropped + max(a * b for a, b in equality_pairs(weight))
    steps["factors"] = phase
    level = top - 2
    for _ in range(int(log2(weight // 4))):
        before = phase * phase + model.relinearisation(level)
        excess = before / ring.primes[level - 1]  # what is left besides the rounding
        phase = model.switched(before, level)
        level -= 1
    steps["equality"] = phase
    if level < FINAL_PRIMES:
        raise ParameterError("prime_bits: too few primes for the equality polynomial")
    while level > FINAL_PRIMES:
        excess = phase / ring.primes[level - 1]
        level -= 1
    coefficient = model.masked_rounding_coefficient(n_layers) + n_layers * excess * model.plain
    steps["indicators"] = coefficient
    return model.bound("match", steps, coefficient, FINAL_PRIMES)


def compare_bound(ring: Ring, n_digits: int, largest_base: int) -> CircuitBound:
    """[w < r] from one-hot digits: masks, then ⌈log2 digits⌉ levels of products."""
    model = NoiseModel(ring)
    level = ring.parameters.n_data_primes
    phase = sqrt(largest_base) * model.fresh * model.plain
    steps = {"digits": model.fresh, "selected": phase}
    for depth in range(ceil(log2(n_digits))):
        phase = model.product(phase, phase, level) + model.switched(phase, level)
        level -= 1
        steps[f"products {depth + 1}"] = phase
    if level < FINAL_PRIMES:
        raise ParameterError("prime_bits: too few primes for the comparison")
    while level > FINAL_PRIMES:
        phase = model.switched(phase, level)
        level -= 1
    steps["labels"] = 2 * phase
    return model.bound("compare", steps, 2 * phase, FINAL_PRIMES)


def linear_bound(ring: Ring, n_terms: int) -> CircuitBound:
    """Σ E[s]·integers over n_terms ciphertexts that were switched down to two primes."""
    model = NoiseModel(ring)
    level = ring.parameters.n_data_primes
    excess = model.fresh
    while level > FINAL_PRIMES:
        excess /= ring.primes[level - 1]
        level -= 1
    coefficient = model.masked_rounding_coefficient(n_terms) + n_terms * excess * model.plain
    steps = {"shares": model.fresh, "switched": model.switched(model.fresh, 3), "sum": coefficient}
    return model.bound("linear", steps, coefficient, FINAL_PRIMES)


def sealed_bound(ring: Ring, n_leaves: int, n_sets: int) -> CircuitBound:
    """Σ_c ((u_c+n_c)·Σ_leaves E[b]·mask − (P_c−m_c)·E[s_c]): two plaintext products in a row."""
    model = NoiseModel(ring)
    fresh = sqrt(ERROR_VARIANCE + UNIFORM_VARIANCE) * model.t
    # Every leaf enters at most twice (its own set and the rest), each time against a 0/1 mask.
    votes = TAU * fresh * sqrt(2 * n_leaves * model.n) * model.t / 2
    products = votes * model.plain * sqrt(n_sets)
    shares = TAU * fresh * sqrt(n_sets * model.n) * model.t / 2
    steps = {"labels": model.fresh, "votes": votes, "votes x share": products + votes + shares}
    return model.bound("sealed", steps, steps["votes x share"], ring.parameters.n_data_primes)
