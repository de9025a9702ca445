"""Pairwise masks: what hides one bank's values vanishes in the sum over all banks (protocol §5.3).

    seed_ij = HKDF-SHA256(X25519(secret_i, public_j); run, purpose, both names, both public keys)
    mask_i  = Σ_{j after i} PRG(seed_ij, context) − Σ_{j before i} PRG(seed_ij, context)   mod t

"after" in the order of the names, so that each pair adds and subtracts the same values.  To anyone
who holds none of a bank's seeds its mask is uniform, and so is the sum over any proper subset of
the banks.  A single bank has no other bank to hide among: its mask is zero.

A context must be used for one message only: two values under one mask reveal their difference.
Seeds are for one purpose, so that those of a purpose can be forgotten when it is fulfilled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from pv4fad.errors import ParameterError, ProtocolError
from pv4fad.randomness import shared_residues

SEED_BYTES = 32
_PURPOSE = b"pv4fad pairwise mask, version 2"


@dataclass(frozen=True)
class PairwiseKey:
    """A bank's name and its X25519 secret (raw bytes)."""

    owner: str
    secret: bytes = field(repr=False)

    @property
    def public(self) -> bytes:
        """What the other banks need."""
        return X25519PrivateKey.from_private_bytes(self.secret).public_key().public_bytes_raw()


def pairwise_mask(
    own: str,
    seeds: Mapping[str, bytes],
    context: bytes,
    *,
    modulus: int,
    n: int,
) -> NDArray[np.uint64]:
    """`n` residues; those of all banks add up to 0 mod `modulus`, entry by entry.

    `seeds`: those that the bank `own` shares with each other one; `context` names what is masked.
    """
    if not context:
        raise ParameterError("a pairwise mask needs a context that names what it masks")
    if not 1 <= modulus <= 2**32:
        raise ParameterError(f"modulus {modulus} is outside 1..2^32")
    mask = np.zeros(n, np.uint64)
    for name, seed in seeds.items():
        shared = shared_residues(seed, context, modulus, n)
        mask += shared if own < name else np.uint64(modulus) - shared
        mask %= np.uint64(modulus)
    return mask


def pairwise_seeds(
    own: PairwiseKey, others: Mapping[str, bytes], run_id: str, purpose: str
) -> dict[str, bytes]:
    """The secret this bank shares with each other bank, for one purpose of this run only.

    `others`: name → X25519 public key of every other bank.
    """
    if own.owner in others:
        raise ProtocolError(f"{own.owner} cannot be a partner of itself")
    if len({own.public, *others.values()}) != len(others) + 1:
        raise ProtocolError("two parties present the same X25519 key")
    return {name: _seed(own, name, public, (run_id, purpose)) for name, public in others.items()}


def _seed(own: PairwiseKey, other: str, other_public: bytes, use: tuple[str, str]) -> bytes:
    secret_key = X25519PrivateKey.from_private_bytes(own.secret)
    try:
        shared = secret_key.exchange(X25519PublicKey.from_public_bytes(other_public))
    except ValueError:  # wrong length, or a point of low order: the secret would be known to all
        raise ProtocolError(f"the X25519 key of {other} is not valid") from None
    ends = sorted([(own.owner.encode(), own.public), (other.encode(), other_public)])
    parts = [_PURPOSE, *(word.encode() for word in use), *(part for end in ends for part in end)]
    info = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return HKDF(SHA256(), SEED_BYTES, salt=None, info=info).derive(shared)
