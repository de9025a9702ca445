"""sanitise(ciphertext): what goes back to the key holder says its plaintext and nothing else.

    ct ← ct + Enc_pk(0)          c1 becomes fresh pseudo-random, whatever was computed before
    c0 ← c0 + t·e,  e ← [−R, R)  exactly uniform per coefficient: drowns the noise's history
    drop to few primes           small, and the same size for every ciphertext

If the key holder follows the protocol, the noise of the result is within N·B/2R of uniform in
statistical distance, B the static bound on the noise before (`noise`).

If it does not, there is no B: the ciphertexts that were computed with, and b of the public key, are
what it likes.  But every plaintext m that goes back in the protocol is masked, uniform modulo t in
every coefficient.  R is as large as the modulus Q allows, so that m + t·e is uniform in an interval
that fills Z_Q but for a share f; added to c0, it makes c0 uniform but for N·f, whatever c0, b and
the noise were.  c1 is hidden by a·u + t·e₁ of Enc_pk(0), a fresh encryption with the secret u, for
which a must be uniform: nobody chooses it (`uniform_parts`).

R and f come with the bound (`noise.CircuitBound`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.keys import Encryptor, Evaluator, PublicKey
from pv4fad.he.modular import HALF_BITS, remainder
from pv4fad.he.ring import Ciphertext, Ring
from pv4fad.randomness import secret_bytes, secret_residues

_PIECE_BITS = 16
_TOP_BITS = 56


@dataclass(frozen=True)
class Flood:
    """How much noise to add, at which level: t·e, e uniform in [−reach, reach)."""

    n_primes: int
    reach: int
    n_sent: int = 1
    """The primes of what is sent."""

    @classmethod
    def within(cls, n_primes: int, room: int, n_sent: int = 1) -> Flood:
        """The largest reach within a room that can be drawn: 56 bits, and zeros."""
        n_low = max(0, room.bit_length() - _TOP_BITS)
        return cls(n_primes, room >> n_low << n_low, n_sent)

    @property
    def range_bits(self) -> float:
        """log2 of the reach."""
        return log2(self.reach)


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
        """The same plaintext at few primes, as bytes, cleansed of how it was computed."""
        flooded = self.flooded(ciphertext)
        return self.ring.dump(self._evaluator.switch_to(flooded, self.flood.n_sent))

    def flooded(self, ciphertext: Ciphertext) -> Ciphertext:
        """The first two steps.  Uses up its argument."""
        ciphertext = self._evaluator.switch_to(ciphertext, self.flood.n_primes)
        cover = self.cover()
        # To add ciphertexts of different correction factors the library multiplies them, and their
        # noise with them: both must have the factor 1, that of a fresh one.
        self.ring.require_like_fresh(ciphertext, self.flood.n_primes)
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
    """t·e modulo each prime, coefficient form, for fresh e uniform in [−reach, reach)^N."""
    # e + reach = top·2^n_low + low
    n_low = max(0, flood.reach.bit_length() - _TOP_BITS)
    top = secret_residues(2 * (flood.reach >> n_low), ring.degree)
    mask, shifts = np.uint64(2**_PIECE_BITS - 1), range(0, _TOP_BITS + 1, _PIECE_BITS)
    pieces = [*uniform_pieces(ring.degree, n_low), *(top >> np.uint64(i) & mask for i in shifts)]
    places = [*range(0, n_low, _PIECE_BITS), *(n_low + i for i in shifts)]
    primes = ring.primes[: flood.n_primes]
    return np.stack([_residues(pieces, places, ring.plain_modulus, flood.reach, q) for q in primes])


def uniform_pieces(n: int, n_bits: int) -> NDArray[np.uint64]:
    """n uniform integers below 2^n_bits as 16-bit pieces, the lowest first: (pieces, n)."""
    n_pieces = -(-n_bits // _PIECE_BITS)
    pieces = np.frombuffer(secret_bytes(2 * n_pieces * n), "<u2").astype(np.uint64)
    pieces = pieces.reshape(n_pieces, n)
    if n_pieces:
        pieces[-1] >>= np.uint64(_PIECE_BITS * n_pieces - n_bits)
    return pieces


def _residues(
    pieces: Sequence[NDArray[np.uint64]], places: Sequence[int], t: int, reach: int, q: int
) -> NDArray[np.uint64]:
    """t·(Σ 2^place·piece − reach) mod q, in 64-bit words.

    Each constant t·2^place mod q is split into halves of 30 bits, so that the two sums of products
    stay far below 2^64.
    """
    low = np.full(len(pieces[0]), -t * reach % q, np.uint64)
    high = np.zeros_like(low)
    for piece, place in zip(pieces, places, strict=True):
        constant = t * 2**place % q
        low += piece * np.uint64(constant & (2**HALF_BITS - 1))
        high += piece * np.uint64(constant >> HALF_BITS)
    return remainder(high, low, q)


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
