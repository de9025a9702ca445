"""The static bounds lie above every measured noise, leave room to sanitise, and refuse misfits."""

from math import log2

import numpy as np
import pytest

from pv4fad.errors import ParameterError
from pv4fad.he.circuits import (
    FEW_ACCOUNTS,
    FINAL_PRIMES,
    compare_bound,
    linear_bound,
    match_bound,
    sealed_bound,
)
from pv4fad.he.keys import Decryptor, Evaluator, SecretEncryptor, generate_keys
from pv4fad.he.ring import PLAIN_MODULI, Ring, match_ring, share_ring
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
from pv4fad.protocol.match.steps import (
    LayersJob,
    PlanesJob,
    SharedLayer,
    SharedLayersJob,
    encrypt_planes,
    sum_layers,
    sum_shared_layers,
)
from pv4fad.randomness import secret_residues

LENGTH, WEIGHT = 52, 16


def random_words(rng, n: int) -> np.ndarray:
    bits = np.argsort(rng.random((n, LENGTH)), axis=1)[:, :WEIGHT].astype(np.uint64)
    return (np.uint64(1) << bits).sum(axis=1).astype(np.uint64)


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_measured_noise_of_the_match_circuit_stays_below_its_bound(modulus, monkeypatch):
    rng = np.random.default_rng(1)
    keys = generate_keys(match_ring(modulus), relinearisation=True)
    decryptor, ring = Decryptor(keys.secret), Ring.of(keys.public.ring)
    measured: dict[str, float] = {}

    def record(step, ciphertext):
        measured[step] = max(measured.get(step, 0), decryptor.phase_bits(ciphertext))
        return ciphertext

    square, multiply = Evaluator.square, Evaluator.multiply
    powers = {6: "square", 5: "fourth power", 4: "eighth power"}

    def recording_square(self, ciphertext):
        return record(powers[self.ring.level_of(ciphertext)], square(self, ciphertext))

    def recording_multiply(self, left, right, plus=None):
        record("factors", left)
        record("factors", right)
        return record("equality", multiply(self, left, right, plus))

    monkeypatch.setattr(Evaluator, "square", recording_square)
    monkeypatch.setattr(Evaluator, "multiply", recording_multiply)
    top = ring.parameters.n_data_primes
    # A full layer of one block with a layer of few accounts of another: the most there can be.
    first, second = np.array_split(random_words(rng, ring.degree), 2)
    first = np.concatenate([first, np.zeros_like(second)])
    second = np.concatenate(
        [np.zeros(ring.degree - FEW_ACCOUNTS, np.uint64), second[:FEW_ACCOUNTS]]
    )
    atoms = rng.integers(0, 2, (2, ring.degree)).astype(np.int16)
    layers = []
    for words, of_layer in zip((first, second), atoms, strict=True):
        planes = encrypt_planes(PlanesJob(keys.secret, words, LENGTH))
        record("planes", ring.load_all(planes, LENGTH, top)[0])
        layer = (words[np.newaxis], of_layer[np.newaxis])
        job = LayersJob(keys.public, LENGTH, planes, *layer, n_atoms=2, n_shared=1)
        (agreeing,) = sum_layers(job).agreeing
        record("agreeing ones", ring.load(agreeing, top))
        layers.append(SharedLayer(agreeing, of_layer))
    for sums in sum_shared_layers(SharedLayersJob(keys.public, (tuple(layers),), n_atoms=2)):
        for one in sums:
            record("indicators", ring.load(one, 2))

    bound = match_bound(ring, LENGTH, WEIGHT, n_layers=1)
    assert set(measured) == set(bound.steps)
    for step, bits in measured.items():
        assert bits < bound.steps[step], step
    # A bound that is far off would be useless: it leaves at most this much unexploited.
    assert bound.steps["indicators"] - measured["indicators"] < 10


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_the_comparison_is_exact_and_its_noise_stays_below_its_bound(modulus):
    keys = generate_keys(match_ring(modulus), relinearisation=True)
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
    assert decryptor.phase_bits(final) < bound.steps["labels"]


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_measured_noise_of_linear_and_sealed_circuits_stays_below_their_bounds(modulus):
    keys = generate_keys(share_ring(modulus), relinearisation=False)
    encryptor, evaluator = SecretEncryptor(keys.secret), Evaluator(keys.public)
    decryptor, ring = Decryptor(keys.secret), Ring.of(keys.public.ring)

    def fresh():
        return encryptor.encrypt(secret_residues(modulus, ring.degree))

    def slots():
        return secret_residues(modulus, ring.degree)

    total = evaluator.add_products(
        None, ((evaluator.switch_to(fresh(), 2), slots()) for _ in range(20))
    )
    assert decryptor.phase_bits(total) < linear_bound(ring, 20).steps["sum"]

    votes = evaluator.add_products(None, ((fresh(), slots() & np.uint64(1)) for _ in range(20)))
    bound = sealed_bound(ring, n_leaves=20, n_sets=1)
    assert decryptor.phase_bits(votes) < bound.steps["votes"]
    product = evaluator.add_products(evaluator.times_slots(votes, slots()), [(fresh(), slots())])
    assert decryptor.phase_bits(product) < bound.steps["votes x share"]


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
def test_every_circuit_leaves_room_to_sanitise(modulus):
    """A large run as a whole stays within 2^-30 of uniform."""
    match, share = Ring.of(match_ring(modulus)), Ring.of(share_ring(modulus))
    n_sanitised = {
        match_bound(match, LENGTH, WEIGHT, n_layers=12): 1000,
        compare_bound(match, n_digits=8, largest_base=8): 2,
        linear_bound(share, n_terms=16 * 11): 1000,
        sealed_bound(share, n_leaves=800, n_sets=4): 10_000,
    }
    assert sum(n * 2.0**-bound.distance_bits for bound, n in n_sanitised.items()) < 2**-30


def test_the_flood_fits_into_the_modulus_with_the_noise():
    for modulus in PLAIN_MODULI:
        ring = Ring.of(match_ring(modulus))
        bound = match_bound(ring, LENGTH, WEIGHT, n_layers=83)
        largest = modulus * (2.0**bound.flood.range_bits + 2.0**bound.noise_bits)
        assert log2(largest) < log2(ring.primes[0]) + log2(ring.primes[1]) - 1


def test_a_code_without_polynomial_is_refused():
    with pytest.raises(ParameterError, match="code weight 12"):
        match_bound(Ring.of(match_ring(65537)), 52, 12, 12)
