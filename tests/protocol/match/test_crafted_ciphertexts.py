"""A payment network that supplies keys and ciphertexts of its own making reads nothing in match.

It hides a message in the noise of what it sends, so that what comes back of it shows, beside the
mask, what the bank multiplied with: whether a bin has an account, digits of the bank's masks.  Each
attack is also made on floods that leave room, and then succeeds.  `test_deviating_bank` has the
same for the bank's ring.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from tests.kit.match_block import keys_of
from tests.kit.phase import coefficients, phase, residues_of
from tests.kit.uniformity import is_uniform

from pv4fad.hashing.tags import TAG_MODULUS
from pv4fad.he.circuits import distances_bound, indicators_bound, values_bound
from pv4fad.he.keys import Evaluator, PublicKey, SecretEncryptor
from pv4fad.he.ring import DISTANCE_RING, TAG_RING, Ring, match_ring, share_ring
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.protocol.match.comparison import N_LAST_REMAINDERS
from pv4fad.protocol.match.steps import (
    DistancesJob,
    EncryptedPlanes,
    IndicatorsJob,
    ValuesJob,
    blind_indicators,
    mask_distances,
    mask_values,
)

T = 65537
MATCH_RING = match_ring(T)
N = TAG_RING.degree
TARGETS = np.array([11, 1234, 9000, 16383])
SECRET = np.array([1, 0, 1, 0])  # of the bank, at the targets


def crafted(ring: Ring, public: PublicKey, message: np.ndarray) -> bytes:
    """E[message], and in its noise t·(Q/t²)·g, where g picks the targets."""
    modulus, t, top = prod(ring.primes), ring.plain_modulus, ring.parameters.n_data_primes
    ciphertext = SecretEncryptor(keys_of(ring.parameters).secret).encrypt(message)
    g = coefficients(ring, np.isin(np.arange(N), TARGETS).astype(np.uint64)).astype(object)
    extra = np.stack([(t * (modulus // t**2) * g % q).astype(np.uint64) for q in ring.primes])
    frame, evaluator = Sanitiser(public, Flood(top, 1))._frame, Evaluator(public)
    evaluator.add(ciphertext, frame.coefficients(extra))
    evaluator.sub(ciphertext, frame.unit)
    return ring.dump(ciphertext)


def honest(ring: Ring, message: np.ndarray) -> bytes:
    return ring.dump(SecretEncryptor(keys_of(ring.parameters).secret).encrypt(message))


def of_bins(row: np.ndarray) -> np.ndarray:
    """Random bits, and at the targets the secret ones."""
    row[TARGETS] = SECRET
    return row


def of_values(public: PublicKey, flood: Flood) -> bytes:
    """P = x − tag where there is an account, 1 where there is none: the factor of x tells."""
    ring, rng = Ring.of(TAG_RING), np.random.default_rng(1)
    loads = of_bins(rng.integers(0, 2, N))
    loads[0] = 1  # the fullest, which is filled up
    x, tags = rng.integers(0, TAG_MODULUS, (2, 1, N)).astype(np.uint64)
    classes = np.where(loads, 0, -1).astype(np.int16)[np.newaxis]
    powers = crafted(ring, public, x[0]) + honest(ring, x[0])
    return mask_values(ValuesJob(public, flood, 2, powers, tags, classes)).values[0]


def of_distances(public: PublicKey, flood: Flood) -> bytes:
    """The factor is −2 times the bank's own digit."""
    ring, rng = Ring.of(DISTANCE_RING), np.random.default_rng(1)
    own = np.stack([of_bins(rng.integers(0, 2, N)), rng.integers(0, 4, N)]).astype(np.uint64)
    sent = crafted(ring, public, own[1]) + honest(ring, own[1])
    return mask_distances(DistancesJob(public, flood, sent, own)).distances


def of_indicators(public: PublicKey, flood: Flood) -> bytes:
    """The factor of the first remainder is 1 where the bank's own is that one."""
    ring, rng = Ring.of(MATCH_RING), np.random.default_rng(1)
    own = (1 - of_bins(rng.integers(0, 2, N))).astype(np.uint8)
    ones = np.ones(N, np.uint64)
    others = honest(ring, ones) * (N_LAST_REMAINDERS - 1)
    planes = EncryptedPlanes(crafted(ring, public, ones) + others, honest(ring, ones))
    secret, rho = keys_of(share_ring(T)).secret, np.zeros(N, np.uint8)
    return blind_indicators(IndicatorsJob(public, secret, flood, planes, own, rho, 2)).blinded[0]


CIRCUITS = {
    "values": (of_values, TAG_RING, values_bound(Ring.of(TAG_RING), 2).flood, 1),
    "distances": (
        of_distances,
        DISTANCE_RING,
        distances_bound(Ring.of(DISTANCE_RING), 2).flood,
        -2,
    ),
    "indicators": (
        of_indicators,
        MATCH_RING,
        indicators_bound(Ring.of(MATCH_RING), N_LAST_REMAINDERS).flood,
        1,
    ),
}


def opened(seen: bytes, ring: Ring, flood: Flood) -> np.ndarray:
    """What the key holder computes of it, as integers modulo the primes that are sent."""
    return phase(ring.load(seen, flood.n_sent), keys_of(ring.parameters).secret)


def fitting(values: np.ndarray, ring: Ring, flood: Flood, factor: int) -> list[tuple[int, ...]]:
    """The guesses about the bank under which every coefficient is one that mask and flood make."""
    t = ring.plain_modulus
    at_scale = (values * t / prod(ring.primes[: flood.n_sent])).astype(float)
    basis = np.stack([coefficients(ring, np.eye(1, N, k, dtype=np.uint64)[0]) for k in TARGETS])
    reach = t * (t * flood.reach / prod(ring.primes[: flood.n_primes])) + 1
    found = []
    for guess in product((0, 1), repeat=len(TARGETS)):
        rest = at_scale - factor * np.array(guess) @ basis.astype(float)
        if (np.abs((rest + t / 2) % t - t / 2) <= reach).all():
            found.append(guess)
    return found


def uniform(values: np.ndarray, modulus: int) -> bool:
    shift = max(0, modulus.bit_length() - 52)
    return is_uniform((values % modulus // 2**shift).astype(np.int64), modulus >> shift)


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_crafted_noise_tells_nothing_about_the_bank(circuit):
    send, parameters, flood, factor = CIRCUITS[circuit]
    ring = Ring.of(parameters)
    values = opened(send(keys_of(parameters).public, flood), ring, flood)
    assert len(fitting(values, ring, flood, factor)) == 2 ** len(TARGETS)
    assert uniform(values, prod(ring.primes[: flood.n_sent]))


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_with_a_flood_that_leaves_room_the_same_noise_tells_it_exactly(circuit):
    send, parameters, flood, factor = CIRCUITS[circuit]
    half = replace(flood, reach=flood.reach // 2)
    ring = Ring.of(parameters)
    values = opened(send(keys_of(parameters).public, half), ring, half)
    assert fitting(values, ring, half, factor) == [tuple(SECRET)]


def of_its_own(public: PublicKey, form: str) -> PublicKey:
    """All that the payment network can choose is b, and that of the relinearisation key."""
    ring = Ring.of(public.ring)
    third = [prod(ring.primes) // 3 % q for q in ring.primes] + [0]
    constant = np.repeat(np.array(third, np.uint64)[:, np.newaxis], N, axis=1).tobytes()
    data = {"zero": bytes(len(public.data)), "constant": constant}[form]
    relinearisation = None if public.relinearisation is None else bytes(len(public.relinearisation))
    return replace(public, data=data, relinearisation=relinearisation)


@pytest.mark.parametrize("form", ["zero", "constant"])
@pytest.mark.parametrize("circuit", CIRCUITS)
def test_both_polynomials_are_uniform_whatever_key_the_payment_network_sends(circuit, form):
    send, parameters, flood, _ = CIRCUITS[circuit]
    ring = Ring.of(parameters)
    public = of_its_own(keys_of(parameters).public, form)
    public.require_valid()
    seen = ring.load(send(public, flood), flood.n_sent)
    Evaluator(public).to_coefficients(seen)
    for polynomial in residues_of(seen, ring):
        assert uniform(polynomial[0].astype(object), ring.primes[0])
