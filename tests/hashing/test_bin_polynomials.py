"""P is 0 at a bin's tags and L has their values; of two equal tags the first counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pv4fad.hashing.bin_polynomials import (
    BinPolynomials,
    bin_polynomials,
    inverses,
    powers_of,
    times_plus,
)
from pv4fad.hashing.tags import TAG_MODULUS as T

residues = st.integers(0, T - 1) | st.sampled_from([0, 1, T - 1, T // 2, T // 2 + 1])


def at(coefficients: np.ndarray, x: int) -> int:
    return sum(int(c) * pow(x, i, T) for i, c in enumerate(coefficients)) % T


def check(polynomials: BinPolynomials, tags, values, loads) -> None:
    for b, load in enumerate(loads):
        p, of_values = polynomials.tags[:, b], polynomials.values[:, b]
        assert p[load] == 1
        assert not p[load + 1 :].any()
        assert not of_values[load:].any()
        seen: dict[int, int] = {}
        for tag, value in zip(tags[:load, b].tolist(), values[:load, b].tolist(), strict=True):
            seen.setdefault(tag, value)
        for tag, value in seen.items():
            assert at(p, tag) == 0
            assert at(of_values, tag) == value
            assert at(p, tag + 1) != 0 or (tag + 1) % T in seen


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_polynomials_of_any_bins(data):
    loads = np.array(data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=6)))
    degree = int(loads.max()) + data.draw(st.integers(1 if loads.max() == 0 else 0, 2))
    shape = (max(1, int(loads.max())), len(loads))
    tags, values = (
        np.array(
            data.draw(
                st.lists(residues, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])
            )
        ).reshape(shape)
        for _ in range(2)
    )
    check(bin_polynomials(tags, values, loads, degree), tags, values, loads)


def test_thousands_of_bins_with_many_accounts():
    """More bins than fit one chunk, loads up to about 40; every 97th bin is checked."""
    rng = np.random.default_rng(1)
    loads = rng.poisson(20, 6000)
    tags, values = (rng.integers(0, n, (int(loads.max()), 6000)) for n in (T, 11))
    made = bin_polynomials(tags, values, loads, int(loads.max()))
    some = np.arange(0, 6000, 97)
    part = BinPolynomials(made.tags[:, some], made.values[:, some])
    check(part, tags[:, some], values[:, some], loads[some])


def test_the_same_tag_twice_keeps_the_first_value_and_disturbs_no_other():
    tags = np.array([[5, 5, 9], [5, 7, 9], [8, 5, 9]])
    values = np.array([[1, 1, 1], [2, 2, 2], [3, 3, 3]])
    loads = np.array([3, 3, 3])
    check(bin_polynomials(tags, values, loads, 3), tags, values, loads)


@given(residues, residues, residues)
def test_products_are_exact_and_centred(a, b, c):
    left, added = (np.array([x - T if x > T // 2 else x]) for x in (a, c))
    for right in (np.array([b]), np.array([-b])):
        (found,) = times_plus(left, right, added)
        assert found % T == (a * int(right[0]) + c) % T
        assert abs(int(found)) <= 0.6 * T


@pytest.mark.parametrize("n", [1, 2, 64, 65, 129, 1000])
def test_inverses(n):
    values = np.random.default_rng(n).integers(1, T, n) - T // 2
    values[values == 0] = 1
    assert all(int(v) * int(i) % T == 1 for v, i in zip(values, inverses(values), strict=True))


@given(st.lists(residues, min_size=1, max_size=5))
def test_powers(tags):
    exponents = [1, 2, 3, 4, 8, 12, 16]
    rows = powers_of(np.array(tags, np.uint64), exponents)
    assert rows.tolist() == [[pow(tag, i, T) for tag in tags] for i in exponents]
