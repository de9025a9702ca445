"""The uniform part of a key is nobody's choice, and the key is as good as the library's own."""

import hashlib
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.phase import centred
from tests.kit.uniformity import is_uniform

from pv4fad.errors import CiphertextError
from pv4fad.he.keys import Decryptor, Encryptor, Evaluator, PublicKey, generate_keys
from pv4fad.he.modular import product
from pv4fad.he.noise import NoiseModel
from pv4fad.he.ring import TAG_RING, Ring, match_ring, share_ring
from pv4fad.he.uniform_parts import from_sent, uniform_part
from pv4fad.randomness import secret_residues

T = 65537
PRIMES = Ring.of(share_ring(T)).key_primes


@settings(max_examples=200, deadline=None)
@given(q=st.sampled_from(PRIMES), data=st.data())
def test_products_are_exact(q, data):
    edges = st.sampled_from([0, 1, q // 2, q - 2, q - 1]) | st.integers(0, q - 1)
    left, right = (data.draw(st.lists(edges, min_size=4, max_size=4)) for _ in range(2))
    found = product(np.array(left, np.uint64), np.array(right, np.uint64), q)
    assert found.tolist() == [x * y % q for x, y in zip(left, right, strict=True)]


def pair_and_secret(keys):
    """(b, a) of the public key as the library reads it, and s: (primes, N) each."""
    public, ring = keys.public, Ring.of(keys.public.ring)
    shape = len(ring.key_primes), ring.degree
    raw = from_sent(ring, public.name, public.data, relinearisation=False)
    b, a = np.frombuffer(raw[len(ring.key_header) :], "<u8").reshape(2, *shape)
    n_bytes = 8 * shape[0] * shape[1]
    return b, a, np.frombuffer(keys.secret.data[-n_bytes:], "<u8").reshape(shape)


def test_the_error_of_a_key_is_that_of_the_library(share_keys):
    """b + a·s = −t·e, e from the library's centred binomial: no coefficient above 21."""
    ring = Ring.of(share_keys.public.ring)
    b, a, s = pair_and_secret(share_keys)
    n = ring.parameters.n_data_primes  # the library changes the form of ciphertexts, at data primes
    primes = np.array(ring.primes, object)[:, np.newaxis]
    evaluated = ((b[:n].astype(object) + a[:n].astype(object) * s[:n]) % primes).astype(np.uint64)
    shell = ring.from_residues(ring.header(n), np.stack([evaluated, np.ones_like(evaluated)]))
    Evaluator(PublicKey(ring.parameters, "", b"")).to_coefficients(shell)
    values = np.frombuffer(ring.dump(shell)[len(ring.key_header) :], "<u8")
    error = centred(values.reshape(2, n, ring.degree)[0], ring.primes)
    assert not (error % T).any()
    e = (error // T).astype(int)
    assert np.abs(e).max() <= 21
    assert abs(e.var() - 10.5) < 1.5  # nine standard deviations


@pytest.mark.parametrize("parameters", [TAG_RING, match_ring(T), match_ring(2654209)])
def test_products_under_such_keys_are_exact_and_no_noisier(parameters):
    keys = generate_keys(parameters, "test", relinearisation=True)
    ring, model = Ring.of(parameters), NoiseModel(Ring.of(parameters))
    top, t = parameters.n_data_primes, parameters.plain_modulus
    evaluator, decryptor = Evaluator(keys.public), Decryptor(keys.secret)
    x = secret_residues(t, ring.degree)
    fresh = Encryptor(keys.public).zero(top)
    evaluator.add_slots(fresh, x)
    bound = model.rounding + model.plain  # a switch from the special prime, and a plaintext
    assert decryptor.phase_bits(fresh) < log2(bound)
    squared = evaluator.sum_of_products([(fresh, fresh)])
    assert np.array_equal(decryptor.decrypt(squared), x.astype(object) ** 2 % t)
    bound = bound**2 + model.relinearisation(top)
    assert 0 < log2(bound) - decryptor.phase_bits(squared) < 30


def test_the_uniform_part_follows_from_the_name_alone():
    """Whatever the owner does: it sends one polynomial, and the other is not its choice."""
    one, other = (
        generate_keys(share_ring(T), "run/bank/shares", relinearisation=False) for _ in "ab"
    )
    assert one.public.data != other.public.data
    assert np.array_equal(pair_and_secret(one)[1], pair_and_secret(other)[1])
    ring = Ring.of(share_ring(T))
    expected = uniform_part(ring, "run/bank/shares", 0, relinearisation=False)
    assert np.array_equal(pair_and_secret(one)[1], expected)
    for row, q in zip(expected, ring.key_primes, strict=True):
        assert is_uniform(row >> np.uint64(8), q >> 8)


def test_no_two_pairs_have_the_same_uniform_part():
    """Two pairs with one a and one s would tell the difference of their messages."""
    seen = set()
    for ring in (match_ring(T), share_ring(T)):
        for name in ("a", "b"):
            for index in range(3):
                for relinearisation in (False, True):
                    part = uniform_part(Ring.of(ring), name, index, relinearisation=relinearisation)
                    seen |= {hashlib.sha256(row.tobytes()).digest() for row in part}
    assert len(seen) == 2 * 3 * 2 * (4 + 4)


def test_the_derivation_is_the_one_that_other_parties_use():
    """Pinned: parties with another derivation could not open each other's ciphertexts."""
    part = uniform_part(Ring.of(share_ring(T)), "run/bank01/shares", 0, relinearisation=False)
    first = hashlib.shake_256(
        bytes(4) + b"pv4fad uniform part of a key, version 1\0run/bank01/shares\0public\0"
        b"0\0" + b"0\0" + str(PRIMES[0]).encode()
    ).digest(8)
    assert part[0, 0] == int.from_bytes(first, "little") % PRIMES[0]


def both_polynomials(public: PublicKey) -> bytes:
    """A key as the library has it, with a uniform part of the owner's choice."""
    return public.data + bytes(len(public.data))


@pytest.mark.parametrize(
    "spoil",
    [
        both_polynomials,
        lambda public: b"",
        lambda public: public.data[:-8],
        lambda public: b"\xff" * len(public.data),
    ],
    ids=["a of its own", "empty", "short", "not modulo the primes"],
)
def test_a_key_that_brings_anything_but_b_is_refused(share_keys, spoil):
    wrong = PublicKey(share_keys.public.ring, "test", spoil(share_keys.public))
    with pytest.raises(CiphertextError, match="key"):
        wrong.require_valid()


def test_under_another_name_a_key_opens_nothing(share_keys):
    public, ring = share_keys.public, Ring.of(share_keys.public.ring)
    other = PublicKey(public.ring, "another", public.data)
    ciphertext = Encryptor(other).zero(3)
    opened = Decryptor(share_keys.secret).decrypt(ciphertext)
    assert is_uniform(opened, ring.plain_modulus)
