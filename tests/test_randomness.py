"""Secret residues are uniform, fresh, and shared only by those who hold the seed and context."""

import numpy as np
import pytest

from pv4fad.errors import ParameterError
from pv4fad.randomness import secret_residues, shared_residues

T = 65537


def chi_square(values: np.ndarray, modulus: int, cells: int = 64) -> float:
    observed = np.bincount(
        (values * np.uint64(cells) // np.uint64(modulus)).astype(int), minlength=cells
    )
    edges = np.ceil(np.arange(cells + 1) * modulus / cells)
    expected = len(values) * np.diff(edges) / modulus
    return float(((observed - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("modulus", [2, 17, T, 786433, 2**31 + 11, 140737488125953])
def test_secret_residues_are_uniform(modulus):
    values = secret_residues(modulus, 200_000)
    assert values.max() < modulus
    cells = min(64, modulus)
    # Chi-square with 63 degrees of freedom exceeds 140 with probability 1e-7.
    assert chi_square(values, modulus, cells) < 140


def test_a_biased_generator_would_be_noticed():
    values = secret_residues(T, 200_000)
    values[::20] //= np.uint64(2)
    assert chi_square(values, T) > 140


def test_secret_residues_are_fresh_every_time():
    assert not np.array_equal(secret_residues(T, 64), secret_residues(T, 64))


def test_shared_residues_agree_for_the_same_seed_and_context_only():
    seed, other = bytes(32), bytes(31) + b"\x01"
    first = shared_residues(seed, b"run 1", T, 1000)
    assert np.array_equal(first, shared_residues(seed, b"run 1", T, 1000))
    assert np.array_equal(first[:10], shared_residues(seed, b"run 1", T, 10))
    assert not np.array_equal(first, shared_residues(seed, b"run 2", T, 1000))
    assert not np.array_equal(first, shared_residues(other, b"run 1", T, 1000))
    assert chi_square(shared_residues(seed, b"x", T, 200_000), T) < 140


def test_impossible_requests_are_refused():
    with pytest.raises(ParameterError, match="modulus"):
        secret_residues(0, 1)
    with pytest.raises(ParameterError, match="32 bytes"):
        shared_residues(b"short", b"", T, 1)
