"""The equality polynomial: 1 where all 16 ones of two codewords agree, 0 where fewer do.

With x = 2·agreeing − 15 the wrong answers are ±1, ±3, …, ±15 and the right one is 17, so a product
over eight values of x² does it.  Shifted so that these values add up to zero,

    z = x² − 85
    c·f = (z⁴ + left)·(z⁴ + a·z² + b·z + d) + k·left + e,    left = g·z + h

takes three squarings and one product, four levels in all; the constants follow by comparing
coefficients.  They can be as large as t, so their multiples are taken one level above the product:
switching down takes the noise off again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from pv4fad.he.keys import Evaluator
from pv4fad.he.ring import Ciphertext

WEIGHT = 16
POLYNOMIAL_PRIMES = 6  # where the polynomial starts; it ends four levels below
_SHIFT = 85  # the mean of 1², 3², …, 15²


@dataclass(frozen=True)
class EqualityPolynomial:
    """The constants modulo t, named as above."""

    a: int
    b: int
    d: int
    e: int
    g: int
    h: int
    k: int
    at_match: int  # c, the value where all ones agree

    def of(self, evaluator: Evaluator, agreeing: Ciphertext) -> Ciphertext:
        """E[c·f] from E[2·agreeing], which is used up."""
        agreeing = evaluator.switch_to(agreeing, POLYNOMIAL_PRIMES)
        evaluator.add_constant(agreeing, -(WEIGHT - 1))
        z = evaluator.square(agreeing)
        evaluator.add_constant(z, -_SHIFT)
        second = evaluator.square(z)
        fourth = evaluator.square(second)
        z = evaluator.switch_to(z, POLYNOMIAL_PRIMES - 2)
        left = evaluator.times_constant(z, self.g)
        evaluator.add_constant(left, self.h)
        right = evaluator.times_constant(second, self.a)
        evaluator.add(right, evaluator.times_constant(z, self.b))
        evaluator.add_constant(right, self.d)
        left = evaluator.switch_to(left, POLYNOMIAL_PRIMES - 3)
        right = evaluator.switch_to(right, POLYNOMIAL_PRIMES - 3)
        rest = evaluator.times_constant(left, self.k)
        evaluator.add_constant(rest, self.e)
        evaluator.add(left, fourth)
        evaluator.add(right, fourth)
        return evaluator.multiply(left, right, plus=rest)


@lru_cache(maxsize=8)
def equality_polynomial(modulus: int) -> EqualityPolynomial:
    """The constants for a prime modulus."""
    t = modulus
    roots = [(2 * i + 1) ** 2 - _SHIFT for i in range(WEIGHT // 2)]
    wanted = _from_roots(roots, t)  # wanted[i] is the coefficient of z^i
    a = wanted[6]
    g = wanted[3] * pow(a, -1, t) % t
    b = (wanted[5] - g) % t
    h = (wanted[2] - g * b) * pow(a, -1, t) % t
    d = (wanted[4] - h) % t
    k = (wanted[1] - g * d - h * b) * pow(g, -1, t) % t
    e = (wanted[0] - h * d - k * h) % t
    at_match = 1
    for root in roots:
        at_match = at_match * ((WEIGHT + 1) ** 2 - _SHIFT - root) % t
    return EqualityPolynomial(a, b, d, e, g, h, k, at_match)


def _from_roots(roots: list[int], modulus: int) -> list[int]:
    """The coefficients of ∏ (z − root), lowest first."""
    coefficients = [1]
    for root in roots:
        padded = [0, *coefficients, 0]
        coefficients = [(low - root * high) % modulus for low, high in pairwise(padded)]
    return coefficients
