"""A polynomial in every slot, evaluated at one encrypted value per slot.

    Σ_{i≤d} c_i·x^i = Σ_{j<w} c_j·x^j + Σ_{g≥1} x^(gw)·(c_gw + Σ_{1≤j<w} c_{gw+j}·x^j)

With E[x^i] for the baby steps i < w and the giant steps w, 2w, … ≤ d, every coefficient costs a
product with plain slots, and every giant step one product of ciphertexts; one relinearisation
serves them all.  Nothing is switched down.  No coefficient may be 0 in all slots, so that the time
depends on the degree alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.keys import Evaluator
from pv4fad.he.ring import Ciphertext

Coefficients = NDArray[np.uint64]
"""(degree + 1, slots), the constant first."""


def baby_steps(degree: int) -> int:
    """w: the one with the fewest powers."""
    return min(range(2, degree + 2), key=lambda w: (w - 1 + degree // w, w))


def exponents(degree: int) -> list[int]:
    """The powers that are needed, the smallest first."""
    w = baby_steps(degree)
    return [*range(1, w), *range(w, degree + 1, w)]


def evaluate(
    evaluator: Evaluator, powers: Sequence[Ciphertext], degree: int, coefficients: Coefficients
) -> Ciphertext:
    """E[Σ c_i·x^i] at the level of the powers, which are those of `exponents(degree)`.

    There may be fewer coefficients than the degree allows, and there must be two at least.
    """
    w, power = baby_steps(degree), dict(zip(exponents(degree), powers, strict=True))

    def section(start: int) -> Ciphertext | None:
        """c_start + Σ_{1≤j<w} c_{start+j}·x^j; None if there is nothing but c_start."""
        rows = enumerate(coefficients[start + 1 : start + w], 1)
        total = evaluator.add_products(None, ((power[j], row) for j, row in rows))
        if total is not None:
            evaluator.add_slots(total, coefficients[start])
        return total

    total = section(0)
    products = []
    for giant in range(w, len(coefficients), w):
        inner = section(giant)
        if inner is None:
            evaluator.add_products(total, [(power[giant], coefficients[giant])])
        else:
            products.append((inner, power[giant]))
    if products:
        evaluator.add(total, evaluator.sum_of_products(products))
    return total
