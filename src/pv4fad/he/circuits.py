"""The static bounds of each circuit the protocol runs, step by step.

match    Σ planes·masks → equality polynomial → Σ layers·atoms          match ring, 6 → 2 primes
compare  Σ digits·masks → tree of products                              match ring, 6 → 2 primes
linear   Σ blocks·integers: counts, released scoring, opened shares     share ring, 2 primes
sealed   (Σ leaves·masks)·slots + Σ sets·slots: sealed scoring          share ring, 3 primes
"""

from __future__ import annotations

from math import ceil, log2, sqrt

from pv4fad.errors import ParameterError
from pv4fad.he.equality import POLYNOMIAL_PRIMES, WEIGHT
from pv4fad.he.noise import ERROR_VARIANCE, TAU, UNIFORM_VARIANCE, CircuitBound, NoiseModel
from pv4fad.he.ring import Ring

FINAL_PRIMES = 2  # where match, compare and linear circuits are sanitised
LAYERS_PER_POLYNOMIAL = 2  # of different blocks
FEW_ACCOUNTS = 4  # a layer with no more is summed account by account


def match_bound(ring: Ring, length: int, weight: int, n_layers: int) -> CircuitBound:
    """Equality of constant-weight codewords, summed over a bin's layers."""
    if weight != WEIGHT:
        raise ParameterError(f"code weight {weight}: the equality polynomial is for {WEIGHT}")
    model = NoiseModel(ring)
    top = ring.parameters.n_data_primes
    steps: dict[str, float] = {"planes": model.fresh}
    # Each of the layers that share a polynomial has one mask for every plane, or, with a few
    # accounts only, one mask for each of them over the sum of `weight` planes.
    terms = LAYERS_PER_POLYNOMIAL * max(length, weight * FEW_ACCOUNTS)
    selected = sqrt(terms) * model.fresh * model.plain
    steps["agreeing ones"] = selected
    if top > POLYNOMIAL_PRIMES:
        selected = model.switched(selected, top)
        top = POLYNOMIAL_PRIMES
    z = model.product(selected, selected, top)
    steps["square"] = z
    second = model.product(z, z, top - 1)
    steps["fourth power"] = second
    fourth = model.product(second, second, top - 2)
    steps["eighth power"] = fourth
    z = model.switched(z, top - 1)
    left = model.switched(model.t / 2 * z, top - 2)
    right = model.switched(model.t / 2 * (second + z), top - 2)
    steps["factors"] = fourth + right
    level = top - 3
    before = (fourth + left) * (fourth + right) + model.t / 2 * left + model.relinearisation(level)
    steps["equality"] = model.switched(before, level)
    if level - 1 != FINAL_PRIMES:
        raise ParameterError("prime_bits: the equality polynomial must end at two primes")
    excess = before / ring.primes[level - 1]  # what is left besides the rounding
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
