"""Is it uniform?  Chi-square, with a false alarm in one of 10^9 looks."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

FALSE_ALARM = 1e-9


def is_uniform(values: np.ndarray, modulus: int, most_cells: int = 256) -> bool:
    """Residues modulo t, in cells of (almost) equal size, at least 8 values expected in each.

    Noticed with a probability above one half: n·Σ(p−q)²/q > limit − cells, p the true and q the
    uniform probabilities.  With 64 values (8 cells, limit 56) half of the range left out; with
    16384 values (256 cells, limit 415) one half of the range 20 % likelier than the other.
    """
    flat = values.ravel().astype(np.int64)
    n_cells = min(most_cells, len(flat) // 8)
    first = [-(-cell * modulus // n_cells) for cell in range(n_cells + 1)]  # residue of each cell
    sizes = np.diff(np.array(first))
    found = np.bincount(flat * n_cells // modulus, minlength=n_cells)
    expected = sizes * (len(flat) / modulus)
    statistic = ((found - expected) ** 2 / expected).sum()
    return bool(statistic < chi2.isf(FALSE_ALARM, n_cells - 1))


def are_uniform_and_fresh(rows: np.ndarray, modulus: int) -> bool:
    """Rows of residues: uniform, and so are their differences, so that no mask serves twice."""
    wide = rows.astype(np.int64)
    differences = (wide[1:] - wide[:-1]) % modulus
    fresh = len(rows) < 2 or is_uniform(differences, modulus)
    return is_uniform(rows, modulus) and fresh
