"""A polynomial in every bin, evaluated at one encrypted value per bin.

    Σ_{i≤d} c_i·x^i = Σ_{g≥0} x^(gw)·(c_gw + Σ_{1≤j<w} c_{gw+j}·x^j)

With E[x^j] for the baby steps j < w, the same in every strip, and the giant steps 1, x^w, x^(2w), …
each in a strip of its own (`he.strips`), every coefficient of a strip costs a product with plain
slots, and every ciphertext of giant steps one product of ciphertexts; one relinearisation serves
them all.  The value of a bin is the sum over its strips.  A full block has one strip; its first
giant step, 1, needs no ciphertext.

Nothing is switched down.  No coefficient may be 0 in all bins, so that the time depends on the
degree alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pv4fad.he.keys import Evaluator
from pv4fad.he.ring import Ciphertext
from pv4fad.he.strips import Strips

Rows = NDArray[np.uint64]


@lru_cache(maxsize=1024)
def baby_steps(degree: int, n_strips: int = 1) -> int:
    """w: the one with the fewest ciphertexts."""
    return min(
        range(2, degree + 2), key=lambda w: (w - 1 + _giant_ciphertexts(degree, w, n_strips), w)
    )


def n_powers(degree: int, n_strips: int = 1) -> int:
    """How many ciphertexts hold the powers that are needed."""
    w = baby_steps(degree, n_strips)
    return w - 1 + _giant_ciphertexts(degree, w, n_strips)


def _giant_ciphertexts(degree: int, w: int, n_strips: int) -> int:
    n_giants = degree // w  # without 1
    return n_giants if n_strips == 1 else -(-(n_giants + 1) // n_strips)


def exponents(degree: int, n_strips: int = 1) -> list[int]:
    """The powers that are needed besides 1, the smallest first."""
    w = baby_steps(degree, n_strips)
    return [*range(1, w), *range(w, degree + 1, w)]


def power_rows(powers: Mapping[int, Rows], degree: int, strips: Strips) -> list[Rows]:
    """What to encrypt, slot by slot; `powers`: those of `exponents`, of every bin."""
    w = baby_steps(degree, strips.n)
    giants = [powers[i] for i in range(w, degree + 1, w)]
    if strips.n > 1:
        giants = [np.ones(strips.n_bins, np.uint64), *giants]
    babies = [strips.alike(powers[j]) for j in range(1, w)]
    return [*babies, *strips.across(np.array(giants))] if giants else babies


def evaluate(
    evaluator: Evaluator,
    powers: Sequence[Ciphertext],
    degree: int,
    strips: Strips,
    coefficients: Rows,
) -> Ciphertext:
    """E[Σ c_i·x^i], shared out over the strips, at the level of the powers (`power_rows`).

    `coefficients` is (degree + 1, bins), the constant first.  There may be fewer of them than the
    degree allows, and there must be two at least.
    """
    w = baby_steps(degree, strips.n)
    babies, giants = powers[: w - 1], [*powers[w - 1 :]]
    if strips.n == 1:
        giants = [None, *giants]
    sections = np.zeros((len(giants) * strips.n * w, strips.n_bins), np.uint64)
    sections[: len(coefficients)] = coefficients
    by_giant = sections.reshape(len(giants), strips.n, w, strips.n_bins)
    total, products = None, []
    for giant, section in zip(giants, by_giant, strict=True):
        constant, *rows = (strips.across(section[:, j])[0] for j in range(w))
        inner = evaluator.add_products(None, zip(babies, rows, strict=True))
        if inner is None:
            total = evaluator.add_products(total, [(giant, constant)])
            continue
        evaluator.add_slots(inner, constant)
        if giant is None:
            total = inner
        else:
            products.append((inner, giant))
    if not products:
        return total
    value = evaluator.sum_of_products(products)
    if total is not None:
        evaluator.add(value, total)
    return value
