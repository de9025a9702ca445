"""The HE interface computes exactly, refuses foreign bytes, and splits roles by key."""

import numpy as np
import pytest
import seal

from pv4fad.errors import CiphertextError, ParameterError
from pv4fad.he.keys import (
    Decryptor,
    Encryptor,
    Evaluator,
    PublicKey,
    SecretEncryptor,
    SecretKey,
    generate_keys,
)
from pv4fad.he.ring import (
    DISTANCE_RING,
    PLAIN_MODULI,
    TAG_RING,
    Ring,
    RingParameters,
    match_ring,
    share_ring,
)
from pv4fad.he.sanitise import Flood, Sanitiser
from pv4fad.randomness import secret_residues

T = 65537


def test_slots_are_added_and_multiplied_modulo_t(share_keys):
    encryptor, decryptor = SecretEncryptor(share_keys.secret), Decryptor(share_keys.secret)
    evaluator = Evaluator(share_keys.public)
    x, y, z = (secret_residues(T, 8192) for _ in range(3))
    total = evaluator.add_products(None, [(encryptor.encrypt(x), y), (encryptor.encrypt(z), z)])
    evaluator.add_slots(total, x)
    expected = (x * y + z * z + x) % np.uint64(T)
    assert np.array_equal(decryptor.decrypt(total), expected)
    assert np.array_equal(decryptor.decrypt(evaluator.switch_to(total, 1)), expected)


def test_ciphertexts_are_multiplied_modulo_t(match_keys):
    encryptor, decryptor = SecretEncryptor(match_keys.secret), Decryptor(match_keys.secret)
    evaluator = Evaluator(match_keys.public)
    x, y = (secret_residues(T, 16384) for _ in range(2))
    product = evaluator.multiply(encryptor.encrypt(x), encryptor.encrypt(y))
    square = evaluator.multiply(encryptor.encrypt(x), encryptor.encrypt(x))
    evaluator.sub(product, square)
    assert evaluator.ring.level_of(product) == 2
    assert np.array_equal(decryptor.decrypt(product), (x * y + T * T - x * x) % np.uint64(T))


def test_all_zero_slots_do_not_disturb_a_sum(share_keys):
    encryptor, decryptor = SecretEncryptor(share_keys.secret), Decryptor(share_keys.secret)
    evaluator = Evaluator(share_keys.public)
    one, zero = encryptor.encrypt(np.ones(8192)), np.zeros(8192, np.uint64)
    assert evaluator.add_products(None, [(one, zero)]) is None
    total = evaluator.add_products(Encryptor(share_keys.public).zero(3), [(one, zero)])
    assert not decryptor.decrypt(total).any()


def test_a_secret_key_never_shows(share_keys):
    assert repr(share_keys.secret) == f"SecretKey(ring={share_keys.secret.ring!r})"
    assert "data" not in repr(share_keys)


@pytest.mark.parametrize("modulus", PLAIN_MODULI)
@pytest.mark.parametrize("ring", [match_ring, share_ring])
def test_every_parameter_set_passes_the_128_bit_check(ring, modulus):
    # 438 and 218 bits are the standard's limits at these degrees; four bits are left.
    parameters = ring(modulus)
    assert sum(parameters.prime_bits) <= {16384: 434, 8192: 214}[parameters.degree]
    assert all(q % modulus == 1 for q in Ring.of(parameters).primes)


@pytest.mark.parametrize("parameters", [TAG_RING, DISTANCE_RING])
def test_the_other_rings_of_the_payment_network_pass_it_too(parameters):
    assert sum(parameters.prime_bits) <= 434
    assert Ring.of(parameters).plain_modulus % (2 * parameters.degree) == 1


def test_a_switched_ciphertext_of_the_tag_ring_has_the_factor_that_is_expected(tag_keys):
    """None of its primes is 1 modulo T: the factor is a constant, and no other is accepted."""
    ring, evaluator = Ring.of(TAG_RING), Evaluator(tag_keys.public)
    x = secret_residues(TAG_RING.plain_modulus, ring.degree)
    fresh = SecretEncryptor(tag_keys.secret).encrypt(x)
    for level in (4, 3, 2, 1):
        data = ring.dump(evaluator.switch_to(fresh, level))
        factor = int.from_bytes(data[81:89], "little")
        assert (factor == 1) == (level == 4)
        assert np.array_equal(Decryptor(tag_keys.secret).decrypt(ring.load(data, level)), x)
        for other in (2, 1 if level < 4 else 3):
            wrong = data[:81] + other.to_bytes(8, "little") + data[89:]
            with pytest.raises(CiphertextError, match="correction factor"):
                ring.load(wrong, level)


def test_a_ciphertext_with_a_correction_factor_is_not_flooded(tag_keys):
    """Two ciphertexts of different factors are made alike before they are added, and grow."""
    evaluator = Evaluator(tag_keys.public)
    fresh = SecretEncryptor(tag_keys.secret).encrypt(np.arange(16384))
    switched = evaluator.switch_to(fresh, 3)
    with pytest.raises(CiphertextError, match="correction factor"):
        Sanitiser(tag_keys.public, Flood(3, 2**100)).sanitise(switched)


@pytest.mark.parametrize("at", range(0, 113))
def test_any_change_in_the_header_of_a_ciphertext_is_refused(share_keys, good_bytes, at):
    ring = Ring.of(share_keys.public.ring)
    wrong = bytearray(good_bytes)
    wrong[at] ^= 1
    with pytest.raises(CiphertextError):
        ring.load(bytes(wrong), 2)


def test_parameters_below_128_bits_are_refused():
    with pytest.raises(ParameterError, match="security standard"):
        Ring.of(RingParameters(8192, T, (60, 60, 60, 60)))
    with pytest.raises(ParameterError, match="batching"):
        Ring.of(RingParameters(8192, 65539, (54, 54, 56)))


@pytest.fixture
def good_bytes(share_keys):
    ring = Ring.of(share_keys.public.ring)
    return ring.dump(Encryptor(share_keys.public).zero(2))


def foreign_bytes() -> bytes:
    keys = generate_keys(share_ring(163841), "test", relinearisation=False)
    return Ring.of(keys.public.ring).dump(Encryptor(keys.public).zero(2))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda b: b"",
        lambda b: b[:-1],
        lambda b: b + b"\0",
        lambda b: b"x" * len(b),
        lambda b: b[:200] + b"\xff" * (len(b) - 200),
        lambda b: b[:113] + bytes(len(b) - 113),
        lambda b: foreign_bytes(),
        lambda b: b[:82] + b"\1" + b[83:],
    ],
    ids=[
        "empty",
        "truncated",
        "longer",
        "noise",
        "out of range",
        "transparent",
        "foreign ring",
        "correction factor 257",
    ],
)
def test_bytes_that_are_no_ciphertext_of_this_ring_are_refused(share_keys, good_bytes, spoil):
    ring = Ring.of(share_keys.public.ring)
    assert ring.load(good_bytes, 2) is not None
    with pytest.raises(CiphertextError):
        ring.load(spoil(good_bytes), 2)


def test_a_ciphertext_of_another_level_is_refused(share_keys, good_bytes):
    with pytest.raises(CiphertextError, match="expected"):
        Ring.of(share_keys.public.ring).load(good_bytes, 3)


def test_a_product_that_is_as_long_as_a_ciphertext_of_another_level_is_refused(match_keys):
    # Three polynomials at two primes have the bytes of two polynomials at three.
    ring, encryptor = Ring.of(match_keys.public.ring), Encryptor(match_keys.public)
    library = seal.Evaluator(ring.context)
    product = ring.dump(library.multiply(encryptor.zero(2), encryptor.zero(2)))
    assert len(product) == ring.ciphertext_bytes(3)
    with pytest.raises(CiphertextError, match="another level or form"):
        ring.load(product, 3)


@pytest.mark.parametrize("spoil", [lambda b: b[:-1], lambda b: b + b"x"])
def test_ciphertexts_back_to_back_have_exactly_their_length(share_keys, good_bytes, spoil):
    ring = Ring.of(share_keys.public.ring)
    assert len(ring.load_all(good_bytes * 2, 2, 2)) == 2
    with pytest.raises(CiphertextError, match="2 ciphertexts of"):
        ring.load_all(spoil(good_bytes * 2), 2, 2)


@pytest.mark.parametrize("make", [Encryptor, Evaluator])
def test_damaged_public_keys_are_refused(share_keys, make):
    broken = share_keys.public.data[:-8]
    with pytest.raises(CiphertextError, match="key"):
        make(PublicKey(share_keys.public.ring, "test", broken, broken))


def test_damaged_secret_keys_are_refused_without_showing_them(share_keys):
    with pytest.raises(CiphertextError, match="secret key") as caught:
        Decryptor(SecretKey(share_keys.secret.ring, share_keys.secret.data[:-8]))
    assert caught.value.__cause__ is None
