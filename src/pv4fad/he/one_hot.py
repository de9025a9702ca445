"""Plaintexts with a power of two in a few slots and 0 in all others, ready to be multiplied.

The Galois group moves slot 0 to every slot.  x → x^g permutes the coefficients up to their sign, so
it commutes with the centred lift; in evaluation form it is a permutation of the values.  So the
mask of every slot is that of slot 0, permuted: no encoding, no transform, the same bits.

    encoded   Σ 2^w in the slots, as the library encodes it: coefficients within t/2
    summed    the sum of masks of single slots, without reduction modulo t: m of them within m·t/2

Both have the same slots.  Up to `MOST_SUMMED` masks, adding them up costs less than encoding.
"""

from __future__ import annotations

import numpy as np
import seal
from numpy.typing import NDArray

from pv4fad.he.ring import Plaintext, Ring

MOST_SUMMED = 6
"""Masks that are added up for one plaintext."""


def weight_bits(plain_modulus: int) -> int:
    """How many bits one value modulo t can hold, whatever they are."""
    return plain_modulus.bit_length() - 1


class OneHot:
    """For products at one level."""

    def __init__(self, ring: Ring, n_primes: int) -> None:
        self._ring, self._n_primes = ring, n_primes
        self._evaluator = seal.Evaluator(ring.context)
        self._primes = np.array(ring.primes[:n_primes], np.uint64)[:, np.newaxis]
        n = ring.degree
        # Place p of the evaluation form has the value at the root's power 2·reverse(p) + 1.
        reverse = _bit_reversal(n)
        self._odd = 2 * reverse + 1
        self._header, self._first = b"", []
        for weight in range(weight_bits(ring.plain_modulus)):
            first = self.encoded(np.array([0]), np.array([weight]))
            self._header, residues = ring.plaintext_parts(first)
            by_power = residues.reshape(n_primes, n)[:, reverse]
            self._first.append(np.ascontiguousarray(by_power))
        self._moves = _moves(n)

    def of(self, slots: NDArray[np.integer], weights: NDArray[np.integer]) -> Plaintext:
        """2^weight in each of these slots, all different; not none."""
        if len(slots) > MOST_SUMMED:
            return self.encoded(slots, weights)
        total = self._of_slot(int(slots[0]), int(weights[0]))
        for slot, weight in zip(slots[1:].tolist(), weights[1:].tolist(), strict=True):
            total += self._of_slot(slot, weight)
            np.minimum(total, total - self._primes, out=total)  # wraps where it is below the prime
        return self._ring.plaintext(self._header, total)

    def encoded(self, slots: NDArray[np.integer], weights: NDArray[np.integer]) -> Plaintext:
        """The same slots in the library's own way."""
        values = np.zeros(self._ring.degree, np.uint64)
        values[slots] = np.uint64(1) << weights.astype(np.uint64)
        level = self._ring.parms_id(self._n_primes)
        return self._evaluator.transform_to_ntt(self._ring.encode(values), level)

    def _of_slot(self, slot: int, weight: int) -> NDArray[np.uint64]:
        powers = self._odd * self._moves[slot]
        powers &= 2 * self._ring.degree - 1
        powers >>= 1
        return self._first[weight].take(powers, axis=1)


def _bit_reversal(n: int) -> NDArray[np.int64]:
    bits, numbers = n.bit_length() - 1, np.arange(n)
    reverse = np.zeros(n, np.int64)
    for i in range(bits):
        reverse |= ((numbers >> i) & 1) << (bits - 1 - i)
    return reverse


def _moves(n: int) -> list[int]:
    """For each slot the g for which x → x^g takes the mask of slot 0 to its own.

    Slot i is the evaluation at the power 3^i of the root, slot n/2 + i at −3^i.
    """
    powers = [pow(3, i, 2 * n) for i in range(n // 2)]
    powers += [2 * n - power for power in powers]
    return [pow(power, -1, 2 * n) for power in powers]
