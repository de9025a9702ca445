"""The static bounds of each circuit the protocol runs, step by step.

values      Σ powers·coefficients, twice over: a bank's polynomials       tag ring, 4 primes
distances   Σ digits·digits, twice over: of values, then of remainders    distance ring, 2 primes
indicators  Σ remainders·masks times powers·powers                        match ring, 3 → 2 primes
compare     Σ digits·masks → tree of products                             compare ring, 5 → 2 primes
linear      Σ blocks·integers: counts, released scoring, opened shares    share ring, 2 or 3 primes
sealed      (Σ leaves·masks)·slots + Σ sets·slots: sealed scoring         share ring, 3 primes
live        Σ blocks·one-hot masks: live questions                        share ring, 3 → 2 primes
"""

from __future__ import annotations

from math import ceil, log2, sqrt

from pv4fad.errors import ParameterError
from pv4fad.he.noise import ERROR_VARIANCE, UNIFORM_VARIANCE, CircuitBound, NoiseModel
from pv4fad.he.polynomial import baby_steps, n_powers
from pv4fad.he.ring import Ring

FINAL_PRIMES = 2  # where indicators, compare and live are sanitised
VALUE_PRIMES = 2  # of the values that are sent
LIVE_POLYNOMIAL_BITS = 50  # no run ends live queries: a century of them, for a thousand banks
MOST_IN_RUN = 4  # sets that one product of live questions is about


def values_bound(ring: Ring, degree: int, n_strips: int = 1) -> CircuitBound:
    """A bank's polynomials, `polynomial.evaluate`; sanitised at the top, before any switch, and
    sent at two primes: one leaves too little room beside t of 47 bits and a rounding."""
    model, w = NoiseModel(ring), baby_steps(degree, n_strips)
    top = ring.parameters.n_data_primes
    # The coefficients are the bank's data.
    section = sqrt(w - 1) * model.fresh * model.data + model.data
    n_giants = max(1, n_powers(degree, n_strips) - (w - 1))
    total = n_giants * section * model.fresh + section + model.relinearisation(top)
    steps = {"powers": model.fresh, "section": section, "values": total}
    return model.bound("values", steps, total, top, VALUE_PRIMES)


def distances_bound(ring: Ring, n_digits: int) -> CircuitBound:
    """Σ digit·digit over at most so many ciphertexts; those of the bank are random."""
    model = NoiseModel(ring)
    total = sqrt(n_digits) * model.fresh * model.plain + model.plain
    steps = {"digits": model.fresh, "distances": total}
    return model.bound("distances", steps, total, ring.parameters.n_data_primes)


def indicators_bound(ring: Ring, n_remainders: int) -> CircuitBound:
    """One of the remainders picked, times a power of the class, turned back by a random one."""
    model, level = NoiseModel(ring), ring.parameters.n_data_primes
    if level <= FINAL_PRIMES:
        raise ParameterError("prime_bits: too few primes for a product")
    # Every slot takes one of them, by random masks.
    equal = sqrt(n_remainders) * model.fresh * model.plain
    power = model.fresh * model.plain
    steps = {"planes": model.fresh, "equal": equal, "powers": power}
    phase = equal * power + model.relinearisation(level)
    while level > FINAL_PRIMES:
        phase = phase / ring.primes[level - 1] + model.rounding_coefficient
        level -= 1
    steps["indicators"] = phase
    return model.bound("indicators", steps, phase, FINAL_PRIMES)


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


def linear_bound(ring: Ring, n_terms: int, n_primes: int, n_alike: int = 1) -> CircuitBound:
    """Σ E[s]·integers over n_terms ciphertexts at a level: two primes cost less, and at three,
    where nothing is rounded before, there is much more room.

    Of the terms up to n_alike at a time can have one ciphertext, or the same errors in theirs:
    their integers add up, to n_alike times the length, against n_terms/n_alike independent errors.
    """
    model, level = NoiseModel(ring), ring.parameters.n_data_primes
    if level == n_primes:
        # Any integers: of length at most √N·t/2, against independent errors.
        error = model.t * sqrt(ERROR_VARIANCE + UNIFORM_VARIANCE)
        total = model.tau * error * sqrt(n_alike * n_terms * model.n) * model.t / 2
        return model.bound("linear", {"shares": model.fresh, "sum": total}, total, n_primes)
    excess = model.fresh
    while level > n_primes:
        excess /= ring.primes[level - 1]
        level -= 1
    total = model.masked_rounding_coefficient(n_terms, n_alike) + n_terms * excess * model.data
    steps = {"shares": model.fresh, "switched": model.switched(model.fresh, 3), "sum": total}
    return model.bound("linear", steps, total, n_primes)


def sealed_bound(ring: Ring, n_leaves: int, n_sets: int) -> CircuitBound:
    """Σ_c ((u_c+n_c)·Σ_leaves E[b]·mask − (P_c−m_c)·E[s_c]): two plaintext products in a row."""
    model = NoiseModel(ring)
    fresh = sqrt(ERROR_VARIANCE + UNIFORM_VARIANCE) * model.t
    # Every leaf enters at most twice (its own set and the rest), each time against a 0/1 mask.
    votes = model.tau * fresh * sqrt(2 * n_leaves * model.n) * model.t / 2
    products = votes * model.plain * sqrt(n_sets)
    shares = model.tau * fresh * sqrt(n_sets * model.n) * model.t / 2
    steps = {"labels": model.fresh, "votes": votes, "votes x share": products + votes + shares}
    return model.bound("sealed", steps, steps["votes x share"], ring.parameters.n_data_primes)


def live_bound(ring: Ring, n_questions: int, n_atoms: int, n_sets: int) -> CircuitBound:
    """Σ over blocks and runs of sets of (Σ_j 2^j·Σ_k ± E[s_k])·masks of single slots.

    The products are made at the top, where nothing has been rounded, and divided by the third prime
    with all their noise; so the flood at two primes has to hide little more than a rounding.
    """
    model = NoiseModel(ring, LIVE_POLYNOMIAL_BITS)
    error = model.t * sqrt(ERROR_VARIANCE + UNIFORM_VARIANCE)
    # The mask of m slots has a length of at most m·√N·t/2, encoded or added up.  A slot with r
    # questions multiplies a share by less than 2^r, a question by at most (2^r − 1)/r.  So a share
    # of a block with m questions is multiplied by no more than m of these lengths, and over blocks
    # Σ m² ≤ questions².
    longest = min(MOST_IN_RUN, n_sets)
    n_terms = n_atoms * (n_questions * (2**longest - 1) / longest) ** 2
    products = model.tau * error * sqrt(n_terms * model.n) * model.t / 2
    switched = products
    for prime in ring.primes[FINAL_PRIMES:]:
        switched = switched / prime + model.rounding_coefficient
    steps = {"shares": model.fresh, "products": products, "switched": switched}
    return model.bound("live", steps, switched, FINAL_PRIMES)
