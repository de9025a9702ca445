"""Randomness: the operating system's CSPRNG, and SHAKE-256 where several parties need the same.

Keys, masks, shares and noise come from here and from nowhere else.  Seeded numpy generators are
for what is public or non-secret by nature: tree structures, sampling, generated data.
"""

import hashlib
import os

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError

WORD_BITS = 32  # shared residues are below 2^32, so a 32-bit word and rejection are enough
_LONG_WORD_BITS = 64  # for tags and their masks


def secret_bytes(n_bytes: int) -> bytes:
    """Fresh bytes from the operating system's CSPRNG."""
    return os.urandom(n_bytes)


def secret_residues(modulus: int, n: int) -> NDArray[np.uint64]:
    """`n` values, exactly uniform in [0, modulus), fresh from the operating system's CSPRNG."""
    bits = WORD_BITS if modulus <= 2**WORD_BITS else _LONG_WORD_BITS
    limit = _rejection_limit(modulus, bits)
    out = np.empty(0, np.uint64)
    while len(out) < n:
        missing = n - len(out)
        raw = os.urandom(bits // 8 * (missing + missing // 64 + 16))
        words = np.frombuffer(raw, f"<u{bits // 8}")
        out = np.concatenate([out, _accepted(words, limit, modulus)])
    return out[:n]


def shared_residues(seed: bytes, context: bytes, modulus: int, n: int) -> NDArray[np.uint64]:
    """`n` values uniform in [0, modulus) that everyone who holds `seed` gets for this `context`.

    The context must name everything that distinguishes two uses (run, phase, table, layer, ...):
    the same seed and context give the same values.
    """
    if len(seed) < 32:
        raise ParameterError("a shared seed needs at least 32 bytes")
    prefix = len(seed).to_bytes(4, "little") + seed + len(context).to_bytes(8, "little") + context
    return _expanded(prefix, modulus, n, WORD_BITS)


def public_residues(context: bytes, modulus: int, n: int) -> NDArray[np.uint64]:
    """`n` values uniform in [0, modulus) that everyone gets for this `context`, and nobody chose.

    Not secret: for what must be random but not of anybody's choice.
    """
    # Where a seed is shared, its length comes first, and is never 0.
    return _expanded(bytes(4) + context, modulus, n, _LONG_WORD_BITS)


def _expanded(prefix: bytes, modulus: int, n: int, bits: int) -> NDArray[np.uint64]:
    limit = _rejection_limit(modulus, bits)
    # Twice the expected need is rejected with negligible probability; read more only if it happens.
    n_words = int(n * (2**bits / limit) * 1.01) + 64
    while True:
        # SHAKE's output is a prefix of any longer output, so a retry repeats what was accepted.
        raw = hashlib.shake_256(prefix).digest(bits // 8 * n_words)
        out = _accepted(np.frombuffer(raw, f"<u{bits // 8}"), limit, modulus)
        if len(out) >= n:
            return out[:n]
        n_words *= 2


def _rejection_limit(modulus: int, bits: int = WORD_BITS) -> int:
    if not 1 <= modulus <= 2**bits:
        raise ParameterError(f"modulus {modulus} is outside 1..2^{bits}")
    return (1 << bits) // modulus * modulus


def _accepted(words: NDArray[np.unsignedinteger], limit: int, modulus: int) -> NDArray[np.uint64]:
    wide = words.astype(np.uint64)
    return wide[wide <= np.uint64(limit - 1)] % np.uint64(modulus)
