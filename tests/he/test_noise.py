"""The static bounds lie above every measured noise, by about as much as is known of each circuit.

A bound that is understated by more than a few bits falls out of its window, and so does one that
has become needlessly large.
"""

from fractions import Fraction
from math import log, log2, prod, sqrt

import numpy as np
import pytest
import seal
from tests.kit.match_block import N_BINS, keys_of, matched_block, random_block
from tests.kit.phase import centred, residues_of

from pv4fad.errors import ParameterError
from pv4fad.he.circuits import (
    FINAL_PRIMES,
    MOST_IN_RUN,
    compare_bound,
    distances_bound,
    indicators_bound,
    linear_bound,
    live_bound,
    sealed_bound,
    values_bound,
)
from pv4fad.he.keys import Decryptor, Evaluator, SecretEncryptor
from pv4fad.he.noise import ERROR_VARIANCE, UNIFORM_VARIANCE, CircuitBound, NoiseModel
from pv4fad.he.one_hot import MOST_SUMMED, OneHot, weight_bits
from pv4fad.he.polynomial import evaluate, n_powers
from pv4fad.he.ring import (
    DISTANCE_RING,
    PLAIN_MODULI,
    TAG_RING,
    Ring,
    RingParameters,
    compare_ring,
    match_ring,
    share_ring,
)
from pv4fad.he.sanitise import Sanitiser
from pv4fad.he.strips import Strips
from pv4fad.protocol.compare.steps import (
    DIGIT_BASE,
    DigitsJob,
    LessJob,
    comparison_depth,
    digit_bases,
    digits,
    encrypt_digit,
    less_than,
)
from pv4fad.protocol.live.plan import DISTANCE_BITS, most_questions
from pv4fad.protocol.match.comparison import N_DIGITS, N_LAST_REMAINDERS
from pv4fad.randomness import secret_residues
from pv4fad.schema import MOST_CLASSES

# By how many bits a bound exceeds the largest coefficient that is measured, within three.  What is
# bounded are products of canonical norms, for any data of a bank; measured are coefficients.
SLACK = {
    TAG_RING: 20,
    DISTANCE_RING: 11,
    match_ring(65537): 18,
    match_ring(163841): 18,
    match_ring(786433): 4,
    match_ring(2654209): 4,
}


def slack(bound: CircuitBound, phase_bits: float, modulus: int) -> float:
    """By how many bits the noise that the flood is made for exceeds a measured phase."""
    return bound.noise_bits + log2(modulus) - phase_bits


def noise_before_flooding(monkeypatch) -> dict[RingParameters, list[float]]:
    """log2 of the phase of every ciphertext that is sanitised from now on, by ring."""
    measured: dict[RingParameters, list[float]] = {}
    flooded = Sanitiser.flooded

    def measuring(self, ciphertext):
        ring = self.ring.parameters
        ciphertext = self._evaluator.switch_to(ciphertext, self.flood.n_primes)
        bits = Decryptor(keys_of(ring).secret).phase_bits(ciphertext)
        measured.setdefault(ring, []).append(bits)
        return flooded(self, ciphertext)

    monkeypatch.setattr(Sanitiser, "flooded", measuring)
    return measured


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
@pytest.mark.parametrize(
    ("degree", "n_classes", "n_strips"), [(26, 11, 1), (60, 32, 1), (40, 3, 8)]
)
def test_measured_noise_of_all_rounds_of_a_match_stays_below_its_bound(
    monkeypatch, modulus, degree, n_classes, n_strips
):
    measured = noise_before_flooding(monkeypatch)
    rng = np.random.default_rng(1)
    loads = rng.poisson(degree / 10, N_BINS // n_strips)
    block = random_block(rng, loads, degree, n_classes)
    assert np.array_equal(matched_block(block, modulus), block.truth())
    match = match_ring(modulus)
    for ring, n, bound in (
        (TAG_RING, 2, values_bound(Ring.of(TAG_RING), degree, n_strips)),
        (DISTANCE_RING, 2, distances_bound(Ring.of(DISTANCE_RING), N_DIGITS)),
        (match, n_classes, indicators_bound(Ring.of(match), N_LAST_REMAINDERS)),
    ):
        assert len(measured[ring]) == n
        by = slack(bound, max(measured[ring]), ring.plain_modulus)
        assert abs(by - SLACK[ring]) < 3.5, (bound.circuit, by)


def worst_slots(ring: Ring) -> np.ndarray:
    """Slots whose plaintext has no coefficient but (t − 1)/2: as far from random as can be."""
    half = f"{(ring.plain_modulus - 1) // 2:X}"
    terms = [f"{half}x^{i}" for i in range(ring.degree - 1, 0, -1)]
    return ring.decode(seal.Plaintext(" + ".join([*terms, half])))


def test_the_worst_data_of_a_bank_stays_below_the_bound():
    keys, ring, degree = keys_of(TAG_RING), Ring.of(TAG_RING), 20
    encryptor, evaluator = SecretEncryptor(keys.secret), Evaluator(keys.public)
    powers = [
        encryptor.encrypt(secret_residues(ring.plain_modulus, N_BINS))
        for _ in range(n_powers(degree))
    ]
    coefficients = np.tile(worst_slots(ring), (degree + 1, 1))
    value = evaluate(evaluator, powers, degree, Strips(N_BINS, N_BINS), coefficients)
    bound = values_bound(ring, degree)
    measured = Decryptor(keys.secret).phase_bits(value)
    assert 16 < slack(bound, measured, ring.plain_modulus) < 23.5


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_the_comparison_is_exact_and_its_noise_stays_below_its_bound(modulus):
    keys = keys_of(compare_ring(modulus))
    decryptor, ring = Decryptor(keys.secret), Ring.of(keys.public.ring)
    w, threshold = secret_residues(modulus, ring.degree), secret_residues(modulus, ring.degree)
    threshold[:1000] = w[:1000]
    bases = digit_bases(modulus)
    one_hot = tuple(
        encrypt_digit(DigitsJob(keys.secret, digit, base))
        for digit, base in zip(digits(w, modulus), bases, strict=True)
    )
    level = ring.parameters.n_data_primes - comparison_depth(modulus)
    less = ring.load(less_than(LessJob(keys.public, one_hot, threshold)), level)
    assert np.array_equal(decryptor.decrypt(less), w < threshold)
    bound = compare_bound(ring, len(bases), DIGIT_BASE)
    assert decryptor.phase_bits(less) < bound.steps[f"products {comparison_depth(modulus)}"]
    final = Evaluator(keys.public).switch_to(less, FINAL_PRIMES)
    assert 2 < slack(bound, decryptor.phase_bits(final), modulus) < 19


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
@pytest.mark.parametrize("kind", ["random", "worst"])
@pytest.mark.parametrize("level", [2, 3])
def test_measured_noise_of_linear_circuits_stays_below_its_bound(modulus, kind, level):
    keys = keys_of(share_ring(modulus))
    encryptor, evaluator = SecretEncryptor(keys.secret), Evaluator(keys.public)
    ring, n_terms = Ring.of(keys.public.ring), 20

    def slots():
        return worst_slots(ring) if kind == "worst" else secret_residues(modulus, ring.degree)

    shares = (encryptor.encrypt(secret_residues(modulus, ring.degree)) for _ in range(n_terms))
    terms = ((evaluator.switch_to(share, level), slots()) for share in shares)
    total = evaluator.add_products(None, terms)
    measured = Decryptor(keys.secret).phase_bits(total)
    assert 0 < slack(linear_bound(ring, n_terms, level), measured, modulus) < 16


@pytest.mark.parametrize("level", [2, 3])
def test_terms_with_the_same_errors_are_not_taken_for_independent_ones(level):
    """A thousand trees of a lane that count one set in one block: one ciphertext for all.

    At three primes the bound for independent errors is exceeded by three bits; at two the mean of
    the roundings, which is the same for all, hides the difference.
    """
    modulus, n_trees = PLAIN_MODULI[0], 1024
    keys = keys_of(share_ring(modulus))
    evaluator, ring = Evaluator(keys.public), Ring.of(keys.public.ring)
    share = SecretEncryptor(keys.secret).encrypt(secret_residues(modulus, ring.degree))
    share = evaluator.switch_to(share, level)
    prepared, total = evaluator.prepare(worst_slots(ring), level), None
    for _ in range(n_trees):
        total = evaluator.add_prepared(total, share, prepared)
    measured = Decryptor(keys.secret).phase_bits(total)
    assert 0 < slack(linear_bound(ring, n_trees, level, n_alike=n_trees), measured, modulus) < 16
    if level == 3:
        assert slack(linear_bound(ring, n_trees, level), measured, modulus) < -2


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_measured_noise_of_the_sealed_circuit_stays_below_its_bound(modulus):
    keys = keys_of(share_ring(modulus))
    encryptor, evaluator = SecretEncryptor(keys.secret), Evaluator(keys.public)
    decryptor, ring = Decryptor(keys.secret), Ring.of(keys.public.ring)

    def fresh():
        return encryptor.encrypt(secret_residues(modulus, ring.degree))

    def slots():
        return secret_residues(modulus, ring.degree)

    votes = evaluator.add_products(None, ((fresh(), slots() & np.uint64(1)) for _ in range(20)))
    bound = sealed_bound(ring, n_leaves=20, n_sets=1)
    assert 0 < bound.steps["votes"] - decryptor.phase_bits(votes) < 10
    product = evaluator.add_products(evaluator.times_slots(votes, slots()), [(fresh(), slots())])
    assert 0 < slack(bound, decryptor.phase_bits(product), modulus) < 12


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
@pytest.mark.parametrize(("n_products", "n_sets"), [(1, 1), (1, MOST_IN_RUN), (20, MOST_IN_RUN)])
def test_measured_noise_of_live_questions_stays_below_its_bound(modulus, n_products, n_sets):
    """In sets that have all atoms in common, and as many masks added up as are ever."""
    keys, n_atoms = keys_of(share_ring(modulus)), 3
    encryptor, evaluator = SecretEncryptor(keys.secret), Evaluator(keys.public)
    decryptor, ring = Decryptor(keys.secret), Ring.of(keys.public.ring)
    one_hot, total = OneHot(ring, 3), None
    shares = [encryptor.encrypt(secret_residues(modulus, ring.degree)) for _ in range(n_atoms)]
    of_set = evaluator.combination(shares, [-1] * n_atoms)
    rng = np.random.default_rng(2)
    for _ in range(n_products):
        slots = rng.choice(ring.degree, MOST_SUMMED, replace=False)
        weights = rng.integers(weight_bits(modulus), size=MOST_SUMMED)
        run = evaluator.doubled_sum([of_set] * n_sets)
        total = evaluator.add_prepared(total, run, one_hot.of(slots, weights))
    bound = live_bound(ring, MOST_SUMMED * n_products * n_sets, n_atoms, n_sets)
    # The bound is for lengths of masks in the worst case, and for masks that agree.
    assert 0 < bound.steps["products"] - decryptor.phase_bits(total) < 12
    switched = evaluator.switch_to(total, FINAL_PRIMES)
    assert 0 < bound.steps["switched"] - decryptor.phase_bits(switched) < 5


def test_the_bound_of_live_queries_holds_for_a_century_of_them_at_a_thousand_banks():
    """20 a second, eight polynomials each: 2^24 polynomials, as of a run, are ten days of one."""
    ring = Ring.of(share_ring(65537))
    shares = live_bound(ring, most_questions(65537), 3, 3).steps["shares"]
    expected = ring.plain_modulus * sqrt(ring.degree * (ERROR_VARIANCE + UNIFORM_VARIANCE))
    log2_tail = -((2**shares / expected) ** 2) / log(2)  # the square of a norm is exponential
    n_polynomials = 8 * 20 * 86_400 * 366 * 100 * 1_000
    assert log2_tail + log2(n_polynomials * ring.degree) < -64


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_a_live_query_is_within_two_to_the_minus_72_of_uniform(modulus):
    """Which is what a bank's account of δ counts for each."""
    ring = Ring.of(share_ring(modulus))
    for n_atoms, n_sets in ((2, 1), (3, 3), (MOST_CLASSES, MOST_CLASSES)):
        bound = live_bound(ring, most_questions(modulus), n_atoms, n_sets)
        assert bound.distance_bits >= DISTANCE_BITS == 72
        assert bound.flood.n_primes == FINAL_PRIMES


def test_the_modulus_switch_rounds_into_minus_t_to_zero():
    """In units of t the mean is −1/2 and the mean square 1/3: what the model takes it for."""
    keys = keys_of(share_ring(65537))
    ring, evaluator = Ring.of(keys.public.ring), Evaluator(keys.public)
    before = SecretEncryptor(keys.secret).encrypt(secret_residues(65537, ring.degree))
    before = evaluator.switch_to(before, 2)
    after = evaluator.switch_to(before, 1)
    for ciphertext in (before, after):
        evaluator.to_coefficients(ciphertext)
    small, dropped = ring.primes[:2]
    for full, low in zip(residues_of(before, ring), residues_of(after, ring), strict=True):
        wide = centred(full, ring.primes[:2])
        difference = (low[0].astype(object) * dropped - wide) % (small * dropped)
        difference = np.where(
            difference > small * dropped // 2, difference - small * dropped, difference
        )
        rounding = (difference / dropped).astype(float) / ring.plain_modulus
        assert rounding.min() >= -1
        assert rounding.max() < 1e-3
        assert abs(rounding.mean() + 1 / 2) < 0.02  # six standard deviations of the mean
        assert abs((rounding**2).mean() - 1 / 3) < 0.02


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_a_switched_ciphertext_has_at_most_the_rounding_that_the_model_states(modulus):
    keys = keys_of(share_ring(modulus))
    ring, evaluator = Ring.of(keys.public.ring), Evaluator(keys.public)
    fresh = SecretEncryptor(keys.secret).encrypt(secret_residues(modulus, ring.degree))
    measured = Decryptor(keys.secret).phase_bits(evaluator.switch_to(fresh, 1))
    model = NoiseModel(ring)
    assert measured < log2(model.rounding_coefficient) < log2(model.rounding)
    assert log2(model.rounding_coefficient) - measured < 4


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_every_circuit_leaves_room_to_sanitise(modulus):
    """A large run as a whole, 25 banks with 9 blocks each, stays within 2^-30 of uniform."""
    match, share = Ring.of(match_ring(modulus)), Ring.of(share_ring(modulus))
    compare, n_blocks = Ring.of(compare_ring(modulus)), 25 * 9
    n_sanitised = {
        values_bound(Ring.of(TAG_RING), 150): 2 * n_blocks,
        distances_bound(Ring.of(DISTANCE_RING), N_DIGITS): 2 * n_blocks,
        indicators_bound(match, N_LAST_REMAINDERS): 32 * n_blocks,
        compare_bound(compare, len(digit_bases(modulus)), DIGIT_BASE): 2,
        linear_bound(share, n_terms=16 * 11, n_primes=3): 10_000,
        sealed_bound(share, n_leaves=800, n_sets=4): 10_000,
    }
    assert sum(n * 2.0**-bound.distance_bits for bound, n in n_sanitised.items()) < 2**-30


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_the_flood_fits_into_the_modulus_with_the_noise_and_into_the_last_prime(modulus):
    match, share = match_ring(modulus), share_ring(modulus)
    for ring, bound in (
        (TAG_RING, values_bound(Ring.of(TAG_RING), 114)),
        (DISTANCE_RING, distances_bound(Ring.of(DISTANCE_RING), N_DIGITS)),
        (match, indicators_bound(Ring.of(match), N_LAST_REMAINDERS)),
        (share, linear_bound(Ring.of(share), 200, 2)),
        (share, sealed_bound(Ring.of(share), 816, 2)),
        (share, live_bound(Ring.of(share), most_questions(modulus), 3, 3)),
    ):
        t, primes = ring.plain_modulus, Ring.of(ring).primes
        flood = bound.flood
        largest = t * (flood.reach + Fraction(2**bound.noise_bits)) + t // 2
        after = largest / prod(primes[flood.n_sent : flood.n_primes])
        if flood.n_sent < flood.n_primes:
            after += Fraction(NoiseModel(Ring.of(ring)).rounding_coefficient)
        sent = prod(primes[: flood.n_sent])
        assert 1 - 2**-14 < 2 * after / sent <= 1


def test_a_ring_with_too_few_primes_for_a_product_is_refused():
    short = Ring.of(RingParameters(16384, 65537, (60,) * 3))
    with pytest.raises(ParameterError, match="too few primes"):
        indicators_bound(short, N_LAST_REMAINDERS)


def test_noise_that_leaves_no_room_is_refused():
    small = Ring.of(RingParameters(16384, TAG_RING.plain_modulus, (60, 60, 60)))
    with pytest.raises(ParameterError, match="leaves no room"):
        values_bound(small, 26)
