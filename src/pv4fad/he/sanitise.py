"""sanitise(ciphertext): what goes back to the key holder says its plaintext and nothing else.

    ct ← ct + Enc_pk(0)              c1 becomes fresh pseudo-random, whatever was computed before
    c0 ← c0 + t·e,  e ← [−2^k, 2^k)  exactly uniform per coefficient: drowns the noise's history
    drop to the last prime           small, and the same size for every ciphertext

The noise of the result is within N·B/2^(k+1) of uniform in statistical distance, B the static
bound on the noise before (`noise`).  k comes with the bound, as a `Flood`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.keys import Encryptor, Evaluator, PublicKey
from pv4fad.he.ring import Ciphertext, Ring
from pv4fad.randomness import secret_bytes

_PIECE_BITS = 16
_HALF_BITS = 30


@dataclass(frozen=True)
class Flood:
    """How much noise to add, at which level: t·e, e uniform in [−2^range_bits, 2^range_bits)."""

    n_primes: int
    range_bits: int


class Sanitiser:
    """Sanitises ciphertexts under another party's public key."""

    def __init__(self, public: PublicKey, flood: Flood) -> None:
        self.ring = Ring.of(public.ring)
        self.flood = flood
        self._encryptor = Encryptor(public)
        self._evaluator = Evaluator(public)
        self._frame = _Frame(self.ring, flood.n_primes)
        self._primes = np.array(self.ring.primes[: flood.n_primes], np.uint64)[:, np.newaxis]

    def sanitise(self, ciphertext: Ciphertext) -> bytes:
        """The same plaintext at one prime, as bytes, cleansed of how it was computed."""
        return self.ring.dump(self._evaluator.switch_to(self.flooded(ciphertext), 1))

    def flooded(self, ciphertext: Ciphertext) -> Ciphertext:
        """The first two steps.  Uses up its argument."""
        ciphertext = self._evaluator.switch_to(ciphertext, self.flood.n_primes)
        cover = self.cover()
        # To add ciphertexts of different correction factors the library multiplies them, and their
        # noise with them: both must have the factor 1, that of a fresh one.
        self.ring.require_alike(ciphertext, cover)
        self._evaluator.add(ciphertext, cover)
        return ciphertext

    def cover(self, coefficients: NDArray[np.uint64] | None = None) -> Ciphertext:
        """Enc_pk(0) + t·e: what makes one ciphertext flooded, and never a second one.

        With the coefficients of a plaintext, in [0, t), it is added to the ciphertext's own.
        """
        cover = self._encryptor.zero(self.flood.n_primes)
        added = flood_residues(self.ring, self.flood)
        if coefficients is not None:
            added += coefficients
            np.subtract(added, self._primes, out=added, where=added >= self._primes)
        # The library adds ciphertexts, not lone polynomials: the flood travels as (t·e, 1), and
        # the 1 is taken off again.
        self._evaluator.add(cover, self._frame.coefficients(added))
        self._evaluator.sub(cover, self._frame.unit)
        return cover


def flood_residues(ring: Ring, flood: Flood) -> NDArray[np.uint64]:
    """t·e modulo each prime, coefficient form, for fresh e uniform in [−2^k, 2^k)^N."""
    pieces = uniform_pieces(ring.degree, flood.range_bits + 1)
    primes = ring.primes[: flood.n_primes]
    return np.stack([_residues(pieces, ring.plain_modulus, flood.range_bits, q) for q in primes])


def uniform_pieces(n: int, n_bits: int) -> NDArray[np.uint64]:
    """n uniform integers below 2^n_bits as 16-bit pieces, the lowest first: (pieces, n)."""
    n_pieces = -(-n_bits // _PIECE_BITS)
    pieces = np.frombuffer(secret_bytes(2 * n_pieces * n), "<u2").astype(np.uint64)
    pieces = pieces.reshape(n_pieces, n)
    pieces[-1] >>= np.uint64(_PIECE_BITS * n_pieces - n_bits)
    return pieces


def _residues(pieces: NDArray[np.uint64], t: int, range_bits: int, q: int) -> NDArray[np.uint64]:
    """t·(Σ_j 2^(16j)·pieces_j − 2^range_bits) mod q, in 64-bit words.

    Each constant t·2^(16j) mod q is split into halves of 30 bits, so that the two sums of products
    stay far below 2^64; the quotient of the whole by q is small enough for floating point to give
    it within one.
    """
    low = np.full(pieces.shape[1], -t * 2**range_bits % q, np.uint64)
    high = np.zeros(pieces.shape[1], np.uint64)
    for j, piece in enumerate(pieces):
        constant = t * 2 ** (_PIECE_BITS * j) % q
        low += piece * np.uint64(constant & (2**_HALF_BITS - 1))
        high += piece * np.uint64(constant >> _HALF_BITS)
    quotient = ((high.astype(np.float64) * 2**_HALF_BITS + low) / q).astype(np.uint64)
    # Wrapping arithmetic: the true remainder lies in (−2q, 2q), so its low 64 bits determine it.
    rest = ((high << np.uint64(_HALF_BITS)) + low - quotient * np.uint64(q)).view(np.int64)
    rest = np.where(rest < 0, rest + q, rest)
    reduced: NDArray[np.int64] = np.where(rest >= q, rest - q, rest)
    return reduced.astype(np.uint64)


class _Frame:
    """The constant parts around raw coefficients that make them a ciphertext at a level."""

    def __init__(self, ring: Ring, n_primes: int) -> None:
        self._ring = ring
        # The polynomial 1 is all ones in evaluation form, and (1, 0, 0, …) in coefficient form.
        zeros, ones = (fill((n_primes, ring.degree), np.uint64) for fill in (np.zeros, np.ones))
        self.unit = ring.from_residues(ring.header(n_primes), np.stack([zeros, ones]))
        self._header = ring.header(n_primes, is_evaluated=False)
        self._unit_coefficients = zeros
        self._unit_coefficients[:, 0] = 1

    def coefficients(self, residues: NDArray[np.uint64]) -> Ciphertext:
        """(residues, 1) as a ciphertext; reading brings coefficients to evaluation form."""
        both = np.stack([residues, self._unit_coefficients])
        return self._ring.from_residues(self._header, both)
