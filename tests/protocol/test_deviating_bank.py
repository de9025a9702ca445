"""A bank that supplies keys and ciphertexts of its own making reads nothing in what comes back.

It hides a message in the noise of its shares, or sends a public key of a special form, and looks
for the payment network's secret multipliers in all that it can see: the phase c0 + c1·s, and c1.
Every attack is also made on what the protocol did before, and then succeeds.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
import seal
from tests.kit.phase import coefficients, phase, residues_of
from tests.kit.uniformity import is_uniform

import pv4fad.he.uniform_parts
from pv4fad.he.circuits import linear_bound, sealed_bound
from pv4fad.he.keys import Evaluator, PublicKey, SecretEncryptor, generate_keys
from pv4fad.he.one_hot import weight_bits
from pv4fad.he.ring import Ring, share_ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.protocol.count.steps import ProductsJob, SparseSum, masked_products
from pv4fad.protocol.live.plan import TRACKS, bound_of, weights_of
from pv4fad.protocol.live.steps import Placed, QueryMaker
from pv4fad.protocol.score.steps import QueryJob, SealedQueryJob, bit_queries, sealed_queries
from pv4fad.randomness import secret_residues
from pv4fad.workers.shared import shared_file

T = 65537
RING = Ring.of(share_ring(T))
N, Q = RING.degree, prod(RING.primes)
TARGETS = np.array([11, 1234, 5000, 8191])  # the accounts that the bank is curious about
N_ASKED = 700


@pytest.fixture(scope="module")
def keys():
    return generate_keys(share_ring(T), "test", relinearisation=False)


def one_hot(slot: int) -> np.ndarray:
    return np.eye(1, N, slot, dtype=np.uint64)[0]


def crafted_share(keys) -> bytes:
    """E[s], and in its noise t·(Q/t²)·g, where g picks the targets: beside the message."""
    share = SecretEncryptor(keys.secret).encrypt(secret_residues(T, N))
    g = coefficients(RING, np.isin(np.arange(N), TARGETS)).astype(object)
    extra = np.stack([(T * (Q // T**2) * g % q).astype(np.uint64) for q in RING.primes])
    frame = Sanitiser(keys.public, Flood(3, 1))._frame
    Evaluator(keys.public).add(share, frame.coefficients(extra))
    Evaluator(keys.public).sub(share, frame.unit)
    return RING.dump(share)


def multipliers(rng, values: list[int]) -> np.ndarray:
    """What the payment network multiplies with: secret, and of two targets not 0."""
    d = np.zeros(N, np.int64)
    d[rng.choice(N, N_ASKED, replace=False)] = rng.choice(values, N_ASKED)
    d[TARGETS] = [values[0], 0, values[-1], 0]
    return d


def of_products(keys, flood, d):
    bins = np.flatnonzero(d)
    summand = SparseSum(bins, d[bins], (0,))
    shares = ((crafted_share(keys),),)
    job = ProductsJob(keys.public, flood, (0,), shares, np.ones((1, N), bool), ((summand,),))
    return masked_products(job).ciphertexts[0]


def query_job(keys, flood, shares: tuple[bytes, ...], of_sets: np.ndarray) -> QueryJob:
    zeros = np.zeros((1, N), np.uint32)
    opened = secret_residues(T, N).astype(np.uint32)[np.newaxis]
    return QueryJob(keys.public, flood, shares, ((0,),), opened, zeros, of_sets)


def of_queries(keys, flood, d):
    asked = (-d % T).astype(np.uint32).reshape(1, 1, N)
    ((z,),) = bit_queries(query_job(keys, flood, (crafted_share(keys),), asked)).ciphertexts
    return z


def of_sealed_queries(keys, flood, d):
    """y: label shares times the slots in use."""
    honest = RING.dump(SecretEncryptor(keys.secret).encrypt(secret_residues(T, N)))
    labels = shared_file([crafted_share(keys), honest])
    base = query_job(keys, flood, (honest,), np.zeros((1, 1, N), np.uint32))
    reached = np.where(d, 0, -1).astype(np.int32).reshape(1, N, 1)
    masks = secret_residues(T, N).astype(np.uint32)[np.newaxis]
    job = SealedQueryJob(base, labels, masks, reached, np.array([[0]]), asks_rest=True)
    ((y, _),) = sealed_queries(job).ciphertexts
    return y


def of_live_queries(keys, flood, d):
    """The targets first in their tracks, with the weight 1; what fits no track has to wait."""
    asked = np.flatnonzero(d)
    slots = np.concatenate([np.intersect1d(asked, TARGETS), np.setdiff1d(asked, TARGETS)])
    weights = weights_of(slots % TRACKS)
    slots, weights = (one[weights < weight_bits(T)] for one in (slots, weights))
    maker = QueryMaker(keys.public, flood, [[-1]])
    maker.add_block([crafted_share(keys)])
    zeros = np.zeros_like(slots)
    return maker.query(Placed(zeros, slots, zeros, weights)).ciphertext


ROLES = {
    "masked products": (of_products, [-1, 1], linear_bound(RING, 132, 2).flood),
    "queries": (of_queries, [1], linear_bound(RING, 132, 2).flood),
    "queries at three primes": (of_queries, [1], linear_bound(RING, 132, 3).flood),
    "live queries": (of_live_queries, [1], bound_of(share_ring(T), 1, 1).flood),
    "sealed queries": (of_sealed_queries, [1], sealed_bound(RING, 816, 1).flood),
}


def fitting(seen: bytes, secret, values: list[int], flood: Flood) -> list[tuple[int, ...]]:
    """The guesses about the targets under which every coefficient of the phase is one that message
    and flood can make: all that a phase tells, because both are uniform."""
    at_first_prime = phase(RING.load(seen, 1), secret).astype(float) * T / RING.primes[0]
    basis = np.stack([coefficients(RING, one_hot(slot)) for slot in TARGETS]).astype(float)
    reach = T * (T * flood.reach / prod(RING.primes[: flood.n_primes])) + 1e-3  # beside rounding
    found = []
    for guess in product(sorted({0, *values}), repeat=len(TARGETS)):
        rest = (at_first_prime - guess @ basis + T / 2) % T - T / 2
        if (np.abs(rest) <= reach).all():
            found.append(guess)
    return found


@pytest.mark.parametrize("role", ROLES)
def test_crafted_noise_tells_nothing_about_the_multipliers(keys, role):
    """All guesses fit what the bank sees, the right one no better than the others."""
    send, values, flood = ROLES[role]
    d = multipliers(np.random.default_rng(1), values)
    seen = send(keys, flood, d)
    assert len(fitting(seen, keys.secret, values, flood)) == len({0, *values}) ** len(TARGETS)
    in_prime = phase(RING.load(seen, 1), keys.secret) % RING.primes[0]
    assert is_uniform(in_prime.astype(np.uint64) >> np.uint64(8), RING.primes[0] >> 8)


@pytest.mark.parametrize("role", ROLES)
def test_with_a_flood_that_leaves_room_the_same_noise_tells_them_exactly(keys, role):
    send, values, flood = ROLES[role]
    half = replace(flood, reach=flood.reach // 2)
    d = multipliers(np.random.default_rng(1), values)
    assert fitting(send(keys, half, d), keys.secret, values, half) == [tuple(d[TARGETS])]


def constant_product(public: PublicKey, flood: Flood, d: np.ndarray) -> bytes:
    """What a payment network makes of the bank's 'ciphertext' (0, C): c1 is then C·d."""
    residues = np.zeros((2, 3, N), np.uint64)
    residues[1] = np.array([2**135 % q for q in RING.primes], np.uint64)[:, np.newaxis]
    evaluator = Evaluator(public)
    crafted = RING.load(RING.header(3) + residues.tobytes(), 3)
    total = evaluator.times_slots(evaluator.switch_to(crafted, flood.n_primes), d.astype(np.uint64))
    evaluator.add_slots(total, secret_residues(T, N))
    return Sanitiser(public, flood).sanitise(total)


def read_in_c1(seen: bytes) -> np.ndarray:
    """The slots of d, if c1 is C·d."""
    ciphertext = RING.load(seen, 1)
    Evaluator(PublicKey(RING.parameters, "", b"")).to_coefficients(ciphertext)
    c1 = residues_of(ciphertext, RING)[1, 0].astype(np.int64)
    c1 = np.where(c1 > RING.primes[0] // 2, c1 - RING.primes[0], c1)
    scale = 2**135 / RING.primes[2] / RING.primes[1]
    values = np.rint(c1 / scale).astype(np.int64) % T
    powers = range(N - 1, -1, -1)
    terms = [f"{values[i]:X}" + (f"x^{i}" if i else "") for i in powers if values[i]]
    return RING.decode(seal.Plaintext(" + ".join(terms)))


FLOOD = linear_bound(RING, 132, 2).flood


def keys_of_its_own(keys) -> dict[str, PublicKey]:
    """Public keys that a bank might send: all it can choose is b."""
    n = len(keys.public.data)
    third = np.array([Q // 3 % q for q in RING.primes] + [0], np.uint64)  # a constant: Q/3
    constant = np.repeat(third[:, np.newaxis], N, axis=1).tobytes()
    b = {"honest": keys.public.data, "zero": bytes(n), "constant": constant}
    return {name: replace(keys.public, data=data) for name, data in b.items()}


@pytest.mark.parametrize("form", ["honest", "zero", "constant"])
def test_c1_tells_nothing_whatever_key_the_bank_sends(keys, form):
    public = keys_of_its_own(keys)[form]
    public.require_valid()
    d = np.abs(multipliers(np.random.default_rng(2), [1]))
    found = read_in_c1(constant_product(public, FLOOD, d))
    assert np.count_nonzero(found == d) < 10
    assert is_uniform(found, T)


@pytest.mark.parametrize("form", ["honest", "zero", "constant"])
def test_c0_is_uniform_whatever_key_the_bank_sends(keys, form):
    """It would show u, the secret of the fresh encryption, and with it what c1 hides."""
    d = np.abs(multipliers(np.random.default_rng(2), [1]))
    seen = RING.load(constant_product(keys_of_its_own(keys)[form], FLOOD, d), 1)
    Evaluator(keys.public).to_coefficients(seen)
    assert is_uniform(residues_of(seen, RING)[0, 0] >> np.uint64(8), RING.primes[0] >> 8)


def test_with_half_the_flood_a_key_of_a_special_form_shows_the_secret_of_the_encryption(keys):
    half = replace(FLOOD, reach=FLOOD.reach // 2)
    d = np.abs(multipliers(np.random.default_rng(2), [1]))
    seen = RING.load(constant_product(keys_of_its_own(keys)["constant"], half, d), 1)
    Evaluator(keys.public).to_coefficients(seen)
    assert not is_uniform(residues_of(seen, RING)[0, 0] >> np.uint64(8), RING.primes[0] >> 8)


def test_with_a_uniform_part_of_its_own_choice_the_bank_would_read_all_multipliers(
    keys, monkeypatch
):
    def nothing(ring, name, index, *, relinearisation):
        return np.zeros((len(ring.key_primes), ring.degree), np.uint64)

    monkeypatch.setattr(pv4fad.he.uniform_parts, "uniform_part", nothing)
    public = replace(keys.public, name="nothing")
    d = np.abs(multipliers(np.random.default_rng(2), [1]))
    assert np.array_equal(read_in_c1(constant_product(public, FLOOD, d)), d)
