"""Keys whose uniform part nobody chose.

A public key is a pair (b, a) with b = −(a·s + t·e) for the secret s, and a relinearisation key is
several such pairs.  The owner of a key must not choose a: with a = 0, or any a of a special form,
an encryption of zero would hide nothing (`sanitise`).  So a follows from the name of the key:

    a = SHAKE-256(name, which pair, which prime), uniform modulo each prime

It is not sent and not stored; whoever knows the name derives it.  The library draws an a' of its
own, and knows no other way.  Its owner turns the library's b' into the b that belongs to a, with
the same error e:

    b = b' + (a' − a)·s,  value by value in evaluation form
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import CiphertextError
from pv4fad.he.modular import product
from pv4fad.he.ring import Residues, Ring
from pv4fad.randomness import public_residues

_PURPOSE = b"pv4fad uniform part of a key, version 1"
_BYTES_PER_RESIDUE = 8
# Before the pairs of a relinearisation key: magic and version, bytes in all; the library's name of
# the level; how many keys, how many pairs.
_RELINEARISATION = struct.Struct("<8sQ 4Q QQ")


def to_sent(ring: Ring, name: str, secret: bytes, key: bytes, *, relinearisation: bool) -> bytes:
    """b of every pair of a key that the library made, for the uniform parts that have this name."""
    n_pairs, header = _shape(ring, relinearisation=relinearisation)
    s = _residues(secret[-_polynomial_bytes(ring) :]).reshape(len(ring.key_primes), ring.degree)
    size = len(ring.key_header) + 2 * _polynomial_bytes(ring)
    body, sent = key[len(header) :], []
    for index in range(n_pairs):
        pair = _residues(body[index * size + len(ring.key_header) : (index + 1) * size])
        b_drawn, a_drawn = pair.reshape(2, len(ring.key_primes), ring.degree)
        a = uniform_part(ring, name, index, relinearisation=relinearisation)
        for row, q in enumerate(ring.key_primes):
            modulus = np.uint64(q)
            other = (a_drawn[row] + modulus - a[row]) % modulus
            sent.append((b_drawn[row] + product(other, s[row], q)) % modulus)
    return np.concatenate(sent).tobytes()


def from_sent(ring: Ring, name: str, sent: bytes, *, relinearisation: bool) -> bytes:
    """The key as the library reads it."""
    n_pairs, header = _shape(ring, relinearisation=relinearisation)
    size = _polynomial_bytes(ring)
    if len(sent) != n_pairs * size:
        raise CiphertextError(f"a key of {len(sent)} bytes, where {n_pairs * size} are expected")
    parts = [header]
    for index in range(n_pairs):
        a = uniform_part(ring, name, index, relinearisation=relinearisation)
        parts += [ring.key_header, sent[index * size : (index + 1) * size], a.tobytes()]
    return b"".join(parts)


def uniform_part(ring: Ring, name: str, index: int, *, relinearisation: bool) -> Residues:
    """a of one pair, modulo every prime, the special one included: (primes, N)."""
    kind = "relinearisation" if relinearisation else "public"
    return np.stack(
        [
            public_residues(
                "\0".join([_PURPOSE.decode(), name, kind, str(index), str(row), str(q)]).encode(),
                q,
                ring.degree,
            )
            for row, q in enumerate(ring.key_primes)
        ]
    )


def _shape(ring: Ring, *, relinearisation: bool) -> tuple[int, bytes]:
    """How many pairs a key has, and the bytes before them."""
    if not relinearisation:
        return 1, b""
    n_pairs = ring.parameters.n_data_primes
    n_bytes = n_pairs * (len(ring.key_header) + 2 * _polynomial_bytes(ring))
    magic, parms_id = ring.key_header[:8], struct.unpack_from("<4Q", ring.key_header, 16)
    size = _RELINEARISATION.size + n_bytes
    return n_pairs, _RELINEARISATION.pack(magic, size, *parms_id, 1, n_pairs)


def _polynomial_bytes(ring: Ring) -> int:
    return len(ring.key_primes) * ring.degree * _BYTES_PER_RESIDUE


def _residues(data: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(data, "<u8")
