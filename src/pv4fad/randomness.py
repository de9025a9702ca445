"""Secret randomness: the operating system's CSPRNG, and SHAKE-256 where two parties share a seed.

Keys, masks, shares and noise come from here and from nowhere else.  Seeded numpy generators are
for what is public or non-secret by nature: tree structures, sampling, generated data.
"""

import hashlib
import os

import numpy as np
from numpy.typing import NDArray

from pv4fad.errors import ParameterError

WORD_BITS = 32  # residues are below 2^32, so a 32-bit word and rejection are enough


def secret_bytes(n_bytes: int) -> bytes:
    """Fresh bytes from the operating system's CSPRNG."""
    return os.urandom(n_bytes)


def secret_residues(modulus: int, n: int) -> NDArray[np.uint64]:
    """`n` values, exactly uniform in [0, modulus), fresh from the operating system's CSPRNG."""
    limit = _rejection_limit(modulus)
    out = np.empty(0, np.uint64)
    while len(out) < n:
        missing = n - len(out)
        words = np.frombuffer(os.urandom(4 * (missing + missing // 64 + 16)), "<u4")
        out = np.concatenate([out, _accepted(words, limit, modulus)])
    return out[:n]


def shared_residues(seed: bytes, context: bytes, modulus: int, n: int) -> NDArray[np.uint64]:
    """`n` values uniform in [0, modulus) that everyone who holds `seed` gets for this `context`.

    The context must name everything that distinguishes two uses (run, phase, table, layer, ...):
    the same seed and context give the same values.
    """
    if len(seed) < 32:
        raise ParameterError("a shared seed needs at least 32 bytes")
    limit = _rejection_limit(modulus)
    prefix = len(seed).to_bytes(4, "little") + seed + len(context).to_bytes(8, "little") + context
    # Twice the expected need is rejected with negligible probability; read more only if it happens.
    factor = 2**WORD_BITS / limit
    n_words = int(n * factor * 1.01) + 64
    while True:
        # SHAKE's output is a prefix of any longer output, so a retry repeats what was accepted.
        words = np.frombuffer(hashlib.shake_256(prefix).digest(4 * n_words), "<u4")
        out = _accepted(words, limit, modulus)
        if len(out) >= n:
            return out[:n]
        n_words *= 2


def _rejection_limit(modulus: int) -> int:
    if not 1 <= modulus <= 2**WORD_BITS:
        raise ParameterError(f"modulus {modulus} is outside 1..2^{WORD_BITS}")
    return (1 << WORD_BITS) // modulus * modulus


def _accepted(words: NDArray[np.uint32], limit: int, modulus: int) -> NDArray[np.uint64]:
    wide = words.astype(np.uint64)
    return wide[wide < np.uint64(limit)] % np.uint64(modulus)
