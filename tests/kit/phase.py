"""What a key holder can compute from a ciphertext: message + t·noise, by coefficient."""

from math import prod

import numpy as np

from pv4fad.he.keys import Evaluator, PublicKey, SecretKey
from pv4fad.he.ring import Ciphertext, Ring

HEADER_BYTES = 113


def residues_of(ciphertext: Ciphertext, ring: Ring) -> np.ndarray:
    """The raw residues, (2, primes, N)."""
    raw = np.frombuffer(ring.dump(ciphertext)[HEADER_BYTES:], "<u8")
    return raw.reshape(2, ring.level_of(ciphertext), ring.degree)


def phase(ciphertext: Ciphertext, secret: SecretKey) -> np.ndarray:
    """c0 + c1·s as centred integers (an object array), in plain Python arithmetic."""
    ring = Ring.of(secret.ring)
    level = ring.level_of(ciphertext)
    n_key_words = len(secret.ring.prime_bits) * ring.degree
    key = np.frombuffer(secret.data, "<u8", offset=len(secret.data) - 8 * n_key_words)
    key = key.reshape(-1, ring.degree)[:level].astype(object)
    c0, c1 = residues_of(ciphertext, ring).astype(object)
    primes = np.array(ring.primes[:level], object)[:, None]
    evaluated = ((c0 + c1 * key) % primes).astype(np.uint64)
    # The library changes the form of whole ciphertexts only: the phase rides in a shell.
    shell = ring.from_residues(ring.header(level), np.stack([evaluated, np.ones_like(evaluated)]))
    Evaluator(PublicKey(secret.ring, "", b"")).to_coefficients(shell)
    return centred(residues_of(shell, ring)[0], ring.primes[:level])


def centred(residues: np.ndarray, primes: tuple[int, ...]) -> np.ndarray:
    """Residues modulo each prime to integers in (−Q/2, Q/2]."""
    modulus = prod(primes)
    total = 0
    for row, q in zip(residues.astype(object), primes, strict=True):
        total = total + row * (modulus // q * pow(modulus // q, -1, q))
    total = total % modulus
    return np.where(total > modulus // 2, total - modulus, total)


def noise(ciphertext: Ciphertext, secret: SecretKey) -> np.ndarray:
    """(phase − message)/t with the message centred, as an object array of integers."""
    t = secret.ring.plain_modulus
    values = phase(ciphertext, secret)
    message = (values + t // 2) % t - t // 2
    return (values - message) // t


def coefficients(ring: Ring, slots: np.ndarray) -> np.ndarray:
    """Of the plaintext with these slots, centred."""
    t, found = ring.plain_modulus, np.zeros(ring.degree, np.int64)
    for term in ring.encode(slots).to_string().split(" + "):
        value, _, power = term.partition("x^")
        found[int(power or 0)] = int(value, 16)
    return np.where(found > t // 2, found - t, found)
